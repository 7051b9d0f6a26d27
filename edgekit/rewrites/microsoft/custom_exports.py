"""Operators that PyTorch's exporter writes once ONNX Runtime's are registered with it, as standard operators.

They are those of the domain ``com.microsoft`` in ONNX Runtime's document ContribOperators.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.quantized_operators import MICROSOFT
from edgekit.rewrites.sampling import GatheredGrid

GRID_SAMPLE_SINCE = 16
GRID_MODES_RENAMED_SINCE = 20
UNIQUE_SINCE = 11
MOST_ROWS = 4
"""Matrices with more rows have too many cofactors."""


class CofactorInverse(Rewrite):
    """``Inverse`` of small matrices: cofactors over the determinant."""

    name: ClassVar[str] = "inverse by cofactors"
    op_types: ClassVar[Sequence[str]] = ("Inverse",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Of any number of matrices of up to :data:`MOST_ROWS` rows."""
        x = node.inputs[0]
        if x is None or x.shape is None or not isinstance(x.shape[-1], int):
            raise InapplicableError("how many rows its matrices have is not known")
        count = x.shape[-1]
        if count > MOST_ROWS:
            raise InapplicableError(f"matrices of {count} rows have too many cofactors")
        if count == 1:
            return [build("Reciprocal", x)]
        flat = build("Reshape", x, [-1, count * count])
        cells = [
            [build.slice(flat, [at], [at + 1], [1]) for at in range(row * count, (row + 1) * count)]
            for row in range(count)
        ]
        cofactors = [[_cofactor(build, cells, row, column) for row in range(count)] for column in range(count)]
        along_row = [build("Mul", cells[0][column], cofactors[column][0]) for column in range(count)]
        adjugate = build("Concat", *(each for row in cofactors for each in row), axis=1)
        inverse = build("Div", adjugate, _sum(build, along_row))
        return [build("Reshape", inverse, build("Shape", x))]


def _cofactor(build: NodeBuilder, cells: list[list[ir.Value]], row: int, column: int) -> ir.Value:
    """Returns the signed determinant of the matrix without a row and a column."""
    rest = [[*cells[at][:column], *cells[at][column + 1 :]] for at in range(len(cells)) if at != row]
    value = _determinant(build, rest)
    return value if (row + column) % 2 == 0 else build("Neg", value)


def _determinant(build: NodeBuilder, cells: list[list[ir.Value]]) -> ir.Value:
    if len(cells) == 1:
        return cells[0][0]
    first = range(len(cells))
    return _sum(build, [build("Mul", cells[0][column], _cofactor(build, cells, 0, column)) for column in first])


def _sum(build: NodeBuilder, terms: Sequence[ir.Value]) -> ir.Value:
    total = terms[0]
    for term in terms[1:]:
        total = build("Add", total, term)
    return total


class StandardGrid(GatheredGrid):
    """``GridSample`` from before it was in the standard."""

    name: ClassVar[str] = "grid of the standard"
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """By the standard's operator, in opsets that have it, or by gathers."""
        if build.opset < GRID_SAMPLE_SINCE:
            return super().replacement(node, build)
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        mode = str(attributes.pop("mode", "bilinear"))
        if build.opset >= GRID_MODES_RENAMED_SINCE:
            mode = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
        return [build("GridSample", *node.inputs, mode=mode, **attributes)]


class StandardShape(Rewrite):
    """``ExpandDims``, which the standard calls Unsqueeze."""

    name: ClassVar[str] = "new axis"
    op_types: ClassVar[Sequence[str]] = ("ExpandDims",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """At a constant place, which may count from the end."""
        x, axis = node.inputs[0], constant_input(node, 1)
        if axis is None or x is None or x.shape is None:
            raise InapplicableError("where the new axis stands is not known")
        return [build.unsqueeze(x, [int(axis.item()) % (x.shape.rank() + 1)])]


class FirstOccurrences(Rewrite):
    """``Unique``: distinct numbers by first occurrence, the index of each input among them, and their counts."""

    name: ClassVar[str] = "unique of the standard"
    op_types: ClassVar[Sequence[str]] = ("Unique",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """By the standard's operator, which has one output more."""
        if build.opset < UNIQUE_SINCE:
            raise InapplicableError(f"opset {build.opset} has no Unique")
        numbers, _, places, counts = build.several(4, "Unique", node.inputs[0], sorted=0)
        return [numbers, places, counts]
