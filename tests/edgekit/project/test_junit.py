import xml.etree.ElementTree as ElementTree
from pathlib import Path

from edgekit.config import Budget, DeclaredBundle
from edgekit.processes.workers import Failure
from edgekit.project.building import ProjectBundle
from edgekit.project.junit import build_junit


def declared(name: str) -> DeclaredBundle:
    here = Path()
    return DeclaredBundle(name, here / "m.onnx", "web", here / name, Budget(), here / "edgekit.toml", here)


def test_each_bundle_is_a_case() -> None:
    text = "m.onnx: cannot be read\nhint: export it again"
    failure = Failure(text, {}, exit_code=2)
    results = [
        ProjectBundle(declared("good"), None, seconds=12.25),
        ProjectBundle(declared("same"), None, skipped=True),
        ProjectBundle(declared("bad"), None, failure=failure, seconds=0.5),
    ]
    root = ElementTree.fromstring(build_junit(results))
    assert root.attrib == {
        "name": "edgekit build",
        "tests": "3",
        "failures": "1",
        "errors": "0",
        "time": "12.750",
    }
    (suite,) = root
    assert [(case.get("name"), [part.tag for part in case]) for case in suite] == [
        ("good", ["system-out"]),
        ("same", ["system-out"]),
        ("bad", ["failure"]),
    ]
    assert [case.get("time") for case in suite] == ["12.250", "0.000", "0.500"]
    assert [case.findtext("system-out") for case in suite] == ["built", "up to date", None]
    found = suite.find("testcase/failure")
    assert found is not None
    assert found.attrib == {"message": "m.onnx: cannot be read", "type": "exit code 2"}
    assert found.text == text
