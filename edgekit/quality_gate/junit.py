"""The verdicts as JUnit XML: a suite for each bundle, a test case for each budget.

A ``failure`` is a budget that is broken, an ``error`` a bundle that cannot be judged. ``skipped`` is an inconclusive
measurement that the project does not count as a failure, or a comparison that cannot be made. Each has its message also
as text: GitLab shows the text (``lib/gitlab/ci/parsers/test/junit.rb``), Jenkins the attribute.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.reporting.junit_document import junit_document, junit_element, junit_suite


def junit_xml(judged: Sequence[Judged]) -> str:
    """The document's text."""
    return junit_document("edgekit gate", [_suite(one) for one in judged])


def _suite(judged: Judged) -> ElementTree.Element:
    cases = [_case(judged, verdict) for verdict in judged.verdicts]
    if judged.error is not None:
        case = junit_element("testcase", name="judged", classname=judged.name)
        kind = type(judged.error).__name__
        case.append(junit_element("error", str(judged.error), message=judged.error.message, type=kind))
        cases.append(case)
    return junit_suite(judged.name, cases, sum(ratio.seconds for ratio in judged.ratios))


def _case(judged: Judged, verdict: Verdict) -> ElementTree.Element:
    case = junit_element("testcase", name=verdict.budget, classname=judged.name)
    message = f"{verdict.found}; wanted {verdict.limit}"
    if judged.fails(verdict):
        case.append(junit_element("failure", message, message=message, type=verdict.outcome))
    elif verdict.outcome in (Outcome.INCONCLUSIVE, Outcome.NOT_COMPARED):
        text = f"{verdict.outcome}: {message}"
        case.append(junit_element("skipped", text, message=text))
    case.append(junit_element("system-out", message))
    return case
