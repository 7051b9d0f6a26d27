"""Einsum, as products of matrices: Core ML's own takes a few equations only."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import FIX_SIZES, HIGHEST_RANK, Unsupported, Value, computed
from edgekit_mil.ops.standard.reduction import of_higher_rank
from edgekit_mil.support.high_ranks import of_shape, transposed
from edgekit_mil.support.runtime_shapes import is_number, size_of, vector

ELLIPSIS = "..."


@dataclass(frozen=True)
class Term:
    """An operand during the computation: one letter for each axis, none twice after diagonals are taken."""

    value: Value
    labels: str

    @property
    def var(self) -> Var:
        """The operand as a MIL variable, if it has no more dimensions than Core ML."""
        return self.value.var

    @property
    def sizes(self) -> dict[str, Any]:
        """Sizes by letter; those of open dimensions are symbols."""
        return dict(zip(self.labels, self.value.shape, strict=True))

    def become(self, var: Var, labels: str) -> Term:
        """A term for a variable that was computed from this one, with the same type."""
        return Term(computed(var, self.value.dtype), labels)


@lowering("Einsum", versions=[12, 28])
def einsum(ctx: Context, *inputs: Value, equation: str) -> Value:
    """Sum of products in Einstein's notation."""
    operands, output = labelled(equation, inputs)
    terms = [_without_repeats(Term(value, labels)) for value, labels in zip(inputs, operands, strict=True)]
    result = terms[0]
    for position, term in enumerate(terms[1:], start=1):
        needed = set(output).union(*(later.labels for later in terms[position + 1 :]))
        result = _product(result, term, needed)
    result = _summed(result, [label for label in result.labels if label not in output])
    return _transposed(result, output).value


def labelled(equation: str, inputs: Sequence[Value]) -> tuple[list[str], str]:
    """The letters of every operand and of the result, with ellipses spelled out and an implicit result derived.

    Raises:
        Unsupported: The equation does not fit the operands.
    """
    left, arrow, right = equation.replace(" ", "").partition("->")
    operands = left.split(",")
    if len(operands) != len(inputs):
        raise Unsupported(f"the equation {equation!r} has {len(operands)} operands, the node {len(inputs)}")
    free = [letter for letter in string.ascii_letters if letter not in equation]
    widths = [value.rank - len(labels.replace(ELLIPSIS, "")) for value, labels in zip(inputs, operands, strict=True)]
    widest = max((width for width, labels in zip(widths, operands, strict=True) if ELLIPSIS in labels), default=0)
    letters = "".join(free[:widest])
    spelt = [
        labels.replace(ELLIPSIS, letters[widest - width :]) for width, labels in zip(widths, operands, strict=True)
    ]
    for value, labels in zip(inputs, spelt, strict=True):
        if len(labels) != value.rank:
            raise Unsupported(f"the equation {equation!r} does not fit an operand of rank {value.rank}")
    if arrow:
        return spelt, right.replace(ELLIPSIS, letters)
    once = sorted(letter for letter in set(left) - set(".,") if left.count(letter) == 1)
    return spelt, letters + "".join(once)


def _without_repeats(term: Term) -> Term:
    """Takes the diagonal over axes that have the same letter."""
    for label in dict.fromkeys(term.labels):
        while term.labels.count(label) > 1:
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            others = [axis for axis in range(len(term.labels)) if axis not in (first, second)]
            sizes = [term.value.shape[axis] for axis in (*others, first)]
            if not all(map(is_number, sizes)):
                raise Unsupported("takes a diagonal of a tensor with an open size", FIX_SIZES)
            *rest, size = map(int, sizes)
            moved = mb.transpose(x=term.var, perm=[*others, first, second])
            flat = mb.reshape(x=moved, shape=[*rest, size * size])
            diagonal = mb.gather(x=flat, indices=np.arange(size, dtype=np.int32) * (size + 1), axis=len(rest))
            term = term.become(diagonal, "".join(term.labels[axis] for axis in others) + label)
    return term


