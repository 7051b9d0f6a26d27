"""Bundles for Core AI, alone and beside Core ML's."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.bundle import Bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.errors import RequirementError
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit_mlprogram.app_package import app_package, module_name


@pytest.fixture
def model(tmp_path: Path) -> Path:
    random = np.random.default_rng(3)
    weights = {
        "w": random.standard_normal((64, 3, 3, 3)).astype(np.float32),
        "v": random.standard_normal((64, 5)).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            helper.make_node("Sigmoid", ["c"], ["s"]),
            helper.make_node("GlobalAveragePool", ["s"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("Gemm", ["f", "v"], ["y"]),
        ],
        "test",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def test_one_bundle_for_old_and_new_systems(model: Path, tmp_path: Path) -> None:
    request = PackageRequest(
        model, "ios18", tmp_path / "bundle", precision="float32", also=("ios27",), witness="coreai"
    )
    bundle = package(request, Progress())
    mains = [build.main.relative_to(bundle.path).as_posix() for build in bundle.builds]
    assert mains == ["model.mlpackage", "ios27/model.aimodel"]
    description = (bundle.path / "Package.swift").read_text()
    assert '.process("model.mlpackage"), .copy("ios27")]' in description
    assert not (bundle.path / "ios27" / "Package.swift").exists()
    found = verify_bundle(bundle)
    assert found.executed_by.startswith("EdgeKit reference runtime")
    assert found.further["ios27"].executed_by.startswith("Apple's Core AI runtime")
    for golden in (found.golden, found.further["ios27"].golden):
        assert all(output.sqnr_db is not None and output.sqnr_db > 100 for output in golden)


def test_layers_are_compared_inside_apples_runtime(model: Path, tmp_path: Path) -> None:
    bundle: Bundle = package(PackageRequest(model, "ios27", tmp_path / "bundle", precision="float32"), Progress())
    divergence = verify_bundle(bundle, model=model, layers=True).divergence
    assert divergence is not None
    assert divergence.executed_by.startswith("Apple's Core AI runtime")
    assert [layer.value for layer in divergence.layers] == ["c", "s", "p", "f", "y"]
    assert divergence.first is None


def test_layers_of_a_quantized_bundle_are_to_be_seen_in_one_that_is_not(model: Path, tmp_path: Path) -> None:
    bundle = package(PackageRequest(model, "ios27", tmp_path / "bundle", quantize="int8-weights"), Progress())
    with pytest.raises(RequirementError, match="cannot show what the model computes inside") as caught:
        verify_bundle(bundle, model=model, layers=True)
    assert "the original is not what was quantized" in str(caught.value.found)
    assert caught.value.hint == "package the model with --quantize none to compare its layers"


def test_the_swift_package_holds_what_each_system_loads() -> None:
    files = app_package("digits-ios18", {"model.aimodel": "ios27", "ios18/model.mlpackage": "ios18"})
    assert '.copy("model.aimodel"), .copy("ios18")]' in files["Package.swift"]
    assert 'platforms: [.iOS("18.0"), .macOS("15.0")]' in files["Package.swift"]
    assert 'name: "DigitsIos18Model"' in files["Package.swift"]
    assert "import DigitsIos18ModelGolden" in files["swift/GoldenCheckTests/GoldenCheckTests.swift"]
    assert "PackagedModel" not in "".join(files.values())
    assert "swift/EdgeKitBundle/CoreAIBuild.swift" in files
    assert "swift/Package.swift" not in files


def test_builds_for_other_devices_are_no_part_of_the_app() -> None:
    files = app_package("digits", {"model.mlpackage": "ios16", "intel-cpu/model.xml": "intel-cpu"})
    description = files["Package.swift"]
    assert 'resources: [.copy("manifest.json"), .process("model.mlpackage")]' in description
    assert description.count('"report.md", "intel-cpu"') == 2
    assert 'platforms: [.iOS("16.0"), .macOS("13.0")]' in description


def test_a_module_has_a_name_of_its_own_that_swift_takes() -> None:
    assert module_name("digits-ios18") == "DigitsIos18Model"
    assert module_name("yolo11n_pose") == "Yolo11nPoseModel"
    assert module_name("2nd try") == "Bundle2ndTryModel"
    names = ["笑顔", "顔", "gesicht", "gesücht", "---"]
    modules = [module_name(name) for name in names]
    assert len(set(modules)) == len(names)
    assert all(re.fullmatch(r"[A-Z][A-Za-z0-9]*Model", module) for module in modules)
