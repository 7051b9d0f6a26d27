"""Operations that read and write at indices.

Up to iOS 16 a negative index counts from the end; from iOS 17 on it is out of range. What an index out of range reads
or writes is undefined in Core ML, unless ``validate_indices`` makes it an error. In this runtime such an index reads
NaN (integer types: their lowest value), so that it is noticed, and writes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel

_LAST_WITH_NEGATIVE_INDICES = 16


class _Positions:
    """Indices into dimensions: negative indices are resolved, and indices out of range become 0 and are marked."""

    def __init__(self, call: Call, indices: list[Array], sizes: list[int], validate: bool) -> None:
        self.indices: list[Array] = []
        self.invalid: Array | None = None
        """True where any of the indices is out of range; None if all are in range."""
        for index, size in zip(indices, sizes, strict=True):
            wide = index.astype(np.int64)
            if call.opset <= _LAST_WITH_NEGATIVE_INDICES:
                wide = np.where(wide < 0, wide + size, wide)
            wrong = (wide < 0) | (wide >= size)
            if wrong.any():
                if validate:
                    raise ExecutionError(
                        "an index is out of range",
                        operation=call.name,
                        expected=f"0 to {size - 1}",
                        found=int(index[wrong].flat[0]),
                    )
                self.invalid = wrong if self.invalid is None else self.invalid | wrong
                wide = np.where(wrong, 0, wide)
            self.indices.append(wide)

    def mark(self, values: Array, batch: int) -> Array:
        """Replace values read at indices out of range; the indices' dimensions begin at axis ``batch`` of them."""
        if self.invalid is None:
            return values
        lowest: Any = np.nan if values.dtype.kind == "f" else False
        if values.dtype.kind in "iu":
            lowest = np.iinfo(values.dtype).min
        wrong = self.invalid.reshape(self.invalid.shape + (1,) * (values.ndim - batch - self.invalid.ndim))
        return np.where(wrong, values.dtype.type(lowest), values)


@kernel("gather", raw=True)
def gather(
    call: Call, x: Array, indices: Array, axis: int = 0, batch_dims: int = 0, validate_indices: bool = False
) -> Array:
    """``x[..., indices, ...]`` with ``indices`` at ``axis``; the first ``batch_dims`` dimensions are shared by both."""
    axis %= x.ndim
    positions = _Positions(call, [indices], [x.shape[axis]], validate_indices)
    (index,) = positions.indices
    if not batch_dims:
        return positions.mark(np.take(x, index, axis=axis), axis)
    # Dimensions of x: batch, those between batch and axis, axis, the rest. Dimensions of indices: batch, then its own.
    moved = np.moveaxis(x, axis, batch_dims)
    batch = np.ogrid[tuple(slice(size) for size in x.shape[:batch_dims])]
    own = index.ndim - batch_dims
    rows = [grid.reshape(grid.shape + (1,) * own) for grid in batch]
    found = positions.mark(moved[(*rows, index)], 0)
    between = axis - batch_dims
    return np.moveaxis(
        found, range(batch_dims, batch_dims + own), range(batch_dims + between, batch_dims + between + own)
    )


@kernel("gather_along_axis", raw=True)
def gather_along_axis(call: Call, x: Array, indices: Array, axis: int = 0, validate_indices: bool = False) -> Array:
    """``result[p] = x[p with indices[p] at axis]`` for every position ``p`` of ``indices``."""
    axis %= x.ndim
    positions = _Positions(call, [indices], [x.shape[axis]], validate_indices)
    return positions.mark(x[_grid(positions.indices[0], axis)], 0)