def _summed(term: Term, labels: Sequence[str]) -> Term:
    if not labels:
        return term
    axes = [term.labels.index(label) for label in labels]
    kept = "".join(label for label in term.labels if label not in labels)
    if term.value.rank > HIGHEST_RANK:
        return Term(of_higher_rank("ReduceSum", term.value, sorted(axes), False), kept)
    return term.become(mb.reduce_sum(x=term.var, axes=axes, keep_dims=False), kept)


def _transposed(term: Term, labels: str) -> Term:
    if term.labels == labels:
        return term
    order = [term.labels.index(label) for label in labels]
    if term.value.rank > HIGHEST_RANK:
        return Term(transposed(term.value, order), labels)
    return term.become(mb.transpose(x=term.var, perm=order), labels)


def _squeezed(term: Term, other: Term) -> Term:
    """Drops axes of size 1 that the other term has with a larger size: they would be broadcast."""
    sizes = other.sizes
    single = [label for label, size in term.sizes.items() if size == 1 and sizes.get(label, 1) != 1]
    if not single:
        return term
    kept = "".join(label for label in term.labels if label not in single)
    if term.value.rank > HIGHEST_RANK:
        return Term(of_shape(term.value, [term.sizes[label] for label in kept], term.value), kept)
    return term.become(mb.squeeze(x=term.var, axes=[term.labels.index(label) for label in single]), kept)


def _product(left: Term, right: Term, needed: set[str]) -> Term:
    """Multiplies two terms and sums over the letters that nothing needs any more."""
    left, right = _squeezed(left, right), _squeezed(right, left)
    left = _summed(left, [label for label in left.labels if label not in needed and label not in right.labels])
    right = _summed(right, [label for label in right.labels if label not in needed and label not in left.labels])
    shared = [label for label in left.labels if label in right.labels]
    batch = "".join(label for label in shared if label in needed)
    inner = "".join(label for label in shared if label not in needed)
    rows = "".join(label for label in left.labels if label not in shared)
    columns = "".join(label for label in right.labels if label not in shared)

    def matrix(term: Term, first: str, second: str) -> Var:
        ordered = _transposed(term, batch + first + second)
        if ordered.value.rank > HIGHEST_RANK:
            merged = [math.prod(sizes[label] for label in labels) for labels in (batch, first, second)]
            return of_shape(ordered.value, merged, left.value, right.value).var
        return mb.reshape(x=ordered.var, shape=_shape((batch, first, second), left, right))

    sizes = right.sizes | left.sizes
    product = mb.matmul(x=matrix(left, rows, inner), y=matrix(right, inner, columns))
    labels = batch + rows + columns
    if len(labels) > HIGHEST_RANK:
        merged = computed(product, left.value.dtype)
        return Term(of_shape(merged, [sizes[label] for label in labels], left.value, right.value), labels)
    shaped = mb.reshape(x=product, shape=_shape(labels, left, right)) if labels else mb.squeeze(x=product)
    return left.become(shaped, labels)


def _shape(groups: Sequence[str], *terms: Term) -> Any:
    """Sizes of axes that merge several letters: a list with at most one -1 for an open size, else a computed vector.

    Args:
        groups: The letters of each axis.
        terms: Terms with these letters; a letter has the same size in all of them.
    """
    sizes: dict[str, Any] = {}
    for term in terms:
        sizes.update({label: size for label, size in term.sizes.items() if is_number(size) or label not in sizes})
    known = [math.prod(int(sizes[label]) for label in labels if is_number(sizes[label])) for labels in groups]
    unknown = ["".join(label for label in labels if not is_number(sizes[label])) for labels in groups]
    if sum(map(bool, unknown)) < 2:
        return [-1 if labels else size for size, labels in zip(known, unknown, strict=True)]
    counts: list[Any] = []
    for count, labels in zip(known, unknown, strict=True):
        size: Any = np.array([count], np.int32) if labels else count
        for label in labels:
            term = next(term for term in terms if label in term.labels)
            size = mb.mul(x=size, y=size_of(term.var, term.labels.index(label)))
        counts.append(size)
    return vector(counts)
