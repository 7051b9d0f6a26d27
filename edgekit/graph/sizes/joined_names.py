"""Dimensions that have separate names in a file although they follow from others.

tf2onnx names the dimensions of every input anew. A decoder's mask is as long as its past and the new tokens together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import onnx_ir as ir

from edgekit.graph.sizes.shape_request import ShapeRequest, terms
from edgekit.graph.sizes.shared_names import Shapes
from edgekit.model import ValueSpec

MOST_SAMPLES = 64
"""The most samples that are searched for two that differ in one size only."""

_LEAST_TELLING = 2
"""The least size that does not broadcast, and so shows whether two sizes must be equal."""

Place = tuple[str, int]
"""An input's name, and the axis."""


@dataclass(frozen=True)
class DependentDimension:
    """A dimension that in every sample has the size of another one or a sum, and how to test that it must."""

    size: str
    """The name of the other dimension, or a sum, ``past + 1``."""
    other: str
    places: tuple[Place, ...]
    """Inputs and axes that have the dimension."""
    first_place: Place | None
    """An input and axis of the dimension whose size it has; None for a sum."""
    apart: tuple[int, int]
    """Two samples that differ in the size; for the test, they exchange the inputs that have the dimension."""
    is_stated: bool = False
    """Whether the file states a sum for the dimension that samples contradict."""


def alike_by_samples(
    inputs: Sequence[ValueSpec], samples: Sequence[Shapes], request: ShapeRequest | None = None
) -> list[DependentDimension]:
    """Returns dimensions of varying size whose size equals in every sample that of an earlier name, or a sum.

    A sum is of one other name and a constant, or of two other names. A sum in the file that differs from the size in a
    sample, such as optimum's ``past + 1`` with several new tokens, is treated as a name.

    Args:
        inputs: The model's inputs.
        samples: The shapes of each sample's arrays.
        request: The requested sizes; names in it are not joined.
    """
    asked = request or ShapeRequest()
    places: dict[str, list[Place]] = {}
    wrong = _contradicted(inputs, samples)
    for spec in inputs:
        for axis, dim in enumerate(spec.shape or ()):
            if not isinstance(dim, str) or dim in asked.dims or spec.name in asked.shapes:
                continue
            if terms(dim) == {dim} or dim in wrong:
                places.setdefault(dim, []).append((spec.name, axis))
    sizes = {dim: found for dim in places if (found := _sizes(places[dim], samples)) is not None}
    alike: list[DependentDimension] = []
    joined: set[str] = set()
    for first, other in combinations(sizes, 2):
        if first in joined or other in joined or sizes[first] != sizes[other] or len(set(sizes[first])) < 2:
            continue
        pair = _pair((first,), other, sizes, places)
        if pair is not None:
            joined.add(other)
            alike.append(DependentDimension(first, other, tuple(places[other]), places[first][0], pair, other in wrong))
    free = {dim: found for dim, found in sizes.items() if dim not in joined and len(set(found)) > 1}
    for other in free:
        for parts, written in _sums(other, free):
            pair = None if joined & {*parts} else _pair(parts, other, sizes, places)
            if pair is not None:
                joined.add(other)
                alike.append(DependentDimension(written, other, tuple(places[other]), None, pair, other in wrong))
                break
    return alike


def _contradicted(inputs: Sequence[ValueSpec], samples: Sequence[Shapes]) -> set[str]:
    """Returns the expressions whose value differs from the actual size in some sample."""
    found = set()
    for shapes in samples:
        sizes = {
            dim: size
            for spec in inputs
            for dim, size in zip(spec.shape or (), shapes.get(spec.name, ()), strict=False)
            if isinstance(dim, str)
        }
        for dim, size in sizes.items():
            names = terms(dim)
            is_known = names != {dim} and names <= sizes.keys()
            if is_known and ir.SymbolicDim(dim).evaluate({name: sizes[name] for name in names}) != size:
                found.add(dim)
    return found


def _sums(dim: str, sizes: Mapping[str, Sequence[int]]) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yields the sums that equal a dimension in every sample: their names, and the sum as the file would write it."""
    others = [other for other in sizes if other != dim]
    for other in others:
        more = {one - two for one, two in zip(sizes[dim], sizes[other], strict=True)}
        if len(more) == 1 and min(more) > 0 and terms(written := f"{other} + {min(more)}") == {other}:
            yield (other,), written
    for pair in combinations(others, 2):
        sums = [one + two for one, two in zip(*(sizes[name] for name in pair), strict=True)]
        if sums == list(sizes[dim]) and terms(written := " + ".join(pair)) == {*pair}:
            yield pair, written


def _sizes(places: Sequence[Place], samples: Sequence[Shapes]) -> tuple[int, ...] | None:
    """Returns the size of a dimension in each sample, or None if a sample lacks it or has several sizes for it."""
    found = []
    for shapes in samples:
        here = {shapes[name][axis] for name, axis in places if axis < len(shapes.get(name, ()))}
        if len(here) != 1 or any(name not in shapes for name, _ in places):
            return None
        found.append(here.pop())
    return tuple(found)


def _pair(
    parts: tuple[str, ...], other: str, sizes: Mapping[str, Sequence[int]], places: Mapping[str, Sequence[Place]]
) -> tuple[int, int] | None:
    """Returns two samples that differ in the size of ``other``, and in as few other names as possible.

    None if an input has ``other`` and one of the parts, or no two samples agree in every dimension that inputs with
    ``other`` share with inputs without it. Pairs with a size of 0 or 1 come last: 1 broadcasts, and so does an empty
    past with one new token behind it.
    """
    moved = {name for name, _ in places[other]}
    if moved & {name for part in parts for name, _ in places[part]}:
        return None
    tied = [
        dim
        for dim, found in places.items()
        if dim not in (*parts, other)
        and (dim not in sizes or ({name for name, _ in found} & moved and {name for name, _ in found} - moved))
    ]
    pairs = [
        pair
        for pair in _differing(sizes[other][:MOST_SAMPLES])
        if all(dim in sizes and sizes[dim][pair[0]] == sizes[dim][pair[1]] for dim in tied)
    ]
    free = [dim for dim in sizes if dim not in (*parts, other)]

    def others_that_differ(pair: tuple[int, int]) -> tuple[bool, int]:
        one, two = pair
        return min(sizes[other][one], sizes[other][two]) < _LEAST_TELLING, sum(
            sizes[dim][one] != sizes[dim][two] for dim in free
        )

    return min(pairs, key=others_that_differ, default=None)


def _differing(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of samples whose sizes differ."""
    yield from (pair for pair in combinations(range(len(sizes)), 2) if sizes[pair[0]] != sizes[pair[1]])
