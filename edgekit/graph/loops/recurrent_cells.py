"""The steps of recurrent layers as nodes of a loop's body: what a kind of cell provides, and how it is recognized."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx_ir as ir

from edgekit.graph.loops.affine_forms import Form, Forms
from edgekit.graph.loops.values import LoopValues, source

GATES = frozenset(["HardSigmoid", "Sigmoid"])
"""ONNX's names of the activation functions of gates."""


@dataclass(frozen=True)
class Function:
    """An activation function, by ONNX's name of it."""

    name: str
    parameters: tuple[float, ...] = ()
    """Slope and shift of a hard sigmoid."""


@dataclass(frozen=True)
class Activated:
    """An activation function and its argument."""

    function: Function
    argument: ir.Value


@dataclass(frozen=True)
class Rows:
    """What a step of a layer multiplies with weights."""

    step: ir.Value
    """The iteration's row of the sequence: [batch, features]."""
    features: int
    state: ir.Value
    """The output of the iteration before: [batch, size]."""
    size: int
    known: Callable[[ir.Value], np.ndarray | None]
    """Returns the array of a constant value, or None for other values."""
    opset: int

    def forms(self, *more: ir.Value) -> Forms:
        """Works out sums of products with the step and the state, and with more values [batch, size]."""
        widths = {self.step: self.features, self.state: self.size} | dict.fromkeys(more, self.size)
        return Forms(widths, self.known, self.opset)


@dataclass(frozen=True)
class Weights:
    """A layer's weights and biases, the gates side by side in ONNX's order."""

    of_input: np.ndarray
    """[features, gates · size]."""
    of_state: np.ndarray
    """[size, gates · size]."""
    input_bias: np.ndarray
    """[gates · size]."""
    state_bias: np.ndarray
    """[gates · size]; zeros if the layer has only one bias."""
    resets_product: bool | None = None
    """``linear_before_reset``; None for an operator that has no such attribute."""


class Cell(Protocol):
    """A step of a recurrent layer, found in a loop."""

    @property
    def operator(self) -> str:
        """ONNX's name of the layer."""

    @property
    def states(self) -> Sequence[int]:
        """Indices of the loop's states that belong to the layer, the output of a step first."""

    @property
    def functions(self) -> Sequence[Function]:
        """What the layer's attribute ``activations`` lists."""

    def weights(self, rows: Rows) -> Weights | None:
        """What the step multiplies its rows with; None where it computes something else of them."""


def operands(value: ir.Value, operator: str) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yields the operands of the binary operator that makes a value, in both orders unless it is Sub."""
    node = source(value).producer()
    if node is not None and (node.op_type, node.domain) == (operator, "") and len(node.inputs) == 2:
        one, other = node.inputs
        if one is not None and other is not None:
            yield source(one), source(other)
            if operator != "Sub":
                yield source(other), source(one)


def activated(value: ir.Value, values: LoopValues) -> Iterator[Activated]:
    """Yields the functions ``Tanh``, ``Sigmoid`` or hard sigmoid, in one node or in parts, that give a value."""
    node = source(value).producer()
    if node is None or node.domain or not node.inputs or node.inputs[0] is None:
        return
    if node.op_type in {"Sigmoid", "Tanh"}:
        yield Activated(Function(node.op_type), node.inputs[0])
    elif node.op_type == "HardSigmoid":
        parameters = node.attributes.get_float("alpha", 0.2), node.attributes.get_float("beta", 0.5)
        yield Activated(Function("HardSigmoid", parameters), node.inputs[0])
    for line in _clipped(value, values):
        for scaled, shift in operands(line, "Add"):
            for argument, slope in operands(scaled, "Mul"):
                numbers = [_number(each, values) for each in (slope, shift)]
                known = tuple(number for number in numbers if number is not None)
                if len(known) == len(numbers):
                    yield Activated(Function("HardSigmoid", known), argument)


def _clipped(value: ir.Value, values: LoopValues) -> Iterator[ir.Value]:
    """Yields the values that give a value when they are clipped to 0..1."""
    node = source(value).producer()
    if node is not None and (node.op_type, node.domain) == ("Clip", "") and node.inputs[0] is not None:
        low, high = (
            [node.attributes.get_float("min", -np.inf), node.attributes.get_float("max", np.inf)]
            if len(node.inputs) == 1
            else [_number(each, values) for each in (*node.inputs[1:], None)[:2]]
        )
        if (low, high) == (0, 1):
            yield source(node.inputs[0])
    for outer, outer_limit, inner, inner_limit in (("Max", 0, "Min", 1), ("Min", 1, "Max", 0)):
        for inside, limit in operands(value, outer):
            if _number(limit, values) == outer_limit:
                for line, other in operands(inside, inner):
                    if _number(other, values) == inner_limit:
                        yield line


def _number(value: ir.Value | None, values: LoopValues) -> float | None:
    """Returns the number that a value of one element has in each iteration, or None if it is not constant."""
    array = values.constant(value)
    return float(array.reshape(-1)[0]) if array is not None and array.size == 1 else None


def is_one(value: ir.Value, values: LoopValues) -> bool:
    """Whether a value is the number 1."""
    return _number(value, values) == 1


def beside(forms: Sequence[Form], row: ir.Value, columns: int) -> np.ndarray:
    """The matrices that several forms multiply a row with, side by side."""
    return np.concatenate([form.weights.get(row, np.zeros((columns, form.columns or 0))) for form in forms], axis=1)


def in_a_row(biases: Sequence[np.ndarray], size: int) -> np.ndarray:
    """Concatenates biases, each broadcast to the given size."""
    return np.concatenate([np.broadcast_to(bias, size) for bias in biases])
