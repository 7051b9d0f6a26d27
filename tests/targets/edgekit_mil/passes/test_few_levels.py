"""8-bit weights of which few values occur: stored in fewer bits, without loss."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml

OUTPUTS, INPUTS = 64, 64


def _model(levels: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 64, 4, 4] x) => (float[1, 64, 4, 4] y) {
        v = DequantizeLinear<axis = 0>(w, scale)  y = Conv(x, v) }"""
    )
    scale = np.random.default_rng(1).uniform(0.001, 0.02, OUTPUTS).astype(np.float32)
    weights = levels.reshape(OUTPUTS, INPUTS, 1, 1)
    model.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in (("w", weights), ("scale", scale))
    )
    return model


def _bytes(package: Path) -> int:
    return sum(file.stat().st_size for file in package.rglob("weight.bin"))


def _drawn(values: int, groups: int = 1) -> np.ndarray:
    """int8 ``[OUTPUTS, INPUTS]``, of as many values in each group of outputs."""
    rng = np.random.default_rng(values)
    rows = []
    for _ in range(groups):
        some = rng.choice(np.arange(-127, 128), values, replace=False)
        rows.append(rng.choice(some, (OUTPUTS // groups, INPUTS)))
    return np.concatenate(rows).astype(np.int8)


@pytest.mark.parametrize(("values", "bits"), [(2, 1), (4, 2), (8, 3), (15, 4), (64, 6), (200, 8)])
def test_few_values_take_few_bits_and_lose_nothing(values: int, bits: int, tmp_path: Path) -> None:
    model = _model(_drawn(values))
    package = edgekit_coreml.convert(model, tmp_path / "m.mlpackage", precision="float32")
    x = np.random.default_rng(2).standard_normal((1, INPUTS, 4, 4)).astype(np.float32)

    (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], expected, rtol=1e-5, atol=1e-5)
    palette = 4 * 2**bits if bits < 8 else 0
    assert abs(_bytes(package) - (OUTPUTS * INPUTS * bits / 8 + palette + 4 * OUTPUTS)) < 5 * 64 + 64


def test_each_group_of_channels_may_have_a_palette(tmp_path: Path) -> None:
    package = edgekit_coreml.convert(_model(_drawn(8, groups=4)), tmp_path / "m.mlpackage", precision="float32")
    assert _bytes(package) < OUTPUTS * INPUTS * 3 / 8 + 4 * 4 * 8 + 4 * OUTPUTS + 6 * 64


def test_before_ios_18_they_stay_8_bit_integers(tmp_path: Path) -> None:
    package = edgekit_coreml.convert(_model(_drawn(8)), tmp_path / "m.mlpackage", deployment_target="iOS17")
    assert _bytes(package) >= OUTPUTS * INPUTS
