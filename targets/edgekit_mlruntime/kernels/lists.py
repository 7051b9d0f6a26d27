"""Lists of tensors of one type. Lists are immutable: writing returns a new list and leaves the old one unchanged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.precision import HELD_TYPES
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@dataclass(frozen=True)
class TensorList:
    """A list of tensors; None for an element that was never written."""

    elements: tuple[Array | None, ...]
    element_shape: tuple[int, ...] | None
    """None if a size becomes known only when an element is written."""
    element_type: np.dtype[Any]
    grows: bool

    def element(self, call: Call, index: int) -> Array:
        """Returns one element; zeros if the element was never written.

        Raises:
            ExecutionError: There is no such element, or it was never written and its shape is unknown.
        """
        if not 0 <= index < len(self.elements):
            raise ExecutionError(
                "no such element", operation=call.name, expected=f"0 to {len(self.elements) - 1}", found=index
            )
        found = self.elements[index]
        if found is not None:
            return found
        written = next((element.shape for element in self.elements if element is not None), self.element_shape)
        if written is None:
            raise ExecutionError(
                "an element of unknown shape is read before it is written", operation=call.name, found=index
            )
        return np.zeros(written, self.element_type)

    def with_elements(self, call: Call, indices: Ints, values: list[Array]) -> TensorList:
        """Returns the list with some elements replaced, and extended if an index needs it and ``grows`` is True.

        Raises:
            ExecutionError: An index is negative, or beyond the end of a list that does not grow.
        """
        length = max(len(self.elements), *(index + 1 for index in indices)) if indices else len(self.elements)
        if any(index < 0 for index in indices) or (length > len(self.elements) and not self.grows):
            raise ExecutionError(
                "no such element", operation=call.name, expected=f"0 to {len(self.elements) - 1}", found=indices
            )
        elements = [*self.elements, *(None for _ in range(length - len(self.elements)))]
        for index, value in zip(indices, values, strict=True):
            elements[index] = value
        return TensorList(tuple(elements), self.element_shape, self.element_type, self.grows)


@kernel("make_list", raw=True)
def make_list(
    call: Call, elem_shape: list[Any], init_length: int = 1, dynamic_length: bool = True, dtype: str = "fp32"
) -> TensorList:
    """A list of unwritten elements; names in ``elem_shape`` denote sizes that become known later."""
    sizes = [None if isinstance(size, str) else int(size) for size in elem_shape]
    known = tuple(size for size in sizes if size is not None)
    return TensorList(
        elements=(None,) * init_length,
        element_shape=known if len(known) == len(sizes) else None,
        element_type=HELD_TYPES[call.element.dtype],
        grows=dynamic_length,
    )


@kernel("list_length", raw=True)
def list_length(call: Call, ls: Any) -> Array:
    """Number of elements."""
    return np.array(len(ls.elements), np.int32)


@kernel("list_read", raw=True)
def list_read(call: Call, ls: Any, index: int) -> Array:
    """One element."""
    found: Array = ls.element(call, index)
    return found


@kernel("list_write", raw=True)
def list_write(call: Call, ls: Any, index: int, value: Array) -> TensorList:
    """Replace one element; a list that may grow is extended to contain the index."""
    written: TensorList = ls.with_elements(call, (index,), [value])
    return written


@kernel("list_gather", raw=True)
def list_gather(call: Call, ls: Any, indices: Ints) -> Array:
    """Elements stacked along a new first axis."""
    return np.stack([ls.element(call, index) for index in indices])


@kernel("list_scatter", raw=True)
def list_scatter(call: Call, ls: Any, indices: Ints, value: Array) -> TensorList:
    """Replace elements by the slices of ``value`` along its first axis."""
    written: TensorList = ls.with_elements(call, indices, list(value))
    return written
