"""Batches merged with channels in quantized networks: OpenVINO mixes channels up, and converted models do not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

RANDOM = np.random.default_rng(3)
QUANTIZED = "q = QuantizeLinear (k, s, z)  y = DequantizeLinear (q, s, z)"


def model(sizes: str, ahead: str, to: str, behind: str = QUANTIZED) -> onnx.ModelProto:
    rank = sizes.count(",") + 1
    ones, out = ", 1" * (rank - 2), ", ".join("abcd"[: to.count(",") + 1])
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng (float[{sizes}] x) => (float[{out}] y)'
        f" <float s = {{0.017}}, uint8 z = {{128}}, float[1, 4{ones}] w = {{0.1, 0.4, 0.9, 1.5}},"
        f" int64[{to.count(',') + 1}] r = {{{to}}}> {{ {ahead}  k = Reshape (h, r)  {behind} }}"
    )


def numbers(*shape: int) -> dict[str, np.ndarray]:
    return {"x": RANDOM.normal(size=shape).astype(np.float32)}


@pytest.mark.parametrize("ahead", ["h = Mul (x, w)", "a = Mul (x, w)  h = Relu (a)"])
@pytest.mark.parametrize(("sizes", "to"), [("N, 4, 8", "-1, 8"), ("N, 4, 6", "-1, 4"), ("N, 4, 12", "-1, 4, 6")])
def test_merged_batches_of_open_size(sizes: str, to: str, ahead: str, tmp_path: Path) -> None:
    proto, feeds = model(sizes, ahead, to), numbers(3, 4, int(sizes.split(",")[-1]))
    right = expected(proto, feeds)
    assert np.abs(as_read(proto, feeds, tmp_path) - right).max() > 0.1  # OpenVINO is still wrong
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), right, atol=0.0171)  # one step, for a tie
    assert (np.abs(converted(proto, feeds, tmp_path) - right) < 1e-6).mean() > 0.95


def test_quantized_tensors_and_pictures(tmp_path: Path) -> None:
    ahead = "i = QuantizeLinear (x, s, z)  d = DequantizeLinear (i, s, z)  h = Mul (d, w)"
    for sizes, to, shape in (("N, 4, 6", "-1, 6", (3, 4, 6)), ("N, 4, 3, 5", "-1, 15", (2, 4, 3, 5))):
        proto, feeds = model(sizes, ahead, to, "y = Neg (k)"), numbers(*shape)
        np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), atol=1e-6)


@pytest.mark.parametrize(("sizes", "to"), [("N, 4, 6", "-1, 24"), ("N, 4, 6", "0, 2, 2, 6"), ("3, 4, 6", "-1, 6")])
def test_others_are_left_as_they_are(sizes: str, to: str, tmp_path: Path) -> None:
    proto, feeds = model(sizes, "h = Mul (x, w)", to), numbers(3, 4, 6)
    path = edgekit_openvino.convert(proto, tmp_path / "plain")
    assert 'type="Select"' not in path.read_text()
    np.testing.assert_allclose(edgekit_openvino.load(path).run(feeds)["y"], expected(proto, feeds), atol=0.0171)


@pytest.mark.parametrize("batch", [2, "N"])
def test_one_token_that_is_parted_into_heads(batch: int | str, tmp_path: Path) -> None:
    """OpenVINO divides by zero and ends the process: in one of its own."""
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 19]>\ng (float[{batch}, 1, 8] x) => (float[a, b, c, d] y)'
        " <float s = {0.017}, uint8 z = {128}, int64[4] r = {-1, 1, 4, 2}>"
        " { i = QuantizeLinear (x, s, z)  e = DequantizeLinear (i, s, z)  v = DequantizeLinear (w, s, z)"
        "  h = Add (v, e)  k = Reshape (h, r)"
        "  q = QuantizeLinear (k, s, z)  y = DequantizeLinear (q, s, z) }"
    )
    added = RANDOM.integers(60, 190, 8).astype(np.uint8)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(added, "w"))
    onnx.save(proto, tmp_path / "plain.onnx")
    code = f"import openvino; openvino.Core().compile_model({str(tmp_path / 'plain.onnx')!r}, 'CPU')"
    if batch == 2:
        assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode < 0  # still
    feeds = numbers(2, 1, 8)
    np.testing.assert_allclose(converted(proto, feeds, tmp_path), expected(proto, feeds), atol=0.0171)  # one step
