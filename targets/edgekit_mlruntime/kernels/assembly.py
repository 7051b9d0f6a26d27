"""Operations that join tensors or enlarge them."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


@kernel("concat", raw=True)
def concat(call: Call, values: list[Array], axis: int, interleave: bool = False) -> Array:
    """Concatenate along an axis; with ``interleave``, slice ``i`` of every operand comes before any slice ``i + 1``.

    A tensor of rank 0 counts as a vector of one element.
    """
    values = [np.atleast_1d(value) for value in values]
    if not interleave:
        return np.concatenate(values, axis)
    shape = list(values[0].shape)
    shape[axis] *= len(values)
    return np.stack(values, axis % len(shape) + 1).reshape(shape)


@kernel("stack", raw=True)
def stack(call: Call, values: list[Array], axis: int) -> Array:
    """Join along a new axis."""
    return np.stack(values, axis)


@kernel("tile", raw=True)
def tile(call: Call, x: Array, reps: Ints) -> Array:
    """Repeat ``reps[i]`` times along dimension ``i``."""
    if len(reps) != x.ndim:
        raise ExecutionError(
            "another number of repetitions than of dimensions", operation=call.name, expected=x.ndim, found=len(reps)
        )
    if any(count < 0 for count in reps):
        raise ExecutionError("a negative number of repetitions", operation=call.name, expected="0 or more", found=reps)
    return np.tile(x, reps)


@kernel("pad", raw=True)
def pad(call: Call, x: Array, pad: Ints, mode: str = "constant", constant_val: float = 0.0) -> Array:
    """Pad the last ``len(pad) / 2`` dimensions; ``pad`` holds a pair (before, after) for each.

    ``constant`` fills with ``constant_val``, ``reflect`` mirrors at the border element, ``replicate`` repeats it.
    """
    untouched = x.ndim - len(pad) // 2
    widths = [(0, 0)] * untouched + list(zip(pad[::2], pad[1::2], strict=True))
    if mode == "constant":
        shape = [before + size + after for size, (before, after) in zip(x.shape, widths, strict=True)]
        result = np.full(shape, constant_val, x.dtype)
        result[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True))] = x
        return result
    if mode == "reflect":
        return np.pad(x, widths, "reflect")
    if mode == "replicate":
        return np.pad(x, widths, "edge")
    raise ExecutionError("unknown mode of pad", operation=call.name, found=mode)
