"""NaN that stands for a missing value, kept where OpenVINO's CPU plugin computes a number of it.

Its kernels of some operations make a limit, zero or infinity of NaN (seen in OpenVINO 2026.4). That matters where a
network looks for NaN: the operations are put right between an input and an ``IsNaN`` or a comparison, such as one of a
tree, as long as every element is treated alone. Other networks stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from edgekit_openvino.exact.replacing import put_behind

LOSES = frozenset({"Clamp", "Exp", "HardSigmoid", "HSigmoid", "Maximum", "Minimum", "Relu"})
"""Operations that make a number of NaN."""
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
    """Lets operations of an ``openvino.Model`` hand NaN on from its inputs to what looks for it; names stay."""
    from_inputs = _reached(network.get_parameters(), _readers)
    looking = [operation for operation in network.get_ordered_ops() if operation.get_type_name() in LOOKS]
    to_what_looks = _reached(looking, _sources)
    for operation in network.get_ordered_ops():
        if operation.get_name() in from_inputs & to_what_looks and operation.get_type_name() in LOSES:
            _keep(operation)


def _reached(starts: Iterable[Any], neighbours: Any) -> set[str]:
    """The names of operations that hand numbers on, as far as they follow one another from the first ones."""
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
    """Chooses an operand in place of the result where it is NaN."""
    count = 2 if operation.get_type_name() in ("Maximum", "Minimum") else 1
    for operand in operation.input_values()[:count]:
        if operand.get_node().get_type_name() != "Constant":
            operation = put_behind(operation, partial(_unless_nan, operand))


def _unless_nan(operand: Any, result: Any) -> Any:
    from openvino import opset13

    return opset13.select(opset13.is_nan(operand), operand, result)