@kernel("gather_nd", raw=True)
def gather_nd(call: Call, x: Array, indices: Array, batch_dims: int = 0, validate_indices: bool = False) -> Array:
    """``x[indices[p]]`` for every position ``p``: the last dimension of ``indices`` holds index tuples."""
    depth = indices.shape[-1]
    sizes = list(x.shape[batch_dims : batch_dims + depth])
    positions = _Positions(call, [indices[..., i] for i in range(depth)], sizes, validate_indices)
    own = indices.ndim - 1 - batch_dims
    batch = np.ogrid[tuple(slice(size) for size in indices.shape[:batch_dims])]
    rows = [grid.reshape(grid.shape + (1,) * own) for grid in batch]
    return positions.mark(x[(*rows, *positions.indices)], 0)


def _grid(index: Array, axis: int) -> tuple[Array, ...]:
    """Index arrays that address every position of ``index``, with ``index`` itself as the array of ``axis``."""
    grid = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    grid[axis] = index
    return tuple(grid)


def _assign(data: Array, index: tuple[Array, ...], updates: Array) -> None:
    data[index] = updates


_MODES: dict[str, Callable[[Array, tuple[Array, ...], Array], None]] = {
    "update": _assign,
    "add": np.add.at,
    "sub": np.subtract.at,
    "mul": np.multiply.at,
    "div": np.divide.at,
    "max": np.maximum.at,
    "min": np.minimum.at,
}


def _scattered(
    call: Call, data: Array, positions: _Positions, index: tuple[Array, ...], updates: Array, mode: str
) -> Array:
    """``data`` after ``updates`` were written to ``index``, in order where several updates have the same index.

    The shape of ``updates`` starts with that of the indices; updates at invalid ``positions`` are left out.
    """
    if mode not in _MODES:
        raise ExecutionError("unknown mode", operation=call.name, expected=", ".join(_MODES), found=mode)
    result = data.copy()
    if positions.invalid is not None:
        valid = ~positions.invalid
        index = tuple(np.broadcast_to(part, valid.shape)[valid] for part in index)
        updates = updates[valid]
    if mode == "div" and result.dtype.kind in "iu":
        exact = result.astype(np.float64)
        np.divide.at(exact, index, updates)
        return np.trunc(exact).astype(result.dtype)
    _MODES[mode](result, index, updates)
    return result


@kernel("scatter")
def scatter(
    call: Call,
    data: Array,
    indices: Array,
    updates: Array,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool = False,
) -> Array:
    """Write slices ``updates[..., i, ...]`` to ``data[..., indices[i], ...]``, both along ``axis``."""
    axis %= data.ndim
    positions = _Positions(call, [indices], [data.shape[axis]], validate_indices)
    if axis == 0:
        return _scattered(call, data, positions, tuple(positions.indices), updates, mode)
    moved = np.moveaxis(data, axis, 0)
    slices = np.moveaxis(updates, range(axis, axis + indices.ndim), range(indices.ndim))
    return np.moveaxis(_scattered(call, moved, positions, tuple(positions.indices), slices, mode), 0, axis)


@kernel("scatter_along_axis")
def scatter_along_axis(
    call: Call,
    data: Array,
    indices: Array,
    updates: Array,
    axis: int = 0,
    mode: str = "add",
    validate_indices: bool = False,
) -> Array:
    """Write ``updates[p]`` to ``data[p with indices[p] at axis]`` for every position ``p`` of ``indices``."""
    axis %= data.ndim
    positions = _Positions(call, [indices], [data.shape[axis]], validate_indices)
    return _scattered(call, data, positions, _grid(positions.indices[0], axis), updates, mode)


@kernel("scatter_nd")
def scatter_nd(
    call: Call, data: Array, indices: Array, updates: Array, mode: str = "add", validate_indices: bool = False
) -> Array:
    """Write ``updates[p]`` to ``data[indices[p]]``: the last dimension of ``indices`` holds index tuples."""
    depth = indices.shape[-1]
    positions = _Positions(call, [indices[..., i] for i in range(depth)], list(data.shape[:depth]), validate_indices)
    return _scattered(call, data, positions, tuple(positions.indices), updates, mode)
