"""Products of integers with scales for each row, or for each column of several matrices.

OpenVINO is wrong for IR that is written without the corrections.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit.errors import InputError
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
from edgekit_openvino.exact import corrections
from tests.targets.edgekit_openvino.exact.three_ways import converted

READ = "u = QuantizeLinear (x, s, z) v = DequantizeLinear (u, s, z)"
ROUNDED = "q = QuantizeLinear (m, t, z) y = DequantizeLinear (q, t, z)"
BEHIND = {"": ROUNDED, "Relu": f"r = Relu (m) {ROUNDED}".replace("(m, t", "(r, t")}

Run = Callable[[onnx.ModelProto, dict[str, np.ndarray], Path], np.ndarray]


def model(body: str, weights: tuple[int, ...], axis: int, fed: tuple[int, ...]) -> onnx.ModelProto:
    sizes = ", ".join(map(str, fed))
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 19]> g (float[{sizes}] x) => (float[{", ".join("abcd"[: len(fed)])}] y) '
        f"{{ w = DequantizeLinear <axis = {axis}> (i, c, n) {READ} {body} }}"
    )
    rng = np.random.default_rng(0)
    arrays = {
        "i": rng.integers(-90, 91, weights).astype(np.int8),
        "c": rng.uniform(0.001, 0.01, weights[axis]).astype(np.float32),
        "n": np.zeros(weights[axis], np.int8),
        "s": np.float32(0.03),
        "t": np.float32(0.05),
        "z": np.uint8(128),
    }
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(a), name) for name, a in arrays.items())
    return proto


@pytest.fixture
def uncorrected(monkeypatch: pytest.MonkeyPatch) -> Run:
    """What OpenVINO computes of IR that is written without the corrections of products."""

    def run(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> np.ndarray:
        with monkeypatch.context() as without:
            without.setattr(corrections, "multiply_in_floats", lambda *_: None)
            without.setattr(corrections, "keep_scaled_rows", lambda *_: None)
            return converted(proto, feeds, folder)

    return run


def close(found: np.ndarray, right: np.ndarray) -> bool:
    """Whether all numbers but a few, which lie between two integers, are the same, and those are one step apart."""
    return bool(np.mean(np.abs(found - right) > 1e-3) < 0.01 and np.abs(found - right).max() < 0.051)


@pytest.mark.parametrize("behind", BEHIND)
@pytest.mark.parametrize("batch", [1, 3])
def test_a_scale_for_each_row_of_a_square(behind: str, batch: int, uncorrected: Run, tmp_path: Path) -> None:
    """There are as many columns as rows: OpenVINO takes one for the other."""
    proto = model(f"m = MatMul (w, v) {BEHIND[behind]}", (24, 40), 0, (batch, 40, 24))
    feeds = {"x": np.random.default_rng(1).standard_normal((batch, 40, 24)).astype(np.float32)}
    (right,) = ReferenceEvaluator(proto).run(None, feeds)
    if not behind:
        assert not close(uncorrected(proto, feeds, tmp_path), right)  # still
    assert close(converted(proto, feeds, tmp_path), right)


@pytest.mark.parametrize("columns", [1, 40])
def test_a_scale_for_each_row_of_another_size(columns: int, uncorrected: Run, tmp_path: Path) -> None:
    proto = model(f"m = MatMul (w, v) {ROUNDED}", (24, 8), 0, (1, 8, columns))
    feeds = {"x": np.random.default_rng(1).standard_normal((1, 8, columns)).astype(np.float32)}
    with pytest.raises(InputError, match="cannot load"):
        uncorrected(proto, feeds, tmp_path)  # still
    (right,) = ReferenceEvaluator(proto).run(None, feeds)
    assert close(converted(proto, feeds, tmp_path), right)


@pytest.mark.parametrize("rounded", [False, True])
@pytest.mark.parametrize("fed", [(4, 8, 16), (4, 1, 16), (2, 4, 8, 16)])
def test_a_scale_for_each_column_of_several_matrices(
    fed: tuple[int, ...], rounded: bool, uncorrected: Run, tmp_path: Path
) -> None:
    proto = model(f"m = MatMul (v, w) {ROUNDED if rounded else 'y = Identity (m)'}", (4, 16, 24), 2, fed)
    feeds = {"x": np.random.default_rng(1).standard_normal(fed).astype(np.float32)}
    (right,) = ReferenceEvaluator(proto).run(None, feeds)
    if own_set() not in WITHOUT_VNNI:
        assert not close(uncorrected(proto, feeds, tmp_path), right)  # still
    assert close(converted(proto, feeds, tmp_path), right)
    assert (tmp_path / "model.bin").stat().st_size < 4 * 16 * 24 * 2  # stored in 8 bits


@pytest.mark.parametrize(
    ("body", "weights", "axis", "fed"),
    [
        (f"m = MatMul (w, v) {ROUNDED}", (24, 8), 1, (1, 8, 40)),  # a scale for each column of the first factor
        ("y = MatMul (w, v)", (24, 8), 0, (1, 8, 40)),
        (f"m = MatMul (w, v) {ROUNDED}", (24, 8), 0, (2, 3, 8, 40)),
        (f"m = MatMul (v, w) {ROUNDED}", (8, 24), 1, (1, 40, 8)),
    ],
)
def test_other_products_stay_as_they_are(
    body: str, weights: tuple[int, ...], axis: int, fed: tuple[int, ...], tmp_path: Path
) -> None:
    built = edgekit_openvino.convert(model(body, weights, axis, fed), tmp_path / "model")
    assert "Select" not in {each.get_type_name() for each in openvino.Core().read_model(built).get_ops()}
