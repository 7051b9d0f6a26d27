"""Operators of an open batch whose other sizes are fixed: one program for all sizes, held against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml

RANDOM = np.random.default_rng(12)
SIZES = (1, 2, 5)
REGIONS = np.float32([[0, 0, 4, 4], [1, 2, 6, 5], [2, 1, 5, 6]])


def held_against_onnx_runtime(body: str, opset: int, constants: Mapping[str, np.ndarray], folder: Path) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\ng {body}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in constants.items())
    runner = edgekit_coreml.load(
        edgekit_coreml.convert(model, folder / "m", precision="float32", dimensions={"n": range(1, 9)})
    )
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in SIZES:
        feeds = {
            each.name: RANDOM.random([size if isinstance(dim, str) else dim for dim in each.shape], np.float32)
            for each in session.get_inputs()
        }
        found = runner.run(feeds)
        for output, expected in zip(session.get_outputs(), session.run(None, feeds), strict=True):
            assert found[output.name].shape == expected.shape
            np.testing.assert_allclose(found[output.name], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("groups", [1, 2])
def test_deformable_convolution(tmp_path: Path, groups: int) -> None:
    body = (
        f"(float[n, 4, 6, 5] x, float[n, {18 * groups}, 6, 5] o, float[n, {9 * groups}, 6, 5] m)"
        " => (float[n, 3, 6, 5] y)"
        f" {{ y = DeformConv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], offset_group = {groups}> (x, w, o, b, m) }}"
    )
    held_against_onnx_runtime(body, 19, {"w": RANDOM.random((3, 4, 3, 3), np.float32), "b": np.ones(3, "f4")}, tmp_path)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_grids(tmp_path: Path, mode: str) -> None:
    body = (
        "(float[n, 2, 5, 6] x, float[n, 3, 4, 2] g) => (float[n, 2, 3, 4] y)"
        f' {{ y = GridSample <mode = "{mode}", padding_mode = "reflection"> (x, g) }}'
    )
    held_against_onnx_runtime(body, 20, {}, tmp_path)


@pytest.mark.parametrize("attributes", ["", "sampling_ratio = 2,", 'sampling_ratio = 2, mode = "max",'])
def test_regions(tmp_path: Path, attributes: str) -> None:
    body = (
        "(float[n, 3, 8, 9] x) => (float[3, 3, 2, 3] y)"
        f" {{ y = RoiAlign <{attributes} output_height = 2, output_width = 3> (x, r, i) }}"
    )
    held_against_onnx_runtime(body, 16, {"r": REGIONS, "i": np.zeros(3, np.int64)}, tmp_path)


def test_maxima_of_regions(tmp_path: Path) -> None:
    body = "(float[n, 3, 8, 9] x) => (float[3, 3, 2, 2] y) { y = MaxRoiPool <pooled_shape = [2, 2]> (x, r) }"
    regions = np.concatenate([np.zeros((3, 1), np.float32), REGIONS], axis=1)
    held_against_onnx_runtime(body, 9, {"r": regions}, tmp_path)


@pytest.mark.parametrize("order", [0, 1])
def test_positions_of_maxima(tmp_path: Path, order: int) -> None:
    body = (
        "(float[n, 3, 8, 6] x) => (float[n, 3, 4, 5] y, int64[n, 3, 4, 5] i)"
        f" {{ y, i = MaxPool <kernel_shape = [3, 2], strides = [2, 1], pads = [1, 0, 0, 0], storage_order = {order}>"
        " (x) }"
    )
    held_against_onnx_runtime(body, 12, {}, tmp_path)


def test_pools_and_their_inverse(tmp_path: Path) -> None:
    """As SegNet has them."""
    windows = "<kernel_shape = [2, 2], strides = [2, 2]>"
    body = (
        "(float[n, 3, 8, 6] x) => (float[n, 3, 8, 6] y)"
        f" {{ p, i = MaxPool {windows} (x) y = MaxUnpool {windows} (p, i) }}"
    )
    held_against_onnx_runtime(body, 11, {}, tmp_path)


@pytest.mark.parametrize("limit", [4, 50])
def test_suppression(tmp_path: Path, limit: int) -> None:
    body = (
        "(float[n, 20, 4] b, float[n, 3, 20] s) => (int64[k, 3] y)"
        " { y = NonMaxSuppression <center_point_box = 1> (b, s, limit, overlap, least) }"
    )
    constants = {"limit": np.array([limit]), "overlap": np.float32([0.3]), "least": np.float32([0.2])}
    held_against_onnx_runtime(body, 11, constants, tmp_path)


def test_scans(tmp_path: Path) -> None:
    body = """(float[n, 4] h, float[n, 5, 4] x) => (float[n, 4] y, float[n, 5, 4] all) {
        y, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[n, 4] before, float[n, 4] e) => (float[n, 4] after, float[n, 4] out) {
                sum = Add (before, e) after = Tanh (sum) out = Mul (after, e) }> (h, x)
    }"""
    held_against_onnx_runtime(body, 16, {}, tmp_path)
