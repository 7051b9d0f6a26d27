"""Dimensions that a file gives names of their own, and that are one: tf2onnx calls those of every input anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from edgekit.graph.shape_request import ShapeRequest, terms
from edgekit.graph.shared_names import Shapes
from edgekit.model import ValueSpec

MOST_SAMPLES = 64
"""How many samples are looked at for two that differ in one size alone."""

Place = tuple[str, int]
"""An input's name, and the axis."""


@dataclass(frozen=True)
class Alike:
    """Two dimensions of different inputs that have one size in every sample, and how to see whether they need it."""

    first: str
    other: str
    places: tuple[Place, ...]
    """Where the other one stands."""
    first_place: Place
    apart: tuple[int, int]
    """Two samples in which the size differs: the inputs that have the other name are taken from the second of them."""


def alike_by_samples(
    inputs: Sequence[ValueSpec], samples: Sequence[Shapes], request: ShapeRequest | None = None
) -> list[Alike]:
    """The names of dimensions that have the same several sizes in every sample as an earlier name has.

    Args:
        inputs: The model's inputs.
        samples: The shapes of each sample's arrays.
        request: The sizes that were asked for: a name that is in it stays.
    """
    asked = request or ShapeRequest()
    places: dict[str, list[Place]] = {}
    for spec in inputs:
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, str) and terms(dim) == {dim} and dim not in asked.dims and spec.name not in asked.shapes:
                places.setdefault(dim, []).append((spec.name, axis))
    sizes = {dim: found for dim in places if (found := _sizes(places[dim], samples)) is not None}
    alike: list[Alike] = []
    joined: set[str] = set()
    for first, other in combinations(sizes, 2):
        if first in joined or other in joined or sizes[first] != sizes[other] or len(set(sizes[first])) < 2:
            continue
        pair = _pair(first, other, sizes, places)
        if pair is not None:
            joined.add(other)
            alike.append(Alike(first, other, tuple(places[other]), places[first][0], pair))
    return alike


def _sizes(places: Sequence[Place], samples: Sequence[Shapes]) -> tuple[int, ...] | None:
    """The size of a dimension in each sample; None where one lacks it, or has several."""
    found = []
    for shapes in samples:
        here = {shapes[name][axis] for name, axis in places if axis < len(shapes.get(name, ()))}
        if len(here) != 1 or any(name not in shapes for name, _ in places):
            return None
        found.append(here.pop())
    return tuple(found)


def _pair(
    first: str, other: str, sizes: Mapping[str, Sequence[int]], places: Mapping[str, Sequence[Place]]
) -> tuple[int, int] | None:
    """Two samples, the inputs of one of which have another size than those of the other in nothing but the two names.

    None where an input has both names, or no two samples are so. Of several, sizes of 1 come last: they broadcast.
    """
    moved = {name for name, _ in places[other]}
    if moved & {name for name, _ in places[first]}:
        return None
    tied = [
        dim
        for dim, found in places.items()
        if dim not in (first, other)
        and (dim not in sizes or ({name for name, _ in found} & moved and {name for name, _ in found} - moved))
    ]
    pairs = [
        pair
        for pair in _differing(sizes[first][:MOST_SAMPLES])
        if all(dim in sizes and sizes[dim][pair[0]] == sizes[dim][pair[1]] for dim in tied)
    ]
    free = [dim for dim in sizes if dim not in (first, other)]

    def others_that_differ(pair: tuple[int, int]) -> tuple[bool, int]:
        one, two = pair
        return 1 in (sizes[first][one], sizes[first][two]), sum(sizes[dim][one] != sizes[dim][two] for dim in free)

    return min(pairs, key=others_that_differ, default=None)


def _differing(sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Pairs of samples whose sizes differ."""
    yield from (pair for pair in combinations(range(len(sizes)), 2) if sizes[pair[0]] != sizes[pair[1]])
