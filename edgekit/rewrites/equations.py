"""``Einsum`` with other, equivalent equations."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import rank_of, shape_of, typed

REST = "..."
PAIR = 2


class NamedEinsum(Rewrite):
    """``Einsum`` whose equation leaves axes unnamed (``...``), with letters for all of them."""

    name: ClassVar[str] = "equation with all axes named"
    op_types: ClassVar[Sequence[str]] = ("Einsum",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the equation has an ellipsis."""
        return REST in node.attributes.get_string("equation", "")

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For tensors of known ranks, whose unnamed axes have the same sizes where these are known, or the size 1."""
        equation = node.attributes.get_string("equation").replace(" ", "")
        before, _, after = equation.partition("->")
        operands = before.split(",")
        if "->" not in equation:
            after = REST + _letters_that_occur_once(before.replace(REST, ""))
        shapes = [_unnamed_sizes(value, operand) for value, operand in zip(node.inputs, operands, strict=True)]
        most = max(shapes, key=len)
        known = [{sizes[-axis] for sizes in shapes if len(sizes) >= axis} - {None} for axis in range(1, len(most) + 1)]
        if any(len(sizes - {1}) > 1 for sizes in known):
            raise InapplicableError("its unnamed axes have several sizes")
        free = [letter for letter in string.ascii_letters if letter not in equation][: len(most)]
        if len(free) < len(most):
            raise InapplicableError("its equation has no letters left")
        tensors, named_operands = [], []
        for value, operand, sizes in zip(node.inputs, operands, shapes, strict=True):
            letters = free[len(most) - len(sizes) :]
            # an axis of size 1 that is larger elsewhere is broadcast, as if it were not there
            single = [place for place, size in enumerate(sizes) if size == 1 and len(known[len(sizes) - place - 1]) > 1]
            before_rest = operand.index(REST) if sizes else 0
            tensors.append(build.squeeze(value, [before_rest + place for place in single]) if single else value)
            kept = "".join(letter for place, letter in enumerate(letters) if place not in single)
            named_operands.append(operand.replace(REST, kept))
        explicit = f"{','.join(named_operands)}->{after.replace(REST, ''.join(free))}"
        return [build("Einsum", *tensors, equation=explicit)]


class ExplicitEinsum(Rewrite):
    """``Einsum`` whose equation leaves its result unnamed, with the result that this means."""

    name: ClassVar[str] = "equation with its result named"
    op_types: ClassVar[Sequence[str]] = ("Einsum",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the equation names all axes of the tensors, and no result."""
        equation = node.attributes.get_string("equation", "")
        return bool(equation) and "->" not in equation and REST not in equation

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The result has the letters that occur once, in alphabetical order."""
        before = node.attributes.get_string("equation").replace(" ", "")
        return [build("Einsum", *node.inputs, equation=f"{before}->{_letters_that_occur_once(before)}")]


class EmptyEinsum(Rewrite):
    """``Einsum`` of a tensor without elements as zeros: sums of nothing, if any."""

    name: ClassVar[str] = "equation of nothing as zeros"
    op_types: ClassVar[Sequence[str]] = ("Einsum",)

    def matches(self, node: ir.Node) -> bool:
        """Whether a tensor is known to have no elements."""
        return any(value is not None and 0 in (value.shape or ()) for value in node.inputs)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds a constant in the output's shape, which has to be known."""
        _, dtype = typed(node.inputs[0])
        return [build("Identity", np.zeros(shape_of(node.outputs[0]), dtype.numpy()))]


class PairedEinsum(Rewrite):
    """``Einsum`` of three tensors and more as products of two, from left to right."""

    name: ClassVar[str] = "equation in pairs"
    op_types: ClassVar[Sequence[str]] = ("Einsum",)

    def matches(self, node: ir.Node) -> bool:
        """Whether there are more than two tensors, and the equation names all axes."""
        return len(node.inputs) > PAIR and REST not in node.attributes.get_string("equation", "")

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds products of two tensors; axes that neither the result nor a later tensor has are summed at once."""
        equation = node.attributes.get_string("equation").replace(" ", "")
        before, arrow, result = equation.partition("->")
        operands = before.split(",")
        if not arrow:
            result = _letters_that_occur_once(before)
        product, letters = node.inputs[0], operands[0]
        for place in range(1, len(operands)):
            needed = {*result, *"".join(operands[place + 1 :])}
            is_last = place == len(operands) - 1
            kept = result if is_last else "".join(dict.fromkeys(filter(needed.__contains__, letters + operands[place])))
            product = build("Einsum", product, node.inputs[place], equation=f"{letters},{operands[place]}->{kept}")
            letters = kept
        assert product is not None
        return [product]


def _letters_that_occur_once(equation: str) -> str:
    """Returns the result that an equation without one means."""
    return "".join(sorted(letter for letter in set(equation) - {","} if equation.count(letter) == 1))


def _unnamed_sizes(value: ir.Value | None, operand: str) -> list[int | str | None]:
    """Returns the sizes of the axes in place of an ellipsis: numbers, names of open ones, None if neither is known."""
    rank = rank_of(value)
    assert value is not None
    assert value.shape is not None
    head, rest, tail = operand.partition(REST)
    sizes = list(value.shape)[len(head) : rank - len(tail)] if rest else []
    return [size if isinstance(size, int) else size.value for size in sizes]
