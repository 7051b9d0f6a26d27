"""A package checks its files and compiles its model once."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from edgekit.bundle import read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.results import ResultsDevice

if TYPE_CHECKING:
    from .conftest import Swift

pytestmark = [pytest.mark.slow, pytest.mark.swift, pytest.mark.xdist_group("swift")]


def test_files_are_held_against_the_manifest(swift: Swift, bundle: Path) -> None:
    stub = swift.stubbed(bundle, ["y", "v"])
    digest = hashlib.sha256((bundle / "manifest.json").read_bytes()).hexdigest()
    weights = "model.mlpackage/Data/com.apple.CoreML/model.mlmodel"
    expected: dict[str, dict[str, str]] = {
        "whole": {},
        "known": {},
        "beside": {},
        "other": {"manifest.json": "changed"},
        "changed": {weights: "changed"},
        "missing": {weights: "missing"},
        "added": {"model.mlpackage/Data/more.bin": "not in the manifest"},
    }
    copies = stub.folder / "copies"
    for name in expected:
        shutil.copytree(bundle, copies / name)
    (copies / "known" / "digest.txt").write_text(digest.upper())
    (copies / "other" / "digest.txt").write_text(digest[::-1])
    (copies / "beside" / "report.md").write_text("is none of the model's")
    data = bytearray((copies / "changed" / weights).read_bytes())
    data[-1] ^= 1
    (copies / "changed" / weights).write_bytes(data)
    (copies / "missing" / weights).unlink()
    (copies / "added" / "model.mlpackage" / "Data" / "more.bin").write_text("")
    stub.passes("IntegrityTests", COPIES=swift.path(copies))
    assert json.loads((stub.folder / "copies.json").read_text()) == expected


def test_what_xcode_compiled_is_loaded_and_is_no_file_of_the_manifest(swift: Swift, bundle: Path) -> None:
    opened = read_bundle(bundle)
    stub = swift.stubbed(bundle, [feature.native_name for feature in opened.outputs])
    copies = stub.folder / "copies"
    for name in ("packaged", "compiled", "both"):
        shutil.copytree(bundle, copies / name)
    shutil.copytree(copies / "both" / "model.mlpackage", copies / "both" / "model.mlmodelc")
    (copies / "compiled" / "model.mlpackage").rename(copies / "compiled" / "model.mlmodelc")
    (stub.bundle / "model.mlpackage").rename(stub.bundle / "model.mlmodelc")
    given = {"COPIES": swift.path(copies), "MAIN_MODEL": "model.mlmodelc", "EDGEKIT_RESULTS": swift.path(stub.folder)}
    stub.passes("IntegrityTests", "GoldenCheckTests", **given)
    found = json.loads((stub.folder / "copies.json").read_text())
    assert found["packaged"] == {}
    assert found["compiled"] == {"model.mlpackage": "compiled when the app was built"}
    assert set(found["both"].values()) == {"not in the manifest"}
    assert {path.partition("/")[0] for path in found["both"]} == {"model.mlmodelc"}
    verification = verify_bundle(opened, device=ResultsDevice(stub.folder / f"{opened.name}.results.json"))
    assert all(output.exact for output in verification.golden)


def test_a_model_is_compiled_once(swift: Swift, bundle: Path) -> None:
    stub = swift.stubbed(bundle, ["y", "v"])
    # the stub stands beside the manifest's files: it is of the model here, as the sums are taken
    manifest = json.loads((stub.bundle / "manifest.json").read_text())
    added = stub.bundle / "model.mlpackage" / "stub.json"
    listed = {"path": "model.mlpackage/stub.json", "bytes": added.stat().st_size}
    listed["sha256"] = hashlib.sha256(added.read_bytes()).hexdigest()
    manifest["files"].append(listed)
    (stub.bundle / "manifest.json").write_text(json.dumps(manifest))
    stub.passes("CompiledModelTests")
