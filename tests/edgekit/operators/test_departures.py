from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.operators.departures import aligns_corners_by_broken_scales, equal_channels


def resize(scales: Sequence[float], axes: Sequence[int] = (), mode: str = "align_corners") -> ir.Node:
    x = ir.Value(name="x", shape=ir.Shape([1, 2, 4, 6]), type=ir.TensorType(ir.DataType.FLOAT))
    tensor = ir.tensor(np.array(scales, np.float32), name="scales")
    values = ir.Value(name="scales", shape=tensor.shape, type=ir.TensorType(tensor.dtype), const_value=tensor)
    attributes: dict[str, object] = {"coordinate_transformation_mode": mode}
    if axes:
        attributes["axes"] = list(axes)
    return ir.node("Resize", [x, None, values], attributes)  # type: ignore[arg-type]  # as onnx_ir has it


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (resize([1, 1, 1.5, 2]), False),
        (resize([1, 1, 1.3, 2]), True),
        (resize([1, 1, 1.3, 2], mode="half_pixel"), False),
        (resize([1.5, 1.5], axes=[2, 3]), False),
        (resize([1.5, 1.4], axes=[2, 3]), True),
        (resize([1.4, 1.5], axes=[-1, -2]), True),
        (resize([]), False),
    ],
)
def test_scales_that_give_no_whole_sizes(node: ir.Node, expected: bool) -> None:
    assert aligns_corners_by_broken_scales(node, if_unknown=not expected) is expected


def test_scales_that_fit_no_axes_are_not_known() -> None:
    assert aligns_corners_by_broken_scales(resize([1.3, 2]), if_unknown=True)
    assert not aligns_corners_by_broken_scales(resize([1.3, 2]), if_unknown=False)


@pytest.mark.parametrize(
    ("weights", "layers", "expected"),
    [
        ("w = ConstantOfShape (s)", "c = Conv (x, w) a = Relu (c)", True),
        ("w = Constant <value = float[2, 1, 1, 1] {3, 3}> ()", "c = Conv (x, w) a = Identity (c)", True),
        ("w = Constant <value = float[2, 1, 1, 1] {3, 4}> ()", "c = Conv (x, w) a = Relu (c)", False),
        ("w = ConstantOfShape (s)", "c = Conv (x, w, b) a = Relu (c)", False),
        ("w = ConstantOfShape (s)", "c = Conv (x, w) a = Add (c, n)", False),
        ("w = Identity (given)", "c = Conv (x, w) a = Relu (c)", False),
    ],
    ids=["filled", "equal", "other", "bias", "sum", "given"],
)
def test_equal_channels(weights: str, layers: str, expected: bool) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 13]> g (float[1, 1, 4, 4] x, float[2, 1, 1, 1] given, float[1, 2, 4, 4] n)'
        " => (float[1, 2, 1, 1] y) <int64[4] s = {2, 1, 1, 1}, float[2] b = {1, 2}>"
        f" {{ {weights} {layers} y = GlobalAveragePool (a) }}"
    )
    node = ir.from_proto(proto).graph[-1]
    assert equal_channels(node.inputs[0]) == (2 if expected else 0)
