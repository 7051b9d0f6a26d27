"""Inputs of many kinds for comparing two forms of a model: one distribution does not reveal every fault.

An epsilon that is dropped in front of a logarithm shows where the input is zero, a clip that is too wide where the
input is large, a comparison that decides equality differently where numbers are equal. Normally distributed numbers
reveal none of these faults.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from edgekit.data.columns import Columns
from edgekit.data.inputs import drawn_shapes, seeded_inputs
from edgekit.data.limits import FLAG_LIMIT, GivenValues, Interval, Limit, Limits
from edgekit.data.magnitudes import Magnitude
from edgekit.data.words import Words
from edgekit.model import Arrays, ValueSpec

_FLOATS = frozenset(["float16", "float32", "float64"])

_POOL = 65_537
"""How many numbers are drawn for each kind. Each array starts at another of them, by its name, and repeats them if it
is larger. A prime number, so that the repetition does not coincide with an axis."""


def _steps(rng: np.random.Generator) -> np.ndarray:
    del rng
    return (np.arange(_POOL) // 7 % 9 - 4) / 2  # halves: numbers midway between integers, and equal neighbors


def _edges(rng: np.random.Generator) -> np.ndarray:
    magnitudes = 10.0 ** rng.uniform(-12, 2, _POOL)
    magnitudes[rng.random(_POOL) < 0.1] = 1
    return np.asarray(magnitudes * rng.choice([0, 1, 1, 1, 1, 1, 1, -1], _POOL))


_DRAWN: Mapping[str, Callable[[np.random.Generator], np.ndarray]] = {
    "normal": lambda rng: rng.standard_normal(_POOL),
    "zeros": lambda rng: np.zeros(_POOL),
    "large": lambda rng: 1e3 * rng.standard_normal(_POOL),
    "tiny": lambda rng: 1e-6 * rng.standard_normal(_POOL),
    "edges": _edges,
    "steps": _steps,
    "uniform": lambda rng: rng.random(_POOL),
    "constant": lambda rng: np.ones(_POOL),
    "sparse": lambda rng: rng.standard_normal(_POOL) * (rng.random(_POOL) < 0.05),
    "saturated": lambda rng: rng.choice([-100.0, 100.0], _POOL),
}

KINDS = tuple(_DRAWN)
"""The kinds of inputs, in the order in which they reveal the most faults.

Standard normal numbers; zeros; 1e3 and 1e-6 times normal numbers; magnitudes from 1e-12 to 1e2, a tenth of them 1, an
eighth of all zero, an eighth negative, for the limits of logarithms, roots, quotients and powers; multiples of one half
in steps; numbers uniform between 0 and 1; ones; zeros with one normal number in twenty; and -100 or 100.
"""


def battery_inputs(specs: Sequence[ValueSpec], kind: str, limits: Limits | None = None) -> Arrays:
    """Inputs of one kind, the same on every machine.

    Integers stay within their limits (see :func:`edgekit.data.limits.index_limits`), and so do floating-point numbers
    that set the sizes of tensors. Other floating-point numbers ignore their limits: a rewrite has to hold for all
    numbers. Integers follow the kinds zeros, constant (ones), saturated (the least or the greatest), steps and sparse
    (mostly zeros), and are drawn within their limits for the other kinds.

    Args:
        specs: The inputs, with static shapes.
        kind: One of :data:`KINDS`.
        limits: The limits of the inputs, by name.

    Raises:
        InputError: A shape is dynamic, or nothing can be drawn for an element type.
    """
    limits = limits or {}
    inputs: Arrays = {}
    for spec, shape in zip(specs, drawn_shapes(specs), strict=True):
        limit = limits.get(spec.name)
        if spec.dtype in _FLOATS and not isinstance(limit, GivenValues):
            inputs[spec.name] = numbers(kind, spec.name, shape, np.dtype(spec.dtype))
        else:
            (seeded,) = seeded_inputs([spec], KINDS.index(kind), limits).values()
            inputs[spec.name] = _of_kind(kind, spec.name, seeded, limit)
    return inputs


def numbers(kind: str, name: str, shape: Sequence[int], dtype: np.dtype) -> np.ndarray:
    """Floating-point or complex numbers of one kind, which depend on the name that they are drawn for.

    Args:
        kind: One of :data:`KINDS`.
        name: What they are drawn for.
        shape: Their shape.
        dtype: Their type; a number that is too large for it becomes the largest that it holds.
    """
    pool = _pool(kind, dtype)
    start, size = zlib.crc32(name.encode()) % _POOL, math.prod(shape)
    further = np.resize(pool, max(0, start + size - _POOL))
    return np.concatenate([pool[start : start + size], further]).reshape(shape)


def numbers_like(kind: str, name: str, array: np.ndarray) -> np.ndarray:
    """Numbers of one kind in the shape and type of an array.

    Args:
        kind: One of :data:`KINDS`.
        name: What they are drawn for.
        array: Gives shape and type. If it holds integers of more than eight bits, or no numbers, it is returned itself:
            its values have a meaning.
    """
    if array.dtype.kind in "fc":
        return numbers(kind, name, array.shape, array.dtype)
    if array.dtype != np.bool_ and (array.dtype.kind not in "iu" or array.dtype.itemsize > 1):
        return array
    (drawn,) = battery_inputs([ValueSpec(name, array.dtype.name, array.shape)], kind).values()
    return drawn


@functools.cache
def _pool(kind: str, dtype: np.dtype) -> np.ndarray:
    """The numbers of a kind in a type; a number that is too large for the type becomes the largest that it holds."""
    pool = _DRAWN[kind](np.random.default_rng(KINDS.index(kind)))
    if dtype.kind == "f":
        limit = float(np.finfo(dtype).max)
        pool = np.clip(pool, -limit, limit) if limit < 1e6 else pool
    return pool.astype(dtype)


def _of_kind(kind: str, name: str, seeded: np.ndarray, limit: Limit | None) -> np.ndarray:
    if seeded.dtype.kind == "U" or isinstance(limit, GivenValues):
        return seeded
    if seeded.dtype.kind not in "iub":
        return numbers(kind, name, seeded.shape, seeded.dtype)
    if isinstance(limit, tuple | Interval | Magnitude | Words):
        return seeded
    low, high = _bounds(seeded, limit)
    if kind == "zeros":
        return np.zeros_like(seeded)
    if kind == "constant":
        return np.where(high < 1, np.zeros_like(seeded), np.ones_like(seeded))
    if kind == "saturated":
        return np.where(seeded > (low + high) / 2, high, low).astype(seeded.dtype)
    if kind == "steps":
        steps = np.arange(seeded.size).reshape(seeded.shape) // 3
        return (low + steps % (high - low + 1)).astype(seeded.dtype)
    if kind == "sparse":
        return np.where(numbers("sparse", name, seeded.shape, np.dtype(np.float32)) != 0, seeded, 0).astype(
            seeded.dtype
        )
    return seeded


def _bounds(seeded: np.ndarray, limit: int | Columns | None) -> tuple[int, int | np.ndarray]:
    """The least and the greatest integer that the input takes; the greatest may differ by column."""
    dtype = seeded.dtype
    if isinstance(limit, Columns):
        return 0, limit.of(seeded.shape[-1]) - 1 if seeded.ndim else limit.others - 1
    if limit is not None:
        return 0, limit - 1
    if dtype != np.bool_ and dtype.itemsize == 1:
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return 0, FLAG_LIMIT - 1
