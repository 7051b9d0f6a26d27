"""A model with float32 in place of other floating-point types."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
import onnx_ir as ir

TYPE_ATTRIBUTES = ("dtype", "to", "output_datatype", "output_dtype")
"""Names of attributes with the element type of an operator's output."""


def in_single_precision(model: ir.Model, types: Collection[ir.DataType], *, at_boundary: bool = False) -> ir.Model:
    """Returns the model with float32 in place of other element types, or the model itself if it has none of them.

    Numbers beyond the range of float32 become infinite. Conversions without an effect are removed.

    Args:
        model: The model, which is not changed.
        types: The element types that become float32.
        at_boundary: Whether inputs and outputs become float32, too. Otherwise they keep their types, and a Cast is
            added behind inputs and before outputs.
    """
    if not any(_dtype(value) in types for value in _values(model.graph)) and not any(
        _exchanged(attribute, types) for node in model.graph.all_nodes() for attribute in node.attributes.values()
    ):
        return model
    result = model.clone()
    graph = result.graph
    inputs = [(value, value.dtype) for value in graph.inputs if value.dtype in types]
    outputs = [(place, value.dtype) for place, value in enumerate(graph.outputs) if value.dtype in types]
    for value in _values(graph):
        _exchange(value, types)
    for node in graph.all_nodes():
        for attribute in list(node.attributes.values()):
            changed = _exchanged(attribute, types)
            if changed is not None:
                node.attributes[attribute.name] = changed
    for value, dtype in inputs:
        if dtype is not None and not at_boundary:
            _cast_input(graph, value, dtype)
    for place, dtype in outputs:
        if dtype is not None and not at_boundary:
            _cast_output(graph, place, dtype)
    _drop_casts(graph)
    return result


def _values(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yields all values of a graph and its subgraphs."""
    for each in (graph, *graph.subgraphs()):
        yield from (*each.inputs, *each.initializers.values())
    for node in graph.all_nodes():
        yield from node.outputs


def _dtype(value: ir.Value) -> ir.DataType | None:
    return value.dtype if value.const_value is None else value.const_value.dtype


def _exchange(value: ir.Value, types: Collection[ir.DataType]) -> None:
    if value.type is not None:
        value.type = _single_type(value.type, types)  # a clone shares the type that it had
    if value.const_value is not None and value.const_value.dtype in types:
        value.const_value = _single(value.const_value)


def _single_type(of: ir.TypeProtocol, types: Collection[ir.DataType]) -> ir.TypeProtocol:
    if isinstance(of, ir.SequenceType | ir.OptionalType):
        return type(of)(_single_type(of.elem_type, types))
    return ir.TensorType(ir.DataType.FLOAT) if isinstance(of, ir.TensorType) and of.dtype in types else of


def _single(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    with np.errstate(over="ignore"):
        return ir.tensor(tensor.numpy().astype(np.float32), name=tensor.name)


def _exchanged(attribute: ir.Attr, types: Collection[ir.DataType]) -> ir.Attr | None:
    """Returns the attribute in single precision, or None if it does not change."""
    if attribute.is_ref():
        return None
    if attribute.type is ir.AttributeType.TENSOR and attribute.as_tensor().dtype in types:
        return ir.AttrTensor(attribute.name, _single(attribute.as_tensor()))
    is_type = attribute.name in TYPE_ATTRIBUTES and attribute.type is ir.AttributeType.INT
    if is_type and attribute.as_int() in types:
        return ir.AttrInt64(attribute.name, ir.DataType.FLOAT)
    return None


def _cast_input(graph: ir.Graph, value: ir.Value, dtype: ir.DataType) -> None:
    """Inserts a Cast so that readers of an input of another type get float32."""
    value.type = ir.TensorType(dtype)
    converted = _cast(value, ir.DataType.FLOAT, f"{value.name}/single")
    node = converted.producer()
    uses = [(user, place) for user, place in value.uses() if user is not node]
    for user, place in uses:
        user.replace_input_with(place, converted)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = converted
    if node is not None and len(graph):
        graph.insert_before(graph[0], node)
    elif node is not None:
        graph.append(node)


def _cast_output(graph: ir.Graph, place: int, dtype: ir.DataType) -> None:
    """Casts an output computed in float32 to the output's type, under the output's name."""
    value = graph.outputs[place]
    name = value.name
    value.name = f"{name}/single"
    converted = _cast(value, dtype, name or "")
    graph.outputs[place] = converted
    node = converted.producer()
    if node is not None:
        graph.append(node)


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
    node = ir.node("Cast", [value], {"to": int(dtype)}, name=f"{name}/cast")
    output = node.outputs[0]
    output.name, output.type, output.shape = name, ir.TensorType(dtype), value.shape
    return output


def _drop_casts(graph: ir.Graph) -> None:
    """Removes Casts from float32 to float32."""
    for node in list(graph.all_nodes()):
        source = node.inputs[0] if node.op_type == "Cast" and node.domain == "" else None
        if source is None or source.dtype is not ir.DataType.FLOAT or node.outputs[0].is_graph_output():
            continue
        if node.attributes["to"].as_int() == ir.DataType.FLOAT and node.graph is not None:
            node.outputs[0].replace_all_uses_with(source)
            node.graph.remove(node, safe=True)
