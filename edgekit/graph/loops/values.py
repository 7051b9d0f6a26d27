"""What the values in a loop's body are in each iteration: counters, values from outside, sizes of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

BEFORE_STATES = 2
"""The number of inputs ahead of the states of a Loop, and of its body: the trip count and the condition."""
CONDITION = 1
"""The number of outputs of a Loop's body ahead of the states."""
EXACT = {
    ir.DataType.INT64: 2**63 - 1,
    ir.DataType.INT32: 2**31 - 1,
    ir.DataType.DOUBLE: 2**53,
    ir.DataType.FLOAT: 2**24,
    ir.DataType.FLOAT16: 2**11,
}
"""The types that a counter may have, each with the absolute value up to which it represents every integer."""
INTEGERS = frozenset([ir.DataType.INT64, ir.DataType.INT32])
_SHAPING = frozenset(["Identity", "Reshape", "Squeeze", "Unsqueeze"])
"""Operators that pass on a tensor's single element unchanged."""


@dataclass(frozen=True)
class Counter:
    """An integer that is ``first`` in the first iteration and grows by ``step`` in each following one."""

    first: int
    step: int
    exact_to: int
    """The greatest absolute value up to which all types that the counter passes through represent every integer."""

    def shifted(self, by: int) -> Counter:
        """The counter with a number added in each iteration."""
        return replace(self, first=self.first + by, exact_to=self.exact_to - abs(by))


class Size(NamedTuple):
    """How large a tensor is along an axis."""

    tensor: ir.Value
    axis: int

    @property
    def known(self) -> int | None:
        """The size as a number, or None if it is not fixed."""
        size = None if self.tensor.shape is None else self.tensor.shape[self.axis]
        return size if isinstance(size, int) else None


class LoopValues:
    """Determines what values in the body of a Loop are.

    Args:
        loop: The node.
    """

    def __init__(self, loop: ir.Node) -> None:
        self._loop = loop
        self.body = loop.attributes["body"].as_graph()
        self.states = len(loop.inputs) - BEFORE_STATES

    def counter(self, value: ir.Value) -> Counter | None:
        """The counter that a value of one element is; None for any other value."""
        if value is self.body.inputs[0]:
            return Counter(0, 1, EXACT[ir.DataType.INT64])
        if (number := self.state_number(value)) is not None:
            return self._carried(number)
        node = value.producer()
        if node is None or node.domain or node.graph is not self.body or not node.inputs or node.inputs[0] is None:
            return None
        if node.op_type in _SHAPING:
            return self.counter(node.inputs[0])
        if node.op_type == "Cast":
            exact_to = EXACT.get(ir.DataType(node.attributes["to"].as_int()))
            before = self.counter(node.inputs[0])
            if before is None or exact_to is None:
                return None
            return replace(before, exact_to=min(before.exact_to, exact_to))
        for operand, by in self._sums(node):
            if (before := self.counter(operand)) is not None:
                return before.shifted(by)
        return None

    def state_number(self, value: ir.Value) -> int | None:
        """Returns the index of the state that a value is at the start of an iteration, or None for any other value."""
        states = self.body.inputs[BEFORE_STATES:]
        return next((number for number, state in enumerate(states) if state is value), None)

    def outside(self, value: ir.Value) -> ir.Value | None:
        """Returns the outside value that a value equals in each iteration, or None if the body makes or changes it.

        Constants of the body count as outside values.
        """
        value = source(value)
        if value.graph is not self.body or value.is_initializer():
            return value
        number = self.state_number(value)
        if number is not None and source(self.body.outputs[CONDITION + number]) is value:
            return self._loop.inputs[BEFORE_STATES + number]
        node = value.producer()
        return value if node is not None and node.op_type == "Constant" and not node.domain else None

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """Returns the array that a value is in each iteration, or None if it is not constant."""
        outer = None if value is None else self.outside(value)
        return None if outer is None else constant_of(outer)

    def _carried(self, number: int) -> Counter | None:
        """Returns the counter that a state is, or None if it is not a counter."""
        first, state = self._loop.inputs[BEFORE_STATES + number], self.body.inputs[BEFORE_STATES + number]
        start = None if first is None else whole_number(constant_of(first))
        exact_to = None if state.dtype not in INTEGERS else EXACT[state.dtype]
        step = self._growth(self.body.outputs[CONDITION + number], state)
        return None if start is None or step is None or exact_to is None else Counter(start, step, exact_to)

    def _growth(self, value: ir.Value, state: ir.Value) -> int | None:
        """Returns how much greater a value is than a state, or None if that is not the same in each iteration."""
        if value is state:
            return 0
        node = value.producer()
        if node is None or node.domain or node.graph is not self.body or not node.inputs or node.inputs[0] is None:
            return None
        if node.op_type in _SHAPING:
            return self._growth(node.inputs[0], state)
        for operand, by in self._sums(node):
            if (before := self._growth(operand, state)) is not None:
                return before + by
        return None

    def _sums(self, node: ir.Node) -> list[tuple[ir.Value, int]]:
        """Returns operands of a node that adds or subtracts a constant integer, each with the amount added to it."""
        if node.op_type not in {"Add", "Sub"} or len(node.inputs) != 2:
            return []
        one, other = node.inputs
        if one is None or other is None:
            return []
        sign = 1 if node.op_type == "Add" else -1
        found = []
        if (by := whole_number(self.constant(other))) is not None:
            found.append((one, sign * by))
        if node.op_type == "Add" and (by := whole_number(self.constant(one))) is not None:
            found.append((other, by))
        return found


