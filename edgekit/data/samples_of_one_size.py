"""Selects samples of one size, where samples have several sizes and a device takes one for each open dimension."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from edgekit.data.sampled_shapes import SampledFile, SampledShapes
from edgekit.features.dimensions import OpenDims, SizeRange, written
from edgekit.graph.sizes.shape_request import ShapeRequest, independent_dims
from edgekit.model import Dim, ValueSpec


@dataclass(frozen=True)
class LeftOut:
    """Samples that are left out because a model is built for other sizes."""

    files: frozenset[Path] = frozenset()
    why: str = ""
    """In words, how many of the samples are left out, and in which dimensions sizes differ; empty if none are."""


NOTHING = LeftOut()


@dataclass(frozen=True)
class _Place:
    """A dimension of an input that the model's file leaves free."""

    input: str
    axis: int
    dimension: str | None
    flag: str
    asked: int | None
    """The size that was asked for; None if no size was."""

    def size(self, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
        """The size of the dimension in a sample, or None if the sample does not have it."""
        shape = shapes.get(self.input, ())
        return shape[self.axis] if self.axis < len(shape) else None

    def __str__(self) -> str:
        return f"dimension {self.axis}{f' ({self.dimension})' if self.dimension else ''} of input {self.input!r}"


def of_other_sizes(
    inputs: Sequence[ValueSpec], request: ShapeRequest, sampled: SampledShapes, *, one_size: bool, may_be_empty: bool
) -> LeftOut:
    """The samples that a model built for one size of some dimensions cannot take.

    Samples of other sizes than those that were asked for are left out first. If a device takes no empty tensor, samples
    with one are left out next: a decoder's first step, say, whose past is empty. If all dimensions get one size, the
    sizes that occur in most folders are kept, among these those of most samples, then the largest.

    Nothing is left out if a folder would lose all its samples, or if samples lack inputs or have other ranks: reading
    those samples raises the error.

    Args:
        inputs: The model's inputs.
        request: The sizes that were asked for.
        sampled: The shapes of the samples.
        one_size: Whether a dimension that nobody asked about gets one size.
        may_be_empty: Whether a dimension that nobody asked about may have the size 0.
    """
    open_places = list(_places(inputs, request))
    places = [place for place in open_places if one_size or place.asked is not None]
    sizes = {sample.file: tuple(place.size(sample.shapes) for place in places) for sample in sampled.samples}
    if any(None in found for found in sizes.values()):
        return NOTHING
    kept = [
        sample
        for sample in sampled.samples
        if all(place.asked in (None, size) for place, size in zip(places, sizes[sample.file], strict=True))
    ]
    free = [place for place in open_places if place.asked is None]
    filled = [sample for sample in kept if all(place.size(sample.shapes) != 0 for place in free)]
    if not may_be_empty and {one.folder for one in filled} == {one.folder for one in kept}:
        kept = filled
    if one_size and kept:
        groups: dict[tuple[int | None, ...], list[SampledFile]] = {}
        for sample in kept:
            groups.setdefault(sizes[sample.file], []).append(sample)
        _, kept = max(
            groups.items(),
            key=lambda group: (
                len({one.folder for one in group[1]}),
                len(group[1]),
                math.prod(size for size in group[0] if size is not None),
            ),
        )
    if {one.folder for one in kept} != {one.folder for one in sampled.samples}:
        return NOTHING
    files = frozenset(sizes) - {one.file for one in kept}
    return LeftOut(files, _why(open_places, places, sampled, kept)) if files else NOTHING


def of_other_shapes(inputs: Sequence[ValueSpec], sampled: SampledShapes, open_dims: OpenDims) -> frozenset[Path]:
    """The files of samples with an array of another size than the input has, or an empty array that it does not take.

    The set is empty if no sample fits the inputs, or if ranks differ.
    """
    others = set()

    def is_other(dim: Dim, size: int) -> bool:
        return dim != size if isinstance(dim, int) else size == 0 and size not in open_dims.get(dim or "", (0,))

    for sample in sampled.samples:
        for spec in inputs:
            wanted, found = spec.shape or (), sample.shapes.get(spec.name, ())
            if len(wanted) != len(found):
                return frozenset()
            if any(is_other(dim, size) for dim, size in zip(wanted, found, strict=True)):
                others.add(sample.file)
    return frozenset(others) if len(others) < len(sampled.samples) else frozenset()


def _places(inputs: Sequence[ValueSpec], request: ShapeRequest) -> Iterator[_Place]:
    """The free dimensions, without those that were asked to stay open or are computed from others."""
    independent = independent_dims(inputs)
    for spec in inputs:
        for axis, dim in enumerate(spec.shape or ()):
            if isinstance(dim, int) or (dim is not None and (dim not in independent or dim in request.open_dims)):
                continue
            asked = request.dims.get(dim) if dim is not None else None
            whole = request.shapes.get(spec.name, ())
            if axis < len(whole) and whole[axis] is not None:
                asked = whole[axis]
            flag = f"--shape {quote(spec.name)}=SIZE,…" if dim is None else f"--dim {quote(dim)}=SIZE"
            yield _Place(spec.name, axis, dim, flag, asked if isinstance(asked, int) else None)


def _why(places: Sequence[_Place], fixed: Sequence[_Place], sampled: SampledShapes, kept: Sequence[SampledFile]) -> str:
    """In words, which samples are left out, and why; ``fixed`` are those of the places that get one size."""
    reasons: dict[str, str] = {}
    for place in places:
        found = [size for sample in sampled.samples if (size := place.size(sample.shapes)) is not None]
        left = {place.size(sample.shapes) for sample in kept}
        span = written(SizeRange(min(found), max(found)).sizes) if found else ""
        if place in fixed and len(left) == 1 < len(set(found)):
            chosen = "was asked for" if place.asked is not None else f"is the most frequent; {place.flag} keeps another"
            reasons.setdefault(place.flag, f"{place} has sizes {span}, of which {left.pop()} {chosen}")
        elif 0 in set(found) - left:
            reasons.setdefault(place.flag, f"{place} has sizes {span}, and the device takes no empty tensors (size 0)")
    count = len(sampled.samples) - len(kept)
    return f"{count} of {len(sampled.samples)} samples are left out: {'; '.join(reasons.values())}"
