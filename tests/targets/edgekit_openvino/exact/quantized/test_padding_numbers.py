"""Numbers that quantized tensors are padded with: OpenVINO makes integers of them, and converted models do not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

QUANTIZED = "q = QuantizeLinear (x, s, z)  d = DequantizeLinear (q, s, z)"


def model(body: str, number: str, zero_point: str = "uint8 z = {128}", size: int | str = 6) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng (float[1, 5, {size}] x) => (float[a, b, c] y) '
        f"<float s = {{0.017}}, {zero_point}, int64[6] p = {{0, 0, 1, 0, 0, 2}}, float v = {{{number}}}> {{ {body} }}"
    )


def numbers(size: int = 6) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(size).normal(size=(1, 5, size)).astype(np.float32)}


@pytest.mark.parametrize("zero_point", ["uint8 z = {128}", "int8 z = {0}"])
@pytest.mark.parametrize("number", ["0.5", "1.75", "1e-3", "0", "-1", "300"])
def test_numbers_are_kept(number: str, zero_point: str, tmp_path: Path) -> None:
    proto = model(f"{QUANTIZED}  y = Pad (d, p, v)", number, zero_point)
    right = expected(proto, numbers())
    np.testing.assert_allclose(converted(proto, numbers(), tmp_path), right, atol=1e-6)
    if not float(number).is_integer():
        assert np.abs(as_read(proto, numbers(), tmp_path) - right).max() > 9e-4  # still


def test_infinite_numbers_ahead_of_a_pool(tmp_path: Path) -> None:
    proto = model(f"{QUANTIZED}  h = Pad (d, p, v)  y = MaxPool <kernel_shape = [2]> (h)", "-inf")
    with pytest.raises(RuntimeError, match="out of range for"):
        as_read(proto, numbers(), tmp_path)  # still
    np.testing.assert_allclose(converted(proto, numbers(), tmp_path), expected(proto, numbers()), atol=1e-6)


@pytest.mark.parametrize("between", ["m = Identity (d)", "m = MaxPool <kernel_shape = [1]> (d)", "m = Mul (d, s)"])
def test_open_sizes(between: str, tmp_path: Path) -> None:
    proto = model(f"{QUANTIZED}  {between}  y = Pad (m, p, v)", "0.5", size="L")
    for size in (1, 6):
        got = converted(proto, numbers(size), tmp_path)
        np.testing.assert_allclose(got, expected(proto, numbers(size)), atol=1e-6)


@pytest.mark.parametrize("batch", [1, 3, "N"])
@pytest.mark.parametrize("number", ["", ", v"])
def test_one_channel_that_becomes_several(number: str, batch: int | str, tmp_path: Path) -> None:
    """Such as what shifts a sequence of one step: OpenVINO pads with the integer 0, whatever the zero point."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng (float[{batch}, 1, 4] x) => (float[a, b, c] y)'
        " <float s = {0.017}, uint8 z = {128}, int64[6] p = {0, 1, 0, 0, 1, 0}, float v = {0}>"
        f" {{ {QUANTIZED}  y = Pad (d, p{number}) }}"
    )
    feeds = {"x": np.random.default_rng(3).normal(size=(3 if batch == "N" else batch, 1, 4)).astype(np.float32)}
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 1  # still
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=1e-6)


def test_networks_that_are_not_quantized_pad_at_once(tmp_path: Path) -> None:
    import edgekit_openvino

    path = edgekit_openvino.convert(model("y = Pad (x, p, v)", "0.5"), tmp_path / "model")
    assert 'type="Select"' not in path.read_text()
