from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.operators.departures import aligns_corners_by_broken_scales


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
