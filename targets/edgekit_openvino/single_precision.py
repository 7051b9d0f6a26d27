"""Models in double precision, which OpenVINO's CPU plugin computes in single precision: as models that say so.

The plugin (OpenVINO 2026.4) changes the types of a network when it compiles it, and some of its fusions have read the
constants before: a ``Divide`` by a double behind a ``Reduce`` divides by what lies in memory.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.model import Model

_TYPE_ATTRIBUTES = ("dtype", "to", "output_datatype")
"""What operators call the element type that they make."""


def in_single_precision(model: Model) -> Model:
    """The model with float32 in place of doubles inside, its inputs and outputs as they were; itself without any."""
    if not any(_is_double(value) for value in _values(model.graph)):
        return model
    graph_model = model.graph_model.clone()
    graph = graph_model.graph
    inputs = [value for value in graph.inputs if value.dtype is ir.DataType.DOUBLE]
    outputs = [place for place, value in enumerate(graph.outputs) if value.dtype is ir.DataType.DOUBLE]
    for value in _values(graph):
        _narrow(value)
    for node in graph.all_nodes():
        for attribute in list(node.attributes.values()):
            changed = _narrowed(attribute)
            if changed is not None:
                node.attributes[attribute.name] = changed
    for value in inputs:
        _narrow_input(graph, value)
    for place in outputs:
        _widen_output(graph, place)
    return model.with_graph(graph_model)


def _values(graph: ir.Graph) -> list[ir.Value]:
    """All values of a graph and of those within it."""
    graphs = [graph, *graph.subgraphs()]
    made = [value for node in graph.all_nodes() for value in node.outputs]
    return [*(value for each in graphs for value in (*each.inputs, *each.initializers.values())), *made]


def _is_double(value: ir.Value) -> bool:
    kept = value.const_value
    return value.dtype is ir.DataType.DOUBLE or (kept is not None and kept.dtype is ir.DataType.DOUBLE)


def _narrow(value: ir.Value) -> None:
    if value.dtype is ir.DataType.DOUBLE:
        value.type = ir.TensorType(ir.DataType.FLOAT)  # a clone shares the type that it had
    if value.const_value is not None and value.const_value.dtype is ir.DataType.DOUBLE:
        value.const_value = _single(value.const_value)


def _single(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    with np.errstate(over="ignore"):  # what single precision has no number for is infinite there
        return ir.tensor(tensor.numpy().astype(np.float32), name=tensor.name)


def _narrowed(attribute: ir.Attr) -> ir.Attr | None:
    """The attribute of the node in single precision; None where it stays."""
    if attribute.type is ir.AttributeType.TENSOR and attribute.as_tensor().dtype is ir.DataType.DOUBLE:
        return ir.AttrTensor(attribute.name, _single(attribute.as_tensor()))
    is_type = attribute.name in _TYPE_ATTRIBUTES and attribute.type is ir.AttributeType.INT
    if is_type and attribute.as_int() == ir.DataType.DOUBLE:
        return ir.AttrInt64(attribute.name, ir.DataType.FLOAT)
    return None


def _narrow_input(graph: ir.Graph, value: ir.Value) -> None:
    """Has what reads a double input read it in single precision."""
    value.type = ir.TensorType(ir.DataType.DOUBLE)
    narrowed = _cast(value, ir.DataType.FLOAT, f"{value.name}/single")
    node = narrowed.producer()
    uses = [(user, place) for user, place in value.uses() if user is not node]
    for user, place in uses:
        user.replace_input_with(place, narrowed)
    for place, output in enumerate(graph.outputs):
        if output is value:
            graph.outputs[place] = narrowed
    if node is not None and len(graph):
        graph.insert_before(graph[0], node)
    elif node is not None:
        graph.append(node)


def _widen_output(graph: ir.Graph, place: int) -> None:
    """Hands out what is computed in single precision as a double, under the output's name."""
    value = graph.outputs[place]
    name = value.name
    value.name = f"{name}/single"
    widened = _cast(value, ir.DataType.DOUBLE, name or "")
    graph.outputs[place] = widened
    node = widened.producer()
    if node is not None:
        graph.append(node)


def _cast(value: ir.Value, dtype: ir.DataType, name: str) -> ir.Value:
    node = ir.node("Cast", [value], {"to": int(dtype)}, name=f"{name}/cast")
    output = node.outputs[0]
    output.name, output.type, output.shape = name, ir.TensorType(dtype), value.shape
    return output
