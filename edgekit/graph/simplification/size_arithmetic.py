"""Arithmetic on sizes in ONNX's 64 bits: exporters of TensorFlow compute it in 32 bits, between two casts.

OpenVINO 2026.4 derives the possible sizes of a tensor from such arithmetic. In 32 bits, the upper bounds of free
dimensions overflow, and OpenVINO refuses the model.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

OF_FIRST_INPUT = frozenset(
    [
        "Gather",
        "Identity",
        "ReduceMax",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Squeeze",
        "Unsqueeze",
    ]
)
"""Operators whose result has the type of their first input."""
OF_ALL_INPUTS = frozenset(["Add", "Concat", "Max", "Min", "Mul", "Sub"])
"""Operators whose result has the type of all inputs."""
SIZES = ("Shape", "Size")


def widen_sizes(model: ir.Model) -> bool:
    """Replaces 32-bit integers between a tensor's shape and the next cast by 64-bit ones, in place.

    Returns:
        Whether there were any.
    """
    nodes = _narrow(model.graph)
    if not nodes:
        return False
    wide: dict[ir.Value, ir.Value] = {}
    for node in model.graph:
        if node in nodes:
            _widen(model.graph, node, wide)
    for node in list(model.graph):
        if node not in nodes and _casts(node) and node.inputs[0] in wide:
            _read(model.graph, node, wide[node.inputs[0]])
    RemoveUnusedNodesPass()(model)
    return True


def _narrow(graph: ir.Graph) -> set[ir.Node]:
    """Returns the nodes of 32-bit size arithmetic, whose 32-bit inputs are constant or made by another such node."""
    found = {node for node in graph if _casts_size(node) or (_computes(node) and _is_int32(node.outputs[0]))}
    while True:
        strange = {node for node in found if not _reads_sizes(node, found) or not _is_read_by(node, found)}
        if not strange:
            return found if any(_casts_size(node) for node in found) else set()
        found -= strange


def _casts(node: ir.Node) -> bool:
    return node.op_type == "Cast" and not node.domain


def _casts_size(node: ir.Node) -> bool:
    """Whether the node casts a size to 32 bits."""
    if not _casts(node) or node.attributes["to"].as_int() != ir.DataType.INT32:
        return False
    value = node.inputs[0]
    while value is not None and (maker := value.producer()) is not None and not maker.domain:
        if maker.op_type in SIZES:
            return True
        if maker.op_type not in OF_FIRST_INPUT:
            return False
        value = maker.inputs[0]
    return False


def _computes(node: ir.Node) -> bool:
    return not node.domain and node.op_type in OF_FIRST_INPUT | OF_ALL_INPUTS and len(node.outputs) == 1


def _is_int32(value: ir.Value | None) -> bool:
    return value is not None and value.dtype is ir.DataType.INT32


def _numbers(node: ir.Node) -> Iterator[tuple[int, ir.Value]]:
    """Yields the inputs whose type the result has, with their indices."""
    inputs = node.inputs if node.op_type in OF_ALL_INPUTS else node.inputs[:1]
    yield from ((place, value) for place, value in enumerate(inputs) if value is not None)


def _reads_sizes(node: ir.Node, found: set[ir.Node]) -> bool:
    return _casts(node) or all(
        value.producer() in found or (value.producer() is None and ir.convenience.get_const_tensor(value) is not None)
        for _, value in _numbers(node)
    )


def _is_read_by(node: ir.Node, found: set[ir.Node]) -> bool:
    """Whether nothing but casts and the arithmetic itself reads the result, as a number."""
    (output,) = node.outputs
    return not output.is_graph_output() and all(
        _casts(reader) or (reader in found and (place, output) in _numbers(reader)) for reader, place in output.uses()
    )


def _widen(graph: ir.Graph, node: ir.Node, wide: dict[ir.Value, ir.Value]) -> None:
    """Inserts a 64-bit copy of the node behind the 32-bit one."""
    (output,) = node.outputs
    if _casts(node):
        assert node.inputs[0] is not None
        wide[output] = node.inputs[0]
        return
    inputs = list(node.inputs)
    for place, value in _numbers(node):
        inputs[place] = wide[value] if value in wide else _wide_constant(graph, value, wide)
    twin = ir.Node("", node.op_type, inputs, node.attributes.values(), num_outputs=1, name=f"{output.name}/64")
    twin.outputs[0].name = f"{output.name}/64"
    twin.outputs[0].dtype, twin.outputs[0].shape = ir.DataType.INT64, output.shape
    graph.insert_after(node, twin)
    wide[output] = twin.outputs[0]


def _wide_constant(graph: ir.Graph, value: ir.Value, wide: dict[ir.Value, ir.Value]) -> ir.Value:
    tensor = ir.convenience.get_const_tensor(value)
    assert tensor is not None
    name = f"{value.name}/64"
    constant = ir.Value(name=name, const_value=ir.Tensor(tensor.numpy().astype(np.int64), name=name))
    constant.dtype, constant.shape = ir.DataType.INT64, value.shape
    graph.initializers[name] = constant
    wide[value] = constant
    return constant


def _read(graph: ir.Graph, cast: ir.Node, value: ir.Value) -> None:
    """Makes a cast read the 64-bit size; a cast to 64 bits is bypassed."""
    (output,) = cast.outputs
    if cast.attributes["to"].as_int() == ir.DataType.INT64 and not output.is_graph_output():
        output.replace_all_uses_with(value)
    else:
        cast.replace_input_with(0, value)
