"""Keeps NaN, as the mark of a missing value, where OpenVINO's CPU plugin would make a number of it.

Its kernels of some operations turn NaN into a limit, zero or infinity (seen in OpenVINO 2026.4). That matters where a
network tests for NaN: operations between an input and an ``IsNaN`` or a comparison, such as one of a tree, are
corrected, as long as every operation on the way is elementwise or moves elements. Other networks stay unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from edgekit_openvino.exact.replacing import put_behind

LOSES = frozenset({"Clamp", "Exp", "HardSigmoid", "HSigmoid", "Maximum", "Minimum", "Relu"})
"""Operations that the plugin computes as a number for NaN."""
MOVES = frozenset(
    {"Broadcast", "Concat", "Gather", "GatherElements", "GatherND", "Pad", "Reshape", "Select", "Slice", "Split"}
    | {"Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"}
)
KEEPS = frozenset(
    {"Abs", "Add", "Ceiling", "Convert", "Divide", "Floor", "Log", "Multiply", "Negative", "Power", "Round", "Sigmoid"}
    | {"Sign", "Sqrt", "Subtract", "Tanh"}
)
LOOKS = frozenset({"Equal", "Greater", "GreaterEqual", "IsNaN", "Less", "LessEqual", "NotEqual"})
_HANDS_ON = LOSES | MOVES | KEEPS


def keep_missing_values(network: Any) -> None:
    """Makes operations of an ``openvino.Model`` pass NaN on from its inputs to what tests for NaN; names stay."""
    from_inputs = _reached(network.get_parameters(), _readers)
    looking = [operation for operation in network.get_ordered_ops() if operation.get_type_name() in LOOKS]
    to_what_looks = _reached(looking, _sources)
    for operation in network.get_ordered_ops():
        if operation.get_name() in from_inputs & to_what_looks and operation.get_type_name() in LOSES:
            _keep(operation)


def _reached(starts: Iterable[Any], neighbours: Any) -> set[str]:
    """Returns the names of operations that pass floats on and that ``starts`` reach through such operations alone."""
    waiting, seen = list(starts), set()
    while waiting:
        for node in neighbours(waiting.pop()):
            name = node.get_name()
            if name not in seen and node.get_type_name() in _HANDS_ON and node.get_output_element_type(0).is_real():
                seen.add(name)
                waiting.append(node)
    return seen


def _readers(node: Any) -> list[Any]:
    return [port.get_node() for output in node.outputs() for port in output.get_target_inputs()]


def _sources(node: Any) -> list[Any]:
    return [port.get_source_output().get_node() for port in node.inputs()]


def _keep(operation: Any) -> None:
    """Replaces the result by an operand where this operand is NaN."""
    count = 2 if operation.get_type_name() in ("Maximum", "Minimum") else 1
    for operand in operation.input_values()[:count]:
        if operand.get_node().get_type_name() != "Constant":
            operation = put_behind(operation, partial(_unless_nan, operand))


def _unless_nan(operand: Any, result: Any) -> Any:
    from openvino import opset13

    return opset13.select(opset13.is_nan(operand), operand, result)
