from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

COMPUTED = "s = Shape (x) p = ReduceProd <axes = [0], keepdims = 1> (s)"


@pytest.mark.parametrize(
    ("body", "shape"),
    [
        ("t = Concat <axis = 0> (p, eight, left) r = Reshape (x, t)", [None, 8, None]),
        ("t = Concat <axis = 0> (nothing, p) r = Reshape (x, t)", [2, None]),
    ],
)
def test_a_computed_shape_tells_how_many_dimensions_there_are(
    onnx_model: OnnxModel, body: str, shape: list[int | None]
) -> None:
    constants = {"eight": np.int64([8]), "left": np.int64([-1]), "nothing": np.int64([0])}
    used = {name: array for name, array in constants.items() if f"{name}," in body or f"{name})" in body}
    graph = f"g (float[2, N] x) => (float[] y) {{ {COMPUTED} {body} y = Relu (r) }}"
    proto = onnx_model(graph, opset=9, **used)
    plain = onnx.shape_inference.infer_shapes(proto, data_prop=True)
    assert not [
        value for value in plain.graph.value_info if value.name == "r" and value.type.tensor_type.HasField("shape")
    ]
    model = infer_shapes(Model(ir.from_proto(proto)), strict=False)
    (value,) = (value for node in model.graph for value in node.outputs if value.name == "r")
    assert value.shape is not None
    assert [dim if isinstance(dim, int) else None for dim in value.shape] == shape
