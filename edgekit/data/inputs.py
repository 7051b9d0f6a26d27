"""Inputs to compare models on: drawn from a seed, within the range that the graph can take."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np

from edgekit.data.columns import Columns
from edgekit.data.limits import FLAG_LIMIT, GivenValues, Interval, Limit, Limits
from edgekit.data.magnitudes import Magnitude
from edgekit.data.natural import natural_values
from edgekit.data.words import ANY_WORDS, Words
from edgekit.errors import InputError
from edgekit.graph.sizes.shape_request import at_sizes, terms
from edgekit.model import Arrays, ValueSpec

MOST_ELEMENTS = 1 << 27
"""An input of more elements (half a gigabyte in single precision) is refused before it is allocated."""
OPTION_NAME = re.compile(r"[\w.:-]+")
"""Names of dimensions that need no quotes on a command line."""
_SIZES_IN_USE = ", the sizes that the model meets in use"


def seeded_inputs(
    specs: Sequence[ValueSpec], seed: int, limits: Limits | None = None, *, natural: bool = False
) -> Arrays:
    """Inputs that are the same for the same seed, on every machine.

    Without a limit floating-point inputs are standard normal, bytes uniform over their whole range, other integers
    uniform from 0 to below :data:`~edgekit.data.limits.FLAG_LIMIT`. A limit is an interval, a number that integers
    stay below, a list of numbers, or that no number is negative. Booleans are fair coins; inputs that take random
    numbers get numbers of the distribution that they take. Texts are words that the graph looks for, or lines of these
    words if it searches within texts. An input's values depend on the seed and on the input's own name, dtype, shape
    and limit, not on the other inputs.

    Args:
        specs: The inputs, with static shapes.
        seed: What to start the random numbers from.
        limits: What :func:`edgekit.data.limits.index_limits` found in the graph.
        natural: If an input has the shape of a picture or a sound, draw one (see :mod:`edgekit.data.natural`): from -1
            to 1, within the interval that limits the input, or over the whole range of bytes.

    Raises:
        InputError: A shape is dynamic, or nothing can be drawn for an element type.
    """
    return {
        spec.name: _draw(spec, shape, seed, (limits or {}).get(spec.name), natural)
        for spec, shape in zip(specs, drawn_shapes(specs), strict=True)
    }


def drawn_shapes(specs: Sequence[ValueSpec]) -> list[tuple[int, ...]]:
    """The shapes of inputs that numbers can be drawn for, in their order.

    Raises:
        InputError: A shape is dynamic, or one is too large.
    """
    dynamic = [spec for spec in specs if spec.shape is None or not spec.is_static]
    for spec in dynamic:
        if spec.drawn is None and spec.dtype != "str":
            _dtype_of_numbers(spec)  # what is no tensor of numbers has no size that could be fixed
    if dynamic:
        raise InputError(
            "no input can be drawn while its shape is dynamic", subject=dynamic[0], hint=_how_to_fix(dynamic)
        )
    shapes = [tuple(dim for dim in spec.shape or () if isinstance(dim, int)) for spec in specs]
    for spec, shape in zip(specs, shapes, strict=True):
        if any(dim < 0 for dim in shape) or math.prod(shape) > MOST_ELEMENTS:
            raise InputError(
                "no input of that size can be drawn", subject=spec, expected=f"{MOST_ELEMENTS} elements at most"
            )
    return shapes


def random_numbers(
    drawn: Sequence[ValueSpec], given: Sequence[ValueSpec], arrays: Mapping[str, Any], seed: int
) -> Arrays:
    """Numbers for inputs that take random ones, of the sizes that the arrays of the others have.

    Args:
        drawn: The inputs that take random numbers.
        given: Other inputs.
        arrays: What these are fed with, by name.
        seed: What to start the random numbers from.
    """
    sizes = {
        dim: size
        for spec in given
        for dim, size in zip(spec.shape or (), np.shape(arrays[spec.name]), strict=False)
        if isinstance(dim, str)
    }
    return seeded_inputs(at_sizes(drawn, sizes), seed)


def _how_to_fix(dynamic: Sequence[ValueSpec]) -> str:
    """A hint of the options that fix the free dimensions of inputs; only of the first if others have no names."""
    for specs in (dynamic, dynamic[:1]):
        free = [dim for spec in specs for dim in (spec.of_texts.shape or (None,)) if not isinstance(dim, int)]
        named = dict.fromkeys(filter(None, free))
        names = [name for name in named if terms(name) == {name} or not terms(name) <= named.keys()]
        if free and all(free) and all(OPTION_NAME.fullmatch(name) for name in names):
            return f"fix it with {' '.join(f'--dim {quote(name)}=SIZE' for name in names)}{_SIZES_IN_USE}"
    return _how_to_fix_shape(dynamic[0].of_texts)


def _how_to_fix_shape(spec: ValueSpec) -> str:
    """A hint of the option that fixes the whole shape of an input."""
    sizes = _SIZES_IN_USE
    free = [dim for dim in spec.shape or () if not isinstance(dim, int)]
    if free and OPTION_NAME.fullmatch(spec.name):
        shape = ",".join(str(dim) if isinstance(dim, int) else "SIZE" for dim in spec.shape or ())
        return f"fix it with --shape {quote(spec.name)}={shape}{sizes}"
    return "fix it with --dim or --shape"


def _draw(spec: ValueSpec, shape: tuple[int, ...], seed: int, limit: Limit | None, natural: bool) -> np.ndarray:
    rng = np.random.default_rng([seed, zlib.crc32(spec.name.encode())])
    if spec.drawn is not None:
        return spec.drawn.numbers(shape, rng).astype(spec.dtype)
    if spec.dtype == "str":
        words = limit if isinstance(limit, Words) else Words(((None, ANY_WORDS),))
        return words.draw(rng, shape)
    dtype = _dtype_of_numbers(spec)
    if isinstance(limit, GivenValues) and limit.values.shape == shape:
        return limit.values.astype(dtype)
    if dtype == np.bool_:
        return rng.integers(0, 2, shape).astype(dtype)
    values = natural_values(shape, rng) if natural and _holds_recordings(dtype, limit) else None
    if values is not None:
        return _within(values, dtype, limit)
    if limit is None and spec.vocabulary is not None:
        limit = len(spec.vocabulary) + 1
    limited = _limited(shape, rng, limit)
    if limited is not None:
        return limited.astype(dtype)
    return _by_type(shape, rng, dtype, is_magnitude=isinstance(limit, Magnitude)).astype(dtype)


def _dtype_of_numbers(spec: ValueSpec) -> np.dtype:
    """An input's element type.

    Raises:
        InputError: It is no type of numbers or booleans.
    """
    try:
        dtype = np.dtype(spec.dtype)  # bfloat16, int4 and the like are known since onnx_ir imports ml_dtypes
    except TypeError:  # a sequence, or a type that the model does not tell
        dtype = np.dtype(str)
    if dtype == np.dtype(str):
        hint = "cut the nodes that read it off with `edgekit extract --inputs`, and compute in the app what they do"
        raise InputError("nothing can be drawn for this element type", subject=spec, hint=hint)
    return dtype


def _limited(shape: tuple[int, ...], rng: np.random.Generator, limit: Limit | None) -> np.ndarray | None:
    """Uniform numbers within a limit, or None if the limit does not tell a range to draw from."""
    if isinstance(limit, Interval):
        return rng.uniform(limit.low, limit.high, shape)
    if isinstance(limit, tuple):
        return rng.choice(limit, shape)
    if isinstance(limit, Columns) and shape:
        return rng.integers(0, limit.of(shape[-1]), shape)
    if isinstance(limit, int):
        return rng.integers(0, limit, shape)
    return None


def _by_type(shape: tuple[int, ...], rng: np.random.Generator, dtype: np.dtype, *, is_magnitude: bool) -> np.ndarray:
    """Bytes of their whole range, other integers below :data:`FLAG_LIMIT`, or standard normal numbers.

    Args:
        shape: The shape of the result.
        rng: The source of random numbers.
        dtype: The input's element type, to which the caller casts.
        is_magnitude: Whether floating-point numbers lose their sign.
    """
    if np.issubdtype(dtype, np.integer):
        low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max + 1) if dtype.itemsize == 1 else (0, FLAG_LIMIT)
        return rng.integers(low, high, shape)
    if np.issubdtype(dtype, np.complexfloating):
        return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
    values = rng.standard_normal(shape)
    return np.abs(values) if is_magnitude else values


def _holds_recordings(dtype: np.dtype, limit: Limit | None) -> bool:
    """Whether an input may hold pixels or sound: bytes, or floating-point numbers that look nothing up."""
    is_float = np.issubdtype(dtype, np.floating) or dtype.name == "bfloat16"
    is_byte = dtype in (np.uint8, np.int8)
    return (is_float or is_byte) and (limit is None or isinstance(limit, Interval))


def _within(values: np.ndarray, dtype: np.dtype, limit: Limit | None) -> np.ndarray:
    """Values from -1 to 1, scaled to the interval of the limit or else to the whole range of an integer type."""
    if isinstance(limit, Interval):
        return (limit.low + (values + 1) / 2 * (limit.high - limit.low)).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.rint(low + (values + 1) / 2 * (high - low)).astype(dtype)
    return values.astype(dtype)
