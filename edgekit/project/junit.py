"""A build as JUnit XML: one suite with a test case for each declared bundle."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

from edgekit.project.building import ProjectBundle
from edgekit.reporting.junit_document import junit_document, junit_element, junit_suite


def build_junit(results: Sequence[ProjectBundle]) -> str:
    """The document's text: a ``failure`` is a bundle that could not be built.

    The suite's time is the sum over all processes, several of which may have worked at the same time.
    """
    return junit_document(
        "edgekit build", [junit_suite("edgekit build", map(_case, results), sum(one.seconds for one in results))]
    )


def _case(one: ProjectBundle) -> ElementTree.Element:
    case = junit_element("testcase", name=one.declared.name, classname="edgekit build", time=f"{one.seconds:.3f}")
    if one.failure is None:
        case.append(junit_element("system-out", "up to date" if one.skipped else "built"))
    else:
        first_line = one.failure.text.partition("\n")[0]
        kind = f"exit code {one.failure.exit_code}"
        case.append(junit_element("failure", one.failure.text, message=first_line, type=kind))
    return case
