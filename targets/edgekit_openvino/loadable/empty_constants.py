"""Constants without elements, of which OpenVINO's ONNX frontend makes scalars, or inputs of the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.model import Model

_BODIES = {"If": 2, "Loop": 1, "TensorIterator": 1}
"""By type of operation the number of networks within it: branches or bodies."""


_PRODUCTS = ("Gemm", "MatMul")
"""Operators of which the frontend refuses scalars as operands."""


def with_empty_factors_as_inputs(model: Model) -> Model:
    """Returns the model with inputs in place of the constants without elements that products read, or itself.

    :func:`put_back_empty_constants` makes constants of them again in the network.
    """
    names = [value.name for value in model.graph.initializers.values() if _is_empty_factor(value)]
    if not names:
        return model
    graph_model = model.graph_model.clone()
    for name in names:
        value = graph_model.graph.initializers.pop(str(name))
        assert value.const_value is not None
        value.shape, value.const_value = ir.Shape(value.const_value.shape.numpy()), None
        if value not in graph_model.graph.inputs:
            graph_model.graph.inputs.append(value)
    return model.with_graph(graph_model)


def _is_empty_factor(value: ir.Value) -> bool:
    is_empty = value.const_value is not None and 0 in value.const_value.shape
    return is_empty and any(node.op_type in _PRODUCTS and not node.domain for node, _ in value.uses())


def put_back_empty_constants(network: Any, model: Model) -> None:
    """Gives constants of the ONNX model that have no elements their shape again, in place, in branches and bodies too.

    The frontend (OpenVINO 2026.4) reads such a tensor as a scalar, or as an input if its stated sizes are open. It has
    already used those that configure operators, such as the region of a Resize; the remaining ones are returned, or
    concatenated with others. A branch of optimum's decoders returns ``[0, 4, 1, 16]`` for a value that does not change,
    and the plugin refuses branches of two ranks.

    Args:
        network: The ``openvino.Model`` that the frontend made of the model.
        model: The ONNX model.
    """
    empty = {
        value.name: tuple(shape.numpy())
        for value in _constants(model)
        if value.name is not None and (shape := _shape(value)) is not None and 0 in shape
    }
    if empty and _put_back(network, empty):
        network.validate_nodes_and_infer_types()


def _put_back(network: Any, empty: Mapping[str, tuple[int, ...]]) -> bool:
    """Restores shapes in the network and in those within it; returns whether there was a constant without elements."""
    from openvino import opset13

    found = False
    for operation in network.get_ordered_ops():
        for place in range(_BODIES.get(operation.get_type_name(), 0)):
            found |= _put_back(_body(operation, place), empty)
        kind = operation.get_type_name()
        output = operation.output(0) if kind in ("Constant", "Parameter") else None
        names = [] if output is None else sorted(output.names & empty.keys())
        if output is None or not names or (kind == "Constant" and output.get_shape() != []):
            continue
        constant = opset13.constant(np.zeros(empty[names[0]], output.get_element_type().to_dtype()))
        constant.set_friendly_name(operation.get_friendly_name())
        constant.output(0).get_tensor().set_names(output.names)
        for port in output.get_target_inputs():
            port.replace_source_output(constant.output(0))
        if kind == "Parameter":
            network.remove_parameter(operation)
        found = True
    return found


def _body(operation: Any, place: int) -> Any:
    return operation.get_function(place) if operation.get_type_name() == "If" else operation.get_function()


def _shape(value: ir.Value) -> ir.ShapeProtocol | None:
    """The shape of a constant; what the file states of it, beside its tensor, may have open sizes."""
    return value.shape if value.const_value is None else value.const_value.shape


def _constants(model: Model) -> Iterator[ir.Value]:
    yield from model.graph.initializers.values()
    for graph in model.graph.subgraphs():
        yield from graph.initializers.values()
    for node in model.graph.all_nodes():
        if node.op_type == "Constant" and not node.domain:
            yield node.outputs[0]
