"""Arrays whose axes are in another order than a model's, such as pictures as (height, width, channels)."""

from __future__ import annotations

from collections.abc import Sequence

from edgekit.model import Dim

_LEAST_AXES = 3
"""With fewer axes, another order of the sizes is no sign of another layout."""


def rearranged(shape: Sequence[int], wanted: Sequence[Dim]) -> str | None:
    """The expression of NumPy that gives an array the wanted sizes by another order of its axes; None if there is none.

    The first wanted size may be a batch of 1 that the array lacks. Of axes of one size the first comes first: height
    stays before width.
    """
    if len(shape) < _LEAST_AXES:
        return None
    lacks_batch = len(shape) + 1 == len(wanted) and wanted[0] == 1
    order = _order(shape, wanted[1:] if lacks_batch else wanted)
    if order is None:
        return None
    return f"array.transpose{order}{'[numpy.newaxis]' if lacks_batch else ''}"


def _order(shape: Sequence[int], wanted: Sequence[Dim]) -> tuple[int, ...] | None:
    left, order = list(enumerate(shape)), []
    for size in wanted:
        found = next((one for one in left if one[1] == size), None)
        if found is None:
            return None
        left.remove(found)
        order.append(found[0])
    return None if left else tuple(order)
