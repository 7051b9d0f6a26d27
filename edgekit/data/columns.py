"""Integer inputs whose columns are looked up in different tables: which column of an input a value is.

Networks for tables take categories as one matrix [rows, columns], and pick each column for an embedding of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

_HANDS_ON = ("Cast", "Identity")
"""Operators whose result has the columns of their input."""


@dataclass(frozen=True)
class Columns:
    """What integers stay below, by column: the place along the last axis, negative if counted from the end."""

    limits: Mapping[int, int]
    others: int
    """What the integers of all other columns stay below."""

    def of(self, count: int) -> np.ndarray:
        """The limits of ``count`` columns."""
        below = np.full(count, self.others, np.int64)
        for place, limit in self.limits.items():
            if -count <= place < count:
                below[place] = limit
        return below


def picks_columns(node: ir.Node) -> bool:
    """Whether the node is a Gather of constant places along the last axis, or along one that may be the last."""
    if node.op_type != "Gather" or node.domain:
        return False
    data, places = node.inputs
    if data is None or places is None or ir.convenience.get_const_tensor(places) is None:
        return False
    axis = node.attributes.get_int("axis", 0)
    return axis == -1 or data.shape is None or axis == data.shape.rank() - 1


def picked_columns(value: ir.Value, inputs: Collection[ir.Value]) -> Iterator[tuple[ir.Value, int]]:
    """The columns of inputs that a value is picked from, each with its input.

    Args:
        value: The result of a Gather with constant indices; other values yield nothing.
        inputs: The inputs of the graph.
    """
    node = value.producer()
    if node is None or node.op_type != "Gather" or node.domain:
        return
    data, places = node.inputs
    constant = None if places is None else ir.convenience.get_const_tensor(places)
    if data is None or constant is None:
        return
    axis = node.attributes.get_int("axis", 0)
    for source, rank in _with_its_columns(data, inputs):
        if axis in (-1, rank - 1):
            yield from ((source, int(place)) for place in constant.numpy().ravel())


def _with_its_columns(value: ir.Value, inputs: Collection[ir.Value]) -> Iterator[tuple[ir.Value, int]]:
    """The inputs whose columns ``value`` has, each with the input's rank; not those joined along their last axis."""
    waiting, joined = [value], set[int]()
    while waiting:
        current = waiting.pop()
        producer = current.producer()
        if current in inputs and current.shape is not None:
            rank = current.shape.rank()
            if not joined & {-1, rank - 1}:
                yield current, rank
        elif producer is not None and not producer.domain and producer.op_type in _HANDS_ON:
            waiting.extend(operand for operand in producer.inputs[:1] if operand is not None)
        elif producer is not None and not producer.domain and producer.op_type == "Concat":
            joined.add(producer.attributes.get_int("axis", 0))
            waiting.extend(operand for operand in producer.inputs if operand is not None)
