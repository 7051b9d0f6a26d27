from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from pathlib import Path

from edgekit.config import Inconclusive
from edgekit.quality_gate.bundles import Judged
from edgekit.quality_gate.junit import junit_xml
from edgekit.quality_gate.verdict import Outcome, Verdict

COUNTS = {"failures": "failure", "errors": "error", "skipped": "skipped"}
ALLOWED = {
    "testsuites": {"testsuite"},
    "testsuite": {"testcase"},
    "testcase": {"failure", "error", "skipped", "system-out"},
}
ATTRIBUTES = {
    "testsuites": {"name", "time", "tests", "failures", "errors"},
    "testsuite": {"name", "time", "tests", "failures", "errors", "skipped"},
    "testcase": {"name", "time", "classname"},
    "failure": {"type", "message"},
    "error": {"type", "message"},
    "skipped": {"type", "message"},
    "system-out": set(),
}
"""What is used of the attributes in ``junit-10.xsd``: Jenkins' xUnit plugin refuses a file with others."""


def parsed(judged: list[Judged]) -> ElementTree.Element:
    text = junit_xml(judged)
    assert text.startswith('<?xml version="1.0" encoding="UTF-8"?>\n<testsuites ')
    assert text.endswith("</testsuites>\n")
    return ElementTree.fromstring(text)


def test_the_structure_is_what_ci_services_read(judged: Callable[..., list[Judged]]) -> None:
    root = parsed(judged())
    for element in root.iter():
        assert {child.tag for child in element} <= ALLOWED.get(element.tag, set())
        assert set(element.attrib) <= ATTRIBUTES[element.tag]
        if element.tag in ("failure", "skipped"):
            assert element.text == element.get("message")  # GitLab shows the text, Jenkins the attribute
    for owner in (root, *root):
        assert int(owner.get("tests", "")) == len(list(owner.iter("testcase")))
        for count, tag in COUNTS.items():
            if count in ATTRIBUTES[owner.tag]:
                assert int(owner.get(count, "")) == len(list(owner.iter(tag)))
        assert float(owner.get("time", "")) >= 0
    for case in root.iter("testcase"):
        assert case.get("name")
        assert case.get("classname")


def test_each_bundle_is_a_suite_and_each_budget_a_case(judged: Callable[..., list[Judged]]) -> None:
    good, bad, odd, gone, free = parsed(judged())
    assert [suite.get("name") for suite in (good, bad, odd, gone, free)] == ["good", "bad", "odd", "gone", "free"]
    assert [case.get("name") for case in odd] == ["size", "latency"]
    assert odd.get("time") == "12.500"
    failure = bad.find("testcase/failure")
    assert failure is not None
    assert failure.attrib == {"message": "83.14 kB <& more>; wanted at most 80 kB", "type": "broken"}
    error = gone.find("testcase/error")
    assert error is not None
    assert error.attrib == {"message": "has not been built", "type": "InputError"}
    assert error.text == "bundles/gone: has not been built\nhint: `edgekit build` builds it"
    assert len(free) == 0


def test_what_is_not_clear_is_skipped_or_fails(judged: Callable[..., list[Judged]]) -> None:
    for inconclusive, tag in (
        (Inconclusive.WARN, "skipped"),
        (Inconclusive.PASS, "skipped"),
        (Inconclusive.FAIL, "failure"),
    ):
        element = parsed(judged(inconclusive))[2].find(f"testcase/{tag}")
        assert element is not None
        assert "0.500 (0.480 – 0.520); wanted at most 0.50" in element.get("message", "")


def test_characters_that_xml_cannot_hold_are_replaced() -> None:
    verdict = Verdict("size", "at most \x00 1", "\x1b[31m2 \ud800", Outcome.BROKEN)
    root = parsed([Judged(Path("b"), "b\x07", (verdict,))])
    assert root[0].get("name") == "b�"
    failure = root.find("*/testcase/failure")
    assert failure is not None
    assert failure.get("message") == "�[31m2 �; wanted at most � 1"
