"""Determinants of small matrices."""

from __future__ import annotations

from edgekit_coreml.frontend.context import Context
from edgekit_coreml.frontend.mil import Var, mb
from edgekit_coreml.frontend.registry import lowering
from edgekit_coreml.frontend.values import Unsupported, Value

LARGEST = 4
"""Laplace's expansion has n! terms."""


@lowering("Det", versions=[11, 22], note=f"matrices of up to {LARGEST} rows")
def determinant(ctx: Context, x: Value) -> Var:
    """Laplace's expansion of every matrix in the last two dimensions."""
    size = x.static_shape[-1]
    if size > LARGEST:
        raise Unsupported(f"a matrix of {size} rows, more than {LARGEST}")
    rows = [mb.squeeze(x=row, axes=[-2]) for row in taken_apart(x.var, size, -2)]
    elements = [[mb.squeeze(x=element, axes=[-1]) for element in taken_apart(row, size, -1)] for row in rows]
    return expansion(elements, list(range(size)))


def taken_apart(x: Var, count: int, axis: int) -> list[Var]:
    """The slices of an axis."""
    return [x] if count == 1 else list(mb.split(x=x, num_splits=count, axis=axis))


def expansion(rows: list[list[Var]], columns: list[int]) -> Var:
    """The determinant of rows, of which these columns count, along the first row."""
    if len(rows) == 1:
        return mb.identity(x=rows[0][columns[0]])
    others = ([other for other in columns if other != column] for column in columns)
    first, *terms = [
        mb.mul(x=rows[0][column], y=expansion(rows[1:], rest)) for column, rest in zip(columns, others, strict=True)
    ]
    total = first
    for place, term in enumerate(terms):
        total = mb.add(x=total, y=term) if place % 2 else mb.sub(x=total, y=term)
    return total
