"""Lists of tensors of one shape, stored as one tensor with an additional first dimension that can grow."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor, element_type


@lowering("make_list")
def make_list(
    b: Builder,
    call: Call,
    elem_shape: list[Any],
    init_length: Tensor | None = None,
    dynamic_length: bool = True,
    dtype: str = "fp32",
) -> Tensor:
    """A list of unwritten elements."""
    shape = call.element.shape
    target = element_type(call.element.dtype)
    if shape is None or None in shape or target is None:
        raise CannotTranslate("elements of a shape that is open")
    length: int | Tensor = 1
    if init_length is not None:
        length = b.reshape(init_length, []) if init_length.array is None else int(init_length.array.reshape(-1)[0])
    return b.broadcast(b.constant(np.zeros((), target)), [length, *(int(size) for size in shape if size is not None)])


@lowering("list_length")
def list_length(b: Builder, call: Call, ls: Tensor) -> Tensor:
    """Number of elements."""
    size = b.size(ls, 0)
    return size if isinstance(size, Tensor) else b.constant(np.int32(size))


@lowering("list_read")
def list_read(b: Builder, call: Call, ls: Tensor, index: Tensor) -> Tensor:
    """One element."""
    return b.squeeze(b.refined(b.gather(ls, b.reshape(index, [1]), 0), [1, *ls.shape[1:]]), [0])


@lowering("list_write")
def list_write(b: Builder, call: Call, ls: Tensor, index: Tensor, value: Tensor) -> Tensor:
    """Replace one element."""
    return _written(b, ls, b.reshape(index, [1]), b.expand(value, [0]))


@lowering("list_gather")
def list_gather(b: Builder, call: Call, ls: Tensor, indices: Tensor) -> Tensor:
    """Elements stacked along a new first axis."""
    return b.gather(ls, indices, 0)


@lowering("list_scatter")
def list_scatter(b: Builder, call: Call, ls: Tensor, indices: Tensor, value: Tensor) -> Tensor:
    """Replace elements by the slices of ``value`` along its first axis."""
    return _written(b, ls, indices, value)


def _written(b: Builder, ls: Tensor, indices: Tensor, values: Tensor) -> Tensor:
    ls = _long_enough(b, ls, b.cast(indices, np.int32))
    flat = b.reshape(b.cast(indices, np.int32), [-1, *(1,) * (ls.rank - 1)])
    return b.scatter(ls, b.broadcast(flat, b.all_sizes(values)), b.cast(values, ls.dtype), 0, "update")


def _long_enough(b: Builder, ls: Tensor, indices: Tensor) -> Tensor:
    """The list, extended with unwritten elements (zeros) so that it contains the indices."""
    length = b.size(ls, 0)
    if indices.array is not None and isinstance(length, int):
        missing: int | Tensor = max(int(indices.array.max()) + 1 - length, 0)
    else:
        highest = b.reshape(b.reduce("reduce_max", b.reshape(indices, [-1]), [0]), [])
        held = length if isinstance(length, Tensor) else b.constant(np.int32(length))
        missing = b.maximum(b.sub(b.add(highest, 1), held), 0)
    return b.pad(ls, [(0, missing), *[(0, 0)] * (ls.rank - 1)])
