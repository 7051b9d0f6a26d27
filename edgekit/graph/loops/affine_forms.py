"""Values of a graph as sums of products: ``x W + h R + b`` for rows x and h, and constants W, R and b."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir

MOST_FEATURES = 4096
"""The most columns of rows for which forms are worked out; the matrices are initially square with that size."""
ENDLESS = 2**31 - 1
"""A slice's end from here on means that it reaches the last row, as exporters write it."""
_MOVING = frozenset(["Cast", "Concat", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"])
"""Operators that are computed if all their inputs are constant: they cut and arrange weights."""


@dataclass(frozen=True)
class Form:
    """A sum of products with rows, and a constant."""

    weights: Mapping[ir.Value, np.ndarray]
    """For each value that is multiplied, its matrix: float64[columns of the value, columns of the form]."""
    bias: np.ndarray
    """float64[columns of the form], or one element for all columns."""

    @property
    def columns(self) -> int | None:
        """How wide the form is; None for a bias of one element."""
        return next((matrix.shape[1] for matrix in self.weights.values()), None)

    def mapped(self, matrices: Callable[[np.ndarray], np.ndarray], bias: Callable[[np.ndarray], np.ndarray]) -> Form:
        """The form with its parts changed."""
        return Form({value: matrices(matrix) for value, matrix in self.weights.items()}, bias(self.bias))

    def plus(self, other: Form) -> Form | None:
        """Returns the sum of two forms, or None if their numbers of columns differ."""
        if self.columns is not None and other.columns is not None and self.columns != other.columns:
            return None
        weights = dict(self.weights)
        for value, matrix in other.weights.items():
            weights[value] = weights[value] + matrix if value in weights else matrix
        return Form(weights, self.bias + other.bias)

    def picked(self, columns: slice) -> Form:
        """Returns the form of some of the columns."""
        return self.mapped(lambda matrix: matrix[:, columns], lambda bias: bias if bias.size == 1 else bias[columns])


class Forms:
    """Works out forms in one graph.

    Args:
        rows: The values that are multiplied, each with its number of columns.
        known: Returns the array of a constant value, or None for other values.
        opset: The version of the standard operators.
    """

    def __init__(
        self, rows: Mapping[ir.Value, int], known: Callable[[ir.Value], np.ndarray | None], opset: int
    ) -> None:
        self._rows = rows
        self._known = known
        self._opset = opset
        self._forms: dict[ir.Value, Form | None] = {}

    def form(self, value: ir.Value) -> Form | None:
        """Returns the form of a value of rank 2, or None if it has none."""
        if value not in self._forms:
            self._forms[value] = self._worked_out(value)
        return self._forms[value]

    def _worked_out(self, value: ir.Value) -> Form | None:
        if value in self._rows:
            return Form({value: np.eye(self._rows[value])}, np.zeros(1))
        if (array := self.constant(value)) is not None:
            is_row = array.dtype.kind == "f" and (array.ndim == 0 or array.size == array.shape[-1])
            return Form({}, array.reshape(-1).astype(np.float64)) if is_row else None
        node = value.producer()
        rule = None if node is None or node.domain else _RULES.get(node.op_type)
        return None if node is None or rule is None or None in node.inputs[:2] else rule(self, node, value)

    def constant(self, value: ir.Value | None) -> np.ndarray | None:
        """Returns the array of a value that is made of constants alone, or None for other values."""
        if value is None:
            return None
        if (array := self._known(value)) is not None:
            return array
        node = value.producer()
        if node is None or node.domain or node.op_type not in _MOVING:
            return None
        given = {f"i{place}": self.constant(each) for place, each in enumerate(node.inputs) if each is not None}
        feeds = {name: array for name, array in given.items() if array is not None}
        if len(feeds) < len(given):
            return None
        message = ir.to_proto(node)
        names = ["" if each is None else f"i{place}" for place, each in enumerate(node.inputs)]
        wanted = [f"o{place}" for place in range(len(node.outputs))]
        del message.input[:], message.output[:]
        message.input.extend(names)
        message.output.extend(wanted)
        read, made = (
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in each] for each in (feeds, wanted)
        )
        graph = onnx.helper.make_graph([message], "moved", read, made)
        proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self._opset)])
        results = onnx.reference.ReferenceEvaluator(proto).run([f"o{value.index()}"], feeds)
        return np.asarray(next(iter(results)))

    def sum_of(self, node: ir.Node, _: ir.Value) -> Form | None:
        """Add."""
        one, other = (None if each is None else self.form(each) for each in node.inputs)
        return None if one is None or other is None else one.plus(other)

    def product(self, node: ir.Node, _: ir.Value) -> Form | None:
        """MatMul, and Gemm if it neither scales nor transposes its left operand."""
        left, matrix = node.inputs[:2]
        form, weights = None if left is None else self.form(left), self.constant(matrix)
        changed = any(node.attributes.get_float(name, 1.0) != 1.0 for name in ("alpha", "beta"))
        changed |= node.attributes.get_int("transA", 0) != 0
        if form is None or weights is None or weights.ndim != 2 or changed:
            return None
        weights = weights.T if node.attributes.get_int("transB", 0) else weights
        if form.columns != len(weights):
            return None
        exact = weights.astype(np.float64)
        result: Form | None = form.mapped(
            lambda matrix: matrix @ exact, lambda bias: np.broadcast_to(bias, len(exact)) @ exact
        )
        if len(node.inputs) > 2 and node.inputs[2] is not None and result is not None:
            added = self.form(node.inputs[2])
            result = None if added is None else result.plus(added)
        return result

    def scaled(self, node: ir.Node, _: ir.Value) -> Form | None:
        """Mul with ones, which dropout leaves behind."""
        for one, other in (node.inputs, node.inputs[::-1]):
            if one is not None and other is not None and self._is_one(other):
                return self.form(one)
        return None

    def _is_one(self, value: ir.Value) -> bool:
        node, array = value.producer(), self.constant(value)
        if node is not None and (node.op_type, node.domain) == ("ConstantOfShape", "") and "value" in node.attributes:
            array = node.attributes["value"].as_tensor().numpy()
        return array is not None and array.size > 0 and bool((array == 1).all())

    def handed_on(self, node: ir.Node, _: ir.Value) -> Form | None:
        """Identity."""
        return None if node.inputs[0] is None else self.form(node.inputs[0])

    def split(self, node: ir.Node, value: ir.Value) -> Form | None:
        """Split along the columns."""
        form = None if node.inputs[0] is None else self.form(node.inputs[0])
        if form is None or form.columns is None or node.attributes.get_int("axis", 0) not in (1, -1):
            return None
        sizes = list(node.attributes.get_ints("split", ()))
        if len(node.inputs) > 1 and (given := self.constant(node.inputs[1])) is not None:
            sizes = [int(size) for size in given]
        parts, rest = len(node.outputs), form.columns % len(node.outputs)
        if not sizes and (rest or (len(node.inputs) > 1 and node.inputs[1] is not None)):
            return None
        sizes = sizes or [form.columns // parts] * parts
        place = value.index() or 0
        return form.picked(slice(sum(sizes[:place]), sum(sizes[: place + 1])))

    def slice(self, node: ir.Node, _: ir.Value) -> Form | None:
        """Slice along the columns; along the rows, it has to take all of them."""
        form = None if node.inputs[0] is None else self.form(node.inputs[0])
        given = [self.constant(each) for each in node.inputs[1:]]
        if form is None or form.columns is None or len(given) < 2 or any(array is None for array in given):
            return None
        numbers = [[int(number) for number in array.reshape(-1)] for array in given if array is not None]
        starts, ends = numbers[:2]
        axes = numbers[2] if len(numbers) > 2 else range(len(starts))
        steps = numbers[3] if len(numbers) > 3 else [1] * len(starts)
        columns = slice(None)
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            if axis in (1, -1):
                columns = slice(start, end, step)
            elif (start, step) != (0, 1) or end < ENDLESS:
                return None
        return form.picked(columns)

    def side_by_side(self, node: ir.Node, _: ir.Value) -> Form | None:
        """Concat along the columns."""
        parts = [None if each is None else self.form(each) for each in node.inputs]
        forms = [form for form in parts if form is not None and form.columns is not None]
        if len(forms) < len(parts) or node.attributes["axis"].as_int() not in (1, -1):
            return None
        widths = [form.columns or 0 for form in forms]
        rows = dict.fromkeys(value for form in forms for value in form.weights)
        weights = {
            value: np.concatenate(
                [
                    form.weights.get(value, np.zeros((self._rows[value], width)))
                    for form, width in zip(forms, widths, strict=True)
                ],
                axis=1,
            )
            for value in rows
        }
        bias = [np.broadcast_to(form.bias, width) for form, width in zip(forms, widths, strict=True)]
        return Form(weights, np.concatenate(bias))


_RULES: Mapping[str, Callable[[Forms, ir.Node, ir.Value], Form | None]] = {
    "Add": Forms.sum_of,
    "Concat": Forms.side_by_side,
    "Gemm": Forms.product,
    "Identity": Forms.handed_on,
    "MatMul": Forms.product,
    "Mul": Forms.scaled,
    "Slice": Forms.slice,
    "Split": Forms.split,
}
