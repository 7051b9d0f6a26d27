"""The same model with 8-bit weights written from 0 to 255, which runtimes multiply without saturation.

x86 processors without VNNI multiply unsigned 8-bit numbers with signed ones by VPMADDUBSW, which adds two neighbouring
products in 16 bits (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2). Unsigned numbers are
multiplied with unsigned ones in 32 bits there (ONNX Runtime's documentation, "Quantize ONNX models": U8S8 and U8U8). A
number and its zero point may both be 128 larger: their difference, which is what is multiplied, stays.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant, input_at, is_constant
from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit.model import Model

MICROSOFT = "com.microsoft"
SHIFT = 128
"""The difference between the lowest numbers of uint8 and int8."""


@dataclass(frozen=True)
class Places:
    """The indices of an operator's inputs of 8-bit numbers, each with the index of its zero point."""

    weights: tuple[tuple[int, int], ...]
    activation: tuple[int, int] | None = None
    """The activation, which has to be unsigned like the weights; None if the operator quantizes it itself."""
    result: int | None = None
    """The result's zero point, which has the activation's type; None if the operator returns wider numbers."""
    zero_as_scale: int | None = None
    """The distance from the weights to their scale, if a new zero point needs the scale's shape."""


OPERATORS = {
    ("", "MatMulInteger"): Places(((1, 3),), (0, 2)),
    ("", "ConvInteger"): Places(((1, 3),), (0, 2)),
    ("", "QLinearMatMul"): Places(((3, 5),), (0, 2), 7),
    ("", "QLinearConv"): Places(((3, 5),), (0, 2), 7),
    (MICROSOFT, "QLinearConv"): Places(((3, 5),), (0, 2), 7),
    (MICROSOFT, "QGemm"): Places(((3, 5),), (0, 2), 8),
    (MICROSOFT, "MatMulIntegerToFloat"): Places(((1, 5),), (0, 4), zero_as_scale=2),
    (MICROSOFT, "DynamicQuantizeMatMul"): Places(((1, 3),), zero_as_scale=1),
    (MICROSOFT, "QAttention"): Places(((1, 7),)),
    (MICROSOFT, "DynamicQuantizeLSTM"): Places(((1, 9), (2, 11))),
    ("", "DequantizeLinear"): Places(((0, 2),), zero_as_scale=1),
}


def with_unsigned_weights(model: Model) -> Model:
    """Returns the model with unsigned weights wherever it multiplies 8-bit integers, or itself if none are signed.

    Constant matrices that are only widened (DequantizeLinear) count as weights, too, because runtimes use them as
    weights of an integer product.

    Args:
        model: The model, which is not changed.
    """
    if not any(_signed_weights(node) for node in model.graph.all_nodes()):
        return model
    graph_model = model.graph_model.clone()
    shifted: dict[tuple[ir.Value, ir.Graph], ir.Value] = {}
    for number, node in enumerate([node for node in graph_model.graph.all_nodes() if _signed_weights(node)]):
        _rewrite(node, NodeBuilder(model.opset, f"{node.name or node.op_type}/unsigned_{number}"), shifted)
    drop_unused_initializers(graph_model.graph)
    return model.with_graph(graph_model)


def _signed_weights(node: ir.Node) -> list[tuple[int, int]]:
    """Returns the input indices of a node's signed weights, each with the index of its zero point."""
    places = OPERATORS.get((node.domain, node.op_type))
    if places is None:
        return []
    found = [each for each in places.weights if _is_signed(input_at(node, each[0]))]
    if node.op_type == "DequantizeLinear":
        weights, zero = (input_at(node, index) for index in places.weights[0])
        is_matrix = is_constant(weights) and weights is not None and len(weights.shape or ()) > 1
        has_zero = zero is None or is_constant(zero)
        return found if is_matrix and has_zero and is_constant(input_at(node, 1)) else []
    return found


def _rewrite(node: ir.Node, build: NodeBuilder, shifted: dict[tuple[ir.Value, ir.Graph], ir.Value]) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph), "a node of a model is in a graph"
    places = OPERATORS[node.domain, node.op_type]

    def unsigned(value: ir.Value) -> ir.Value:
        key = value, graph
        if key not in shifted:
            array = constant(value)
            shifted[key] = _shifted(build, value) if array is None else build.constant(_up(array))
        return shifted[key]

    def shift(place: int, zero_place: int) -> None:
        value, zero = input_at(node, place), input_at(node, zero_place)
        assert value is not None, "it is known to be there"
        _set(node, place, unsigned(value))
        _set(node, zero_place, _zero(node, place, places, build) if zero is None else unsigned(zero))

    for place, zero_place in _signed_weights(node):
        shift(place, zero_place)
    if places.activation is not None and _is_signed(input_at(node, places.activation[0])):
        shift(*places.activation)
        result_zero = None if places.result is None else input_at(node, places.result)
        if places.result is not None and result_zero is not None:
            _set(node, places.result, unsigned(result_zero))
            _back_to_signed(node, graph)
    graph.insert_before(node, build.nodes)
    for value in build.initializers:
        graph.register_initializer(value)


def _zero(node: ir.Node, place: int, places: Places, build: NodeBuilder) -> ir.Value:
    """Returns a zero point for weights that had none, which means 0 before the shift."""
    shape: tuple[int, ...] = ()
    if places.zero_as_scale is not None:
        scale = input_at(node, place + places.zero_as_scale)
        known = None if scale is None or scale.shape is None else scale.shape.numpy()
        shape = () if known is None else known
    return build.constant(np.full(shape, SHIFT, np.uint8))


def _shifted(build: NodeBuilder, value: ir.Value) -> ir.Value:
    """Returns a computed or fed value plus 128, as uint8."""
    wide = build("Add", build("Cast", value, to=int(ir.DataType.INT32)), np.int32(SHIFT))
    made = build.cast(wide, ir.DataType.UINT8)
    made.shape = value.shape
    return made


def _back_to_signed(node: ir.Node, graph: ir.Graph) -> None:
    """Adds nodes that subtract 128 from a node's result, so that its readers get signed numbers as before."""
    result = node.outputs[0]
    build = NodeBuilder(21, f"{result.name}/signed")
    signed = build.cast(
        build("Sub", build("Cast", result, to=int(ir.DataType.INT32)), np.int32(SHIFT)), ir.DataType.INT8
    )
    first = build.nodes[0]
    ir.convenience.replace_all_uses_with(result, signed, replace_graph_outputs=True)
    first.replace_input_with(0, result)
    name = result.name
    result.name, signed.name = f"{name}/unsigned", name
    signed.shape, result.type = result.shape, ir.TensorType(ir.DataType.UINT8)
    graph.insert_after(node, build.nodes)
    for value in build.initializers:
        graph.register_initializer(value)


def _set(node: ir.Node, place: int, value: ir.Value) -> None:
    if place >= len(node.inputs):
        node.resize_inputs(place + 1)
    node.replace_input_with(place, value)


def _is_signed(value: ir.Value | None) -> bool:
    if value is None:
        return False
    dtype = value.const_value.dtype if value.const_value is not None else value.dtype
    return dtype == ir.DataType.INT8


def _up(array: np.ndarray) -> np.ndarray:
    """Returns int8 numbers plus 128 as uint8, by flipping their highest bit."""
    return array.view(np.uint8) ^ np.uint8(SHIFT)
