"""Tells whether a changed model still computes what it computed before, by executing both on the same inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.comparison.reference import NotRunnableError, Reference
from edgekit.data.inputs import index_limits, seeded_inputs
from edgekit.errors import InputError
from edgekit.graph.dimensions import trials
from edgekit.graph.shape_request import at_sizes
from edgekit.model import Dim, Model, ValueSpec

SEEDS = (0, 1)

TRIAL_SIZES = (8, 32, 64, 224, 512, 16_000, 1)
"""Sizes to try for dimensions that are dynamic, until one runs; the first axis of every input gets 1."""

TRIAL_ELEMENTS = 1 << 24
"""Elements that an input may have in a trial: a second of sound is worth it, a square picture of that side is not."""


class Equivalence:
    """A model's outputs on seeded inputs, which later versions of it are held against.

    Args:
        model: The model as it should stay. Its open dimensions get their default and their greatest sizes, other
            dynamic ones the first of the `TRIAL_SIZES` that runs.

    Raises:
        NotRunnableError: ONNX Runtime cannot execute the model, so nothing can be compared.
    """

    def __init__(self, model: Model) -> None:
        reference = Reference(model)
        limits = index_limits(model)
        failure: NotRunnableError | None = None
        sizes = trials(model.open_dims)
        ways = (_static_specs(at_sizes(model.inputs, chosen)) for chosen in (sizes[0], sizes[-1]))
        for specs in zip(*ways, strict=True):
            try:
                feeds = [seeded_inputs(*drawn, limits) for drawn in zip(specs, SEEDS, strict=True)]
                outputs = [reference.run(arrays) for arrays in feeds]
            except InputError as error:
                raise NotRunnableError(str(error), None) from error
            except NotRunnableError as error:
                failure = failure or error
                continue
            self._feeds, self._outputs = feeds, outputs
            return
        raise failure or NotRunnableError("an input has no known rank", None)

    def difference(self, changed: Model) -> str | None:
        """What ``changed`` computes differently, in a few words; None where it computes the same."""
        try:
            reference = Reference(changed)
            outputs = [reference.run(arrays) for arrays in self._feeds]
        except NotRunnableError as error:
            return str(error)
        differences = (
            compare(f"output {name}", expected[name], found.get(name))
            for expected, found in zip(self._outputs, outputs, strict=True)
            for name in expected
        )
        return next((difference for difference in differences if difference), None)


def compare(name: str, expected: Any, found: Any) -> str | None:
    """What differs between two outputs, in a few words; None where nothing does.

    Floating-point values may differ by the square root of their type's epsilon, relative to the largest value: half of
    the digits, which is far more than reordered arithmetic takes and far less than a wrong rewrite does.
    """
    if found is None:
        return f"{name} is gone"
    if isinstance(expected, Sequence) and not isinstance(expected, str):  # ONNX sequences are lists
        if not isinstance(found, Sequence) or len(found) != len(expected):
            return f"{name} has another length"
        parts = (compare(f"{name}[{i}]", *pair) for i, pair in enumerate(zip(expected, found, strict=True)))
        return next((part for part in parts if part), None)
    expected, found = np.asarray(expected), np.asarray(found)
    if (expected.shape, expected.dtype) != (found.shape, found.dtype):
        return f"{name} is {found.dtype}{list(found.shape)}, was {expected.dtype}{list(expected.shape)}"
    if not np.issubdtype(expected.dtype, np.inexact):
        return None if np.array_equal(expected, found) else f"{name} has other values"
    finite = np.isfinite(expected)
    if not np.array_equal(expected[~finite], found[~finite], equal_nan=True):
        return f"{name} has infinities or NaN at other places"
    if not finite.any():
        return None
    with np.errstate(invalid="ignore"):  # what is not finite in `found` alone gives NaN, which is no small error
        error = float(np.max(np.abs(expected[finite].astype(np.complex128) - found[finite])))
    largest = float(np.max(np.abs(expected[finite])))
    if error <= largest * float(np.finfo(expected.dtype).eps) ** 0.5:
        return None
    return f"{name} differs by {error:.3g}, its largest value is {largest:.3g}"


def _static_specs(specs: Sequence[ValueSpec]) -> Iterator[list[ValueSpec]]:
    """The inputs with numbers for all dimensions, in every way that is worth a try."""
    if any(spec.shape is None for spec in specs):
        return
    if all(spec.is_static for spec in specs):
        yield list(specs)
        return
    for size in TRIAL_SIZES:
        sizes: dict[str, int] = {}
        for spec in specs:
            for axis, dim in enumerate(spec.shape or ()):
                if isinstance(dim, str):
                    sizes[dim] = 1 if axis == 0 or sizes.get(dim) == 1 else size
        shapes = [_sized(spec.shape or (), size, sizes) for spec in specs]
        if all(math.prod(shape) <= TRIAL_ELEMENTS for shape in shapes):
            yield [replace(spec, shape=shape) for spec, shape in zip(specs, shapes, strict=True)]


def _sized(shape: Sequence[Dim], size: int, sizes: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(_size(dim, axis, size, sizes) for axis, dim in enumerate(shape))


def _size(dim: Dim, axis: int, size: int, sizes: Mapping[str, int]) -> int:
    if isinstance(dim, int):
        return dim
    if dim is None:
        return 1 if axis == 0 else size
    try:
        value = ir.SymbolicDim(dim).evaluate(sizes)
    except ValueError:  # the name is no expression
        return sizes[dim]
    return value if isinstance(value, int) else sizes[dim]
