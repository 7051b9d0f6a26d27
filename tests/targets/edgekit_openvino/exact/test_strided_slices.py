"""Slices that leave elements out from end to end of an open dimension, against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import as_read, converted, expected

FROM_END_TO_END = {"forwards": (0, 2**63 - 1, 2), "in int32": (0, 2**31 - 1, 3), "backwards": (2**63 - 1, -(2**63), -2)}


def repeated_over_a_slice(begin: int, end: int, step: int) -> onnx.ModelProto:
    """Both the pooled size and the sliced one are used as values."""
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]> g (float[1, 1, H, 4] x) => (float[A, B, C, D] y, int64[N] places)
        <float one = {{1}}, int64[1] begin = {{{begin}}}, int64[1] end = {{{end}}}, int64[1] step = {{{step}}},
         int64[1] axis = {{2}}, int64 height = {{2}}, int64 zero = {{0}}, int64 unit = {{1}}> {{
            pooled = MaxPool <kernel_shape = [2, 1]> (x)
            part = Slice (pooled, begin, end, axis, step)
            sizes = Shape (part)
            y = Expand (one, sizes)
            all = Shape (pooled)
            rows = Gather (all, height)
            places = Range (zero, rows, unit)
        }}"""
    )


@pytest.mark.parametrize("borders", FROM_END_TO_END.values(), ids=FROM_END_TO_END)
def test_it_is_as_in_onnx_runtime(borders: tuple[int, int, int], tmp_path: Path) -> None:
    model = repeated_over_a_slice(*borders)
    feeds = {"x": np.zeros((1, 1, 8, 4), np.float32)}
    np.testing.assert_array_equal(converted(model, feeds, tmp_path), expected(model, feeds))


def test_openvino_still_takes_the_sizes_for_each_other(tmp_path: Path) -> None:
    model = repeated_over_a_slice(*FROM_END_TO_END["forwards"])
    feeds = {"x": np.zeros((1, 1, 8, 4), np.float32)}
    assert expected(model, feeds).shape == (1, 1, 4, 4)
    assert as_read(model, feeds, tmp_path).shape == (1, 1, 7, 4)
