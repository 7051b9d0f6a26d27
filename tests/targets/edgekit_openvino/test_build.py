from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from edgekit.errors import UnsupportedOpsError
from edgekit.registry import find_profile
from edgekit.stages.load import Load
from edgekit.target import BuildOptions
from edgekit_openvino.frontend import read_by_openvino

LARGEST = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 4] x) => (float[1, 3] y) { y = ReduceMax<axes = [2], keepdims = 0>(x) }"""


def operations(tmp_path: Path, text: str, options: BuildOptions) -> list[str]:
    """The kinds of operations in what is built of a model."""
    import openvino

    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    target, profile = find_profile("intel-cpu")
    artifact = target.build(Load()(tmp_path / "m.onnx").model, profile, tmp_path, options)
    return [operation.get_type_name() for operation in openvino.Core().read_model(artifact.main).get_ordered_ops()]


def test_what_is_mended_is_built_unless_the_onnx_file_ships(tmp_path: Path) -> None:
    assert "Select" in operations(tmp_path, LARGEST, BuildOptions(draft=True))
    assert "Select" in operations(tmp_path, LARGEST, BuildOptions(onnx_ships=True))
    assert "Select" not in operations(tmp_path, LARGEST, BuildOptions(draft=True, onnx_ships=True))


def test_a_draft_has_the_operations_of_what_ships_in_a_longer_topology(tmp_path: Path) -> None:
    shipping, draft = (tmp_path / name for name in ("shipping", "draft"))
    shipping.mkdir()
    draft.mkdir()
    assert operations(shipping, LARGEST, BuildOptions()) == operations(draft, LARGEST, BuildOptions(draft=True))
    assert (shipping / "model.bin").read_bytes() == (draft / "model.bin").read_bytes()
    assert (shipping / "model.xml").stat().st_size < 0.9 * (draft / "model.xml").stat().st_size


def test_what_openvino_misreads_is_refused_as_ever(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[2, 3, 4] x) => (float[2, 4] y) { y = ReduceLogSum<axes = [1], keepdims = 0>(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "reduced.onnx")
    assert read_by_openvino(Load()(tmp_path / "reduced.onnx").model) is None
    with pytest.raises(UnsupportedOpsError, match="ReduceLogSum"):
        operations(tmp_path, text, BuildOptions(draft=True, onnx_ships=True))


@pytest.mark.parametrize("profile_name", ["intel-cpu", "ios18"])
def test_integers_times_the_factor_of_a_hash_are_warned_of(tmp_path: Path, profile_name: str) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (int64[4] x) => (int64[4] y) <int64 k = {73856093}, int64 m = {10007}> { [p] p = Mul(x, k) y = Mod(p, m) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "hash.onnx")
    target, profile = find_profile(profile_name)
    (tmp_path / "built").mkdir()
    model = Load()(tmp_path / "hash.onnx").model
    (warning,) = target.build(model, profile, tmp_path / "built", BuildOptions()).record["warnings"]
    assert warning.startswith("node 'p' multiplies 64-bit integers by 73856093: the device computes in 32 bits")


@pytest.mark.parametrize("profile_name", ["intel-cpu", "ios18"])
def test_integers_of_any_size_that_are_multiplied_are_warned_of(tmp_path: Path, profile_name: str) -> None:
    """100,000 squared is 1,410,065,408 in 32 bits."""
    text = """<ir_version: 8, opset_import: ["" : 17]> g (int64[4] x) => (int64[4] y) { [p] y = Mul(x, x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "square.onnx")
    target, profile = find_profile(profile_name)
    (tmp_path / "built").mkdir()
    model = Load()(tmp_path / "square.onnx").model
    (warning,) = target.build(model, profile, tmp_path / "built", BuildOptions()).record["warnings"]
    assert warning.startswith("node 'p' multiplies 64-bit integers with each other: the device computes in 32 bits")
