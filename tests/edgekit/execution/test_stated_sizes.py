"""Sizes that a file states of outputs, held against runs."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load

WriteOnnx = Callable[..., Path]


@pytest.mark.parametrize(
    ("stated", "real"),
    [
        ("float[1, 2, H, W] y", "1×2×?×?"),  # right at even sizes: a pool of two, and twice as large again
        ("float[1, 2, 64, 64] y", "1×2×?×?"),  # what was traced with, the default here
    ],
)
@pytest.mark.parametrize("sizes", ["64..128", "64,127"])
def test_sizes_that_do_not_hold_at_other_inputs_are_not_stated(
    onnx_file: WriteOnnx, stated: str, real: str, sizes: str
) -> None:
    path = onnx_file(
        f"""g (float[1, 2, H, W] x) => ({stated}) {{
        scales = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> ()
        half = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (x)
        y = Resize <mode = "nearest"> (half, , scales)
        }}"""
    )
    result = FixShapes(ShapeRequest.parse([f"H={sizes}", f"W={sizes}"], []))(Load()(path).model)
    assert [str(spec) for spec in result.model.outputs] == [f"y: float32 {real}"]


def test_sizes_that_hold_are_stated(onnx_file: WriteOnnx) -> None:
    path = onnx_file(
        """g (float[B, S, 4] x) => (float[B, S, 4] y, float[B, 4] m) {
        y = Relu (x)
        m = ReduceMax <axes = [1], keepdims = 0> (x)
        }"""
    )
    result = FixShapes(ShapeRequest.parse(["S=4..10", "B=1"], []))(Load()(path).model)
    assert [str(spec) for spec in result.model.outputs] == ["y: float32 1×S×4", "m: float32 1×4"]
