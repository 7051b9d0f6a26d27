"""JUnit XML, which every CI service shows: suites of test cases, with their counts.

There is no standard; the documents use what Jenkins, GitLab and GitHub's report actions have in common:
``testsuites``, ``testsuite`` and ``testcase`` with ``failure``, ``error``, ``skipped`` and ``system-out``. They are
valid by the schema that Jenkins' xUnit plugin demands (``junit-10.xsd``), in which ``testsuites`` has no ``skipped``.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence

_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


def junit_document(name: str, suites: Sequence[ElementTree.Element]) -> str:
    """The text of a document with the suites and the sums of their counts and times."""
    totals = {
        count: str(sum(int(suite.get(count, "0")) for suite in suites)) for count in ("tests", "failures", "errors")
    }
    seconds = sum(float(suite.get("time", "0")) for suite in suites)
    root = junit_element("testsuites", name=name, **totals, time=f"{seconds:.3f}")
    root.extend(suites)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=False).join(
        ('<?xml version="1.0" encoding="UTF-8"?>\n', "\n")
    )


def junit_suite(name: str, cases: Iterable[ElementTree.Element], seconds: float) -> ElementTree.Element:
    """A suite of test cases, which took ``seconds`` together."""
    suite = junit_element("testsuite", name=name)
    suite.extend(cases)
    counts = {"tests": "testcase", "failures": "*/failure", "errors": "*/error", "skipped": "*/skipped"}
    for count, path in counts.items():
        suite.set(count, str(len(suite.findall(path))))
    suite.set("time", f"{seconds:.3f}")
    return suite


def junit_element(tag: str, text: str = "", **attributes: str) -> ElementTree.Element:
    """An element; characters that XML cannot hold are replaced."""
    element = ElementTree.Element(tag, {name: _clean(value) for name, value in attributes.items()})
    element.text = _clean(text) or None
    return element


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("�", text)