def source(value: ir.Value) -> ir.Value:
    """Returns the value ahead of all Identity nodes, or the value itself if none makes it."""
    while (node := value.producer()) is not None and (node.op_type, node.domain) == ("Identity", ""):
        if node.inputs[0] is None:
            break
        value = node.inputs[0]
    return value


def constant_of(value: ir.Value) -> np.ndarray | None:
    """Returns the numbers of a constant, or None for strings and values that are fed or computed."""
    if value.is_graph_input():
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None or tensor.dtype == ir.DataType.STRING else tensor.numpy()


def whole_number(array: np.ndarray | None) -> int | None:
    """The one integer that an array of an integer type holds; None for other arrays."""
    return int(array.reshape(-1)[0]) if array is not None and array.size == 1 and array.dtype.kind in "iu" else None


def plain_scalar(value: ir.Value) -> tuple[ir.Value, int]:
    """Returns the value of one integer without casts and changes of rank, and the number up to which it is exact.

    Casts from fractions stay, because they change the number.
    """
    exact_to = EXACT[ir.DataType.INT64]
    while (node := value.producer()) is not None and not node.domain and node.inputs and node.inputs[0] is not None:
        before = node.inputs[0]
        if node.op_type == "Cast" and before.dtype in INTEGERS:
            to = ir.DataType(node.attributes["to"].as_int())
            if to not in EXACT:
                break
            exact_to = min(exact_to, EXACT[to])
        elif node.op_type not in _SHAPING:
            break
        value = before
    return value, exact_to


def size_of(value: ir.Value) -> Size | None:
    """Returns the tensor size that a value of one element is computed as, or None if it is not a size."""
    sizes = _sizes(value)
    return sizes[0] if sizes is not None and len(sizes) == 1 else None


def _sizes(value: ir.Value) -> Sequence[Size] | None:
    """Returns the tensor sizes that a value holds, or None if it holds something else."""
    node = value.producer()
    if node is None or node.domain or not node.inputs or node.inputs[0] is None:
        return None
    first = node.inputs[0]
    if node.op_type == "Shape":
        rank = None if first.shape is None else len(first.shape)
        if rank is None or {"start", "end"} & set(node.attributes):
            return None
        return [Size(source(first), axis) for axis in range(rank)]
    if node.op_type == "Cast":
        return _sizes(first) if node.attributes["to"].as_int() in INTEGERS else None
    if node.op_type in _SHAPING:
        return _sizes(first)
    sizes, chosen = _sizes(first), [None if value is None else constant_of(value) for value in node.inputs[1:]]
    if sizes is None or any(array is None for array in chosen):
        return None
    numbers = [[int(number) for number in array.reshape(-1)] for array in chosen if array is not None]
    if node.op_type == "Gather" and numbers:
        return [sizes[number] for number in numbers[0] if -len(sizes) <= number < len(sizes)]
    if node.op_type == "Slice" and len(numbers) >= 2:
        (start, *_), (end, *_) = numbers[:2]
        (step,) = numbers[3] if len(numbers) > 3 else [1]
        return sizes[start:end:step]
    return None
