from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from openvino import opset13

import edgekit_openvino
from edgekit_openvino.ir.sixteen_bit_roundings import keep_sixteen_bit_roundings

SCALE = 0.25
"""A power of two, so that float32 holds each step."""
X = np.float32([[-3.1, -0.2, 0.1, 0.4, 2.3, 9000.0], [-99.0, 5.3, 7.9, -1.4, 0.0, 1.0]])


def rounded(x: np.ndarray, zero: int, dtype: str) -> np.ndarray:
    """As the ONNX standard defines QuantizeLinear and DequantizeLinear."""
    limits = np.iinfo(dtype)
    return np.float32((np.clip(np.round(x / SCALE) + zero, limits.min, limits.max) - zero) * SCALE)


@pytest.mark.parametrize(("zero", "dtype"), [(0, "uint16"), (8, "uint16"), (32768, "uint16"), (-32768, "int16")])
@pytest.mark.parametrize("ahead", ["Identity", "Neg"])
def test_a_rounding_to_sixteen_bits_keeps_its_limits(zero: int, dtype: str, ahead: str, tmp_path: Path) -> None:
    text = f"""<ir_version: 10, opset_import: ["" : 21]> g (float[2, 6] x) => (float[2, 6] y)
        <float s = {{{SCALE}}}, {dtype} z = {{{zero}}}>
        {{ a = {ahead} (x) q = QuantizeLinear (a, s, z) y = DequantizeLinear (q, s, z) }}"""
    runner = edgekit_openvino.load(edgekit_openvino.convert(onnx.parser.parse_model(text), tmp_path / "model"))
    np.testing.assert_array_equal(runner.run({"x": X})["y"], rounded(X if ahead == "Identity" else -X, zero, dtype))


def test_a_range_for_each_channel() -> None:
    given = opset13.parameter([2, 6], np.float32)
    greatest = np.float32([[65535, 32767.5, 65535, 65535, 65535, 16383.75]])
    limits = [np.zeros_like(greatest), greatest] * 2
    rounding = opset13.fake_quantize(opset13.negative(given), *limits, 65536)
    rounding.set_friendly_name("rounding")
    network = openvino.Model([rounding.output(0)], [given], "rounded")
    settings = {"INFERENCE_PRECISION_HINT": "f32"}
    (stripped,) = openvino.Core().compile_model(network, "CPU", settings)([X]).values()
    assert stripped.min() < 0, "OpenVINO has learned it"
    assert keep_sixteen_bit_roundings(network) == ["rounding"]
    assert keep_sixteen_bit_roundings(network) == []
    (found,) = openvino.Core().compile_model(network, "CPU", settings)([X]).values()
    steps = greatest / 65535
    np.testing.assert_allclose(found, np.round(np.clip(-X, 0, greatest) / steps) * steps, rtol=1e-6)


def test_roundings_of_other_levels_and_computed_limits_stay() -> None:
    given = opset13.parameter([2, 6], np.float32)
    eight = opset13.fake_quantize(given, *np.float32([0, 2, 0, 2]), 256)
    computed = opset13.fake_quantize(
        given, np.float32(0), opset13.reduce_max(given, 1, True), *np.float32([0, 2]), 65536
    )
    network = openvino.Model([eight.output(0), computed.output(0)], [given], "rounded")
    assert keep_sixteen_bit_roundings(network) == []
