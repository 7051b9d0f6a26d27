"""Softmax as ONNX's version converter writes that of old operator sets."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.simplification.flattened_softmax import compute_softmax_in_place

CONVERTED = """<ir_version: 9, opset_import: ["": 17]>
g (float[A, B, 5] x) => (float[A, B, 5] y) {{
    h = Neg (x)
    sizes = Shape (h)
    matrix = Flatten <axis = {axis}> (h)
    shares = {operator} <axis = -1> (matrix)
    y = Reshape (shares, sizes)
}}"""


def newer(operator: str, axis: int) -> onnx.ModelProto:
    """As ONNX's converter writes it where it is told no rank."""
    return onnx.parser.parse_model(CONVERTED.format(operator=operator, axis=axis))


def read(proto: onnx.ModelProto) -> ir.Model:
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto))


@pytest.mark.parametrize("operator", ["Hardmax", "LogSoftmax", "Softmax"])
def test_the_last_axis_of_several(operator: str) -> None:
    proto = newer(operator, 2)
    model = read(proto)
    assert compute_softmax_in_place(model)
    RemoveUnusedNodesPass()(model)
    assert [node.op_type for node in model.graph] == ["Neg", operator]
    feeds = {"x": np.random.default_rng(0).standard_normal((2, 3, 5)).astype(np.float32)}
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
        for each in (ir.to_proto(model), proto)
    )
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)


def test_several_axes_together_stay() -> None:
    model = read(newer("Softmax", 1))
    assert not compute_softmax_in_place(model)


def test_a_part_of_the_sizes_is_not_the_shape() -> None:
    proto = newer("Softmax", 2)
    proto.graph.node[1].attribute.append(onnx.helper.make_attribute("start", 1))
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    assert not compute_softmax_in_place(read(proto))
