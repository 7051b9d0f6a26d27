"""The verdicts as JUnit XML, which every CI service shows: a suite a bundle, a test case a budget.

There is no standard; what is written is what Jenkins, GitLab and GitHub's report actions have in common:
``testsuites``, ``testsuite`` and ``testcase`` with ``failure`` (a budget that is broken), ``error`` (a bundle that
cannot be judged) and ``skipped`` (a measurement that is not clear, and that the project does not want to fail, or one
that cannot be made).
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.verdict import Outcome, Verdict

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def junit_xml(judged: Sequence[Judged]) -> str:
    """The document's text."""
    suites = [_suite(one) for one in judged]
    root = ElementTree.Element("testsuites", {"name": "edgekit gate", **_totals(suites)})
    root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def _suite(judged: Judged) -> ElementTree.Element:
    cases = [_case(judged, verdict) for verdict in judged.verdicts]
    if judged.error is not None:
        case = _element("testcase", name="judged", classname=judged.name)
        error = _element("error", message=judged.error.message, type=type(judged.error).__name__)
        error.text = _text(str(judged.error))
        case.append(error)
        cases.append(case)
    suite = _element("testsuite", name=judged.name)
    suite.extend(cases)
    counts = {
        "tests": len(cases),
        "failures": len(suite.findall("testcase/failure")),
        "errors": len(suite.findall("testcase/error")),
        "skipped": len(suite.findall("testcase/skipped")),
    }
    for name, count in counts.items():
        suite.set(name, str(count))
    suite.set("time", f"{sum(ratio.seconds for ratio in judged.ratios):.3f}")
    return suite


def _case(judged: Judged, verdict: Verdict) -> ElementTree.Element:
    case = _element("testcase", name=verdict.budget, classname=judged.name)
    message = f"{verdict.found}; wanted {verdict.limit}"
    if judged.fails(verdict):
        case.append(_element("failure", message=message, type=verdict.outcome))
    elif verdict.outcome in (Outcome.INCONCLUSIVE, Outcome.NOT_COMPARED):
        case.append(_element("skipped", message=f"{verdict.outcome}: {message}"))
    output = _element("system-out")
    output.text = _text(message)
    case.append(output)
    return case


def _totals(suites: Sequence[ElementTree.Element]) -> dict[str, str]:
    counts = {
        name: str(sum(int(suite.get(name, "0")) for suite in suites))
        for name in ("tests", "failures", "errors", "skipped")
    }
    return {**counts, "time": f"{sum(float(suite.get('time', '0')) for suite in suites):.3f}"}


def _element(tag: str, **attributes: str) -> ElementTree.Element:
    return ElementTree.Element(tag, {name: _text(value) for name, value in attributes.items()})


def _text(text: str) -> str:
    return _NOT_IN_XML.sub("�", text)
