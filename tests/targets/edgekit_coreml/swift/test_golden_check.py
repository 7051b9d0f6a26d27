"""The golden check, compiled by Swift 6 and run with stubs: the results that it writes are judged."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgekit.bundle import read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.results import ResultsDevice

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


def test_the_check_writes_results_that_are_judged(swift: Swift, bundle: Path) -> None:
    opened = read_bundle(bundle)
    natives = [feature.native_name for feature in opened.outputs]
    stub = swift.stubbed(bundle, natives)
    stub.passes(
        "BoxReadingTests",
        "GoldenCheckTests",
        "GoldenResultsTests",
        "NumPyArrayTests",
        "OutputTallyTests",
        "PictureInputTests",
        EDGEKIT_RESULTS=swift.path(stub.folder),
    )
    results = ResultsDevice(stub.folder / f"{opened.name}.results.json")
    verification = verify_bundle(opened, device=results)
    assert verification.executed_by.startswith("Core ML, ")
    assert all(output.exact for output in verification.golden)

    model = stub.bundle / "model.mlpackage" / "stub.json"
    model.write_text(json.dumps(json.loads(model.read_text()) | {"outputs": natives[::-1]}))
    wrong = stub.test("GoldenCheckTests", EDGEKIT_RESULTS=swift.path(stub.folder))
    assert wrong.returncode != 0
    assert "4 elements instead of 6" in wrong.stdout


@pytest.mark.parametrize(
    ("target", "also", "system", "executed"),
    [
        ("ios18", "ios27", {"STUB_CORE_AI": "1"}, "ios27"),
        ("ios18", "ios27", {}, "ios18"),
        ("ios27", None, {"STUB_CORE_AI": "1"}, "ios27"),
    ],
)
def test_each_system_takes_its_build(
    swift: Swift, packaged: Callable[..., Path], target: str, also: str | None, system: dict[str, str], executed: str
) -> None:
    pytest.importorskip("coreai")
    bundle = packaged(target, *([also] if also else []))
    opened = read_bundle(bundle)
    stub = swift.stubbed(bundle, [feature.native_name for feature in opened.outputs])
    holds = {"MAIN_MODEL": opened.main.name, **({"FURTHER_BUILD": also} if also else {})}
    stub.passes("GoldenCheckTests", EDGEKIT_RESULTS=swift.path(stub.folder), **system, **holds)
    results = stub.folder / f"{opened.name}.results.json"
    assert json.loads(results.read_text())["profile"] == executed
    verification = verify_bundle(opened, device=ResultsDevice(results))
    assert verification.executed_by.startswith("Core AI, " if system else "Core ML, ")
    assert all(output.exact for output in verification.golden)


def test_a_system_that_loads_none_of_the_builds_says_so(swift: Swift, packaged: Callable[..., Path]) -> None:
    pytest.importorskip("coreai")
    stub = swift.stubbed(packaged("ios27"), ["y", "v"])
    done = stub.test("GoldenCheckTests", MAIN_MODEL="model.aimodel")
    assert done.returncode != 0
    assert 'noBuild(["model.aimodel"])' in done.stdout
