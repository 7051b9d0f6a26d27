"""Default sizes of free dimensions: those of samples, a batch of one, or what the file states."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from shlex import quote

from edgekit.features.dimensions import SizeRange, Sizes, written
from edgekit.graph.sizes.shape_request import ShapeRequest, independent_dims, terms
from edgekit.model import Dim, ValueSpec

BATCH = re.compile(r"n|b|bs|n?batch([_ ]?(size|dim|dimension|axis|n|no|num|count))?", re.IGNORECASE)
"""Names that exporters and users give the dimension that counts samples."""
COUNTS_STEPS = re.compile(
    r"seq|time|frame|len|step|token|word|char|sample|chunk|window|point|row|past|^t$", re.IGNORECASE
)
"""Parts of names of dimensions that count steps of one sample."""
ANY_NUMBER = re.compile(r"n|b", re.IGNORECASE)
"""The batch names that are also used for other numbers."""
_MOST_NAMED = 3
PLAIN_RANK = 2
PICTURE_RANK = 4
STATED_SIZE = "imgsz"
"""Ultralytics' entry of a file's metadata: height and width, ``[640, 640]``."""


@dataclass(frozen=True)
class DefaultSize:
    """The default of a free dimension: one size, or several that it stays open for."""

    input: str
    axis: int
    dimension: str | None
    """The dimension's name; None if it has none."""
    size: int | Sizes
    why: str

    def __str__(self) -> str:
        return _text([self])


def texts_on(sizes: Sequence[DefaultSize]) -> list[str]:
    """Describes the sizes given to free dimensions; those that got the same in several inputs share one line."""
    groups: dict[object, list[DefaultSize]] = {}
    for each in sizes:
        alike = (each.axis, str(each.size), each.why, each.dimension is None)
        groups.setdefault(alike if isinstance(each.size, int) else each.dimension, []).append(each)
    return [_text(group) for group in groups.values()]


def _text(alike: Sequence[DefaultSize]) -> str:
    first, several = alike[0], len(alike) > 1
    called = "" if first.dimension is None or several else f" ({first.dimension})"
    inputs = _listed([repr(each.input) for each in alike])
    place = f"the inputs {inputs}" if several else f"input {inputs}"
    is_one = f"dimension {first.axis}{called} of {place} is {written(first.size)}, {first.why}"
    if first.dimension is None:
        flag, each_of_them = ("--shape INPUT", ", for each of them") if several else (f"--shape {first.input}", "")
        return f"{is_one}; {flag}=SIZE,… makes it another{each_of_them}, and ? in place of SIZE keeps it open"
    if isinstance(first.size, range):
        more = f"--dim {quote(first.dimension)}=LEAST..GREATEST"
        return f"{is_one}; an app can feed no other: {more} opens it for more"
    if several:
        names = _listed([each.dimension or "" for each in alike])
        return f"{is_one}; --dim NAME=SIZE makes it another, by the names {names}"
    return f"{is_one}; --dim {quote(first.dimension)}=SIZE makes it another"


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(names[:_MOST_NAMED])}{more}"


class AcceptedSizes(StrEnum):
    """Which sizes a device takes in one dimension of a built model."""

    ONE = "one"
    RANGE = "range"
    """All sizes of a range that is fixed when the model is built."""
    ANY = "any"


@dataclass(frozen=True)
class MediaSize:
    """The sizes that an input of pictures or sounds leaves free: height and width, or the length."""

    input: str
    sizes: Mapping[int, int]
    """Sizes by axis."""
    why: str
    """Where the sizes come from, in words."""


@dataclass(frozen=True)
class SampledSizes:
    """The sizes that samples have, and which sizes the device accepts."""

    ranges: Mapping[str, Sequence[SizeRange]]
    """By the input's name, for each dimension."""
    count: int
    """How many samples there are."""
    device: AcceptedSizes
    media: MediaSize | None = None
    """The size that pictures or sounds are brought to, if their input leaves it free and it is known."""


def with_default_sizes(
    request: ShapeRequest,
    inputs: Sequence[ValueSpec],
    metadata: Mapping[str, str],
    sampled: SampledSizes | None = None,
) -> tuple[ShapeRequest, list[DefaultSize]]:
    """Returns a request completed by default sizes for the free dimensions that it leaves out.

    In each input, the first dimension with a name of batches (:data:`BATCH`) is 1, unless there are several samples
    that all have one size other than 1, or have several sizes. The first of two or more dimensions (of texts, of one or
    more) is also 1 if it is free, unless its name says that it counts steps, another dimension of the input has a name
    of batches, or there are several samples and one has a greater size; for texts of one dimension, a single sample
    with several texts shows that they belong together. Height and width of a picture are those of the samples, else
    what the file states. Other dimensions get the sizes of the samples if the device does not accept every size: one
    size if all samples agree, else their range if the device accepts ranges and the dimension has a name.

    Args:
        request: What was asked for, which always wins.
        inputs: The model's inputs.
        metadata: What the file states, by key.
        sampled: The sizes that samples have; None without samples.

    Returns:
        The completed request, and the sizes that were added, each dimension once.
    """
    found: list[DefaultSize] = []
    sizes: dict[str, int | Sizes] = {}
    shapes: dict[str, list[int | None]] = {}
    known = _ranges(inputs, sampled)
    for spec in inputs:
        if spec.name in request.shapes or spec.shape is None:
            continue
        for axis, (size, why) in sorted(_defaults(spec, inputs, metadata, sampled, known).items()):
            dim = spec.shape[axis]
            if isinstance(dim, str):
                if dim in request.dims or dim in sizes:
                    continue
                sizes[dim] = size
            elif isinstance(size, int):
                shapes.setdefault(spec.name, [None] * len(spec.shape))[axis] = size
            found.append(DefaultSize(spec.name, axis, dim if isinstance(dim, str) else None, size, why))
    return replace(request, dims={**request.dims, **sizes}, shapes={**request.shapes, **shapes}), found


Ranges = Mapping[tuple[str, int], SizeRange]
"""Ranges of sizes by the input's name and the axis."""


Defaults = dict[int, tuple[int | Sizes, str]]
"""Sizes by the axis, each with the reason."""


def _defaults(
    spec: ValueSpec,
    inputs: Sequence[ValueSpec],
    metadata: Mapping[str, str],
    sampled: SampledSizes | None,
    known: Ranges,
) -> Defaults:
    """Returns the sizes of an input's free dimensions; if several reasons give one, the last one counts."""
    media = None if sampled is None else sampled.media
    of_media = media.sizes if media is not None and media.input == spec.name else {}
    return {
        **_as_in_samples(spec, sampled, known),
        **(_as_stated(spec, metadata, known) if len(inputs) == 1 else {}),
        **{axis: (size, media.why) for axis, size in of_media.items() if media is not None},
        **_of_batch(spec, inputs, sampled, known),
    }


def _as_in_samples(spec: ValueSpec, sampled: SampledSizes | None, known: Ranges) -> Defaults:
    """Returns the samples' sizes, one or a range, for a device that does not accept every size."""
    found: Defaults = {}
    if sampled is None or sampled.device is AcceptedSizes.ANY:
        return found
    for axis, dim in enumerate(spec.shape or ()):
        one = known.get((spec.name, axis))
        if one is None:
            continue
        has_name = isinstance(dim, str) and terms(dim) == {dim}
        if one.agreed is not None or (has_name and sampled.device is AcceptedSizes.RANGE):
            found[axis] = (one.sizes, "as in the samples")
    return found


def _as_stated(spec: ValueSpec, metadata: Mapping[str, str], known: Ranges) -> Defaults:
    """Returns the picture size that the file states for the only input, or the samples' size if it differs."""
    shape, stated = spec.shape or (), _stated_size(metadata)
    found: Defaults = {}
    if stated is None or len(shape) != PICTURE_RANK or not isinstance(shape[1], int):
        return found
    for axis, size in zip((2, 3), stated, strict=True):
        one = known.get((spec.name, axis))
        if one is not None and one.agreed is None:
            continue  # samples of several sizes
        if one is not None and one.agreed != size:
            found[axis] = (one.sizes, f"as in the samples; the file states {size} ({STATED_SIZE})")
        elif not isinstance(shape[axis], int):
            found[axis] = (size, f"which the file states ({STATED_SIZE})")
    return found


def _of_batch(spec: ValueSpec, inputs: Sequence[ValueSpec], sampled: SampledSizes | None, known: Ranges) -> Defaults:
    """Returns the size of a dimension with a name of batches, or of the first one if it may count samples."""
    shape = spec.shape or ()
    batch = _batch_axis(shape)
    if batch is not None:
        one = known.get((spec.name, batch))
        return {batch: _batch_size(one, sampled)} if one is None or one.agreed is not None else {}
    are_texts_alone = len(shape) == 1 and spec.dtype == "str"
    may_have_one = len(shape) > 1 or are_texts_alone
    if not may_have_one or isinstance(shape[0], int) or not _may_count_samples(shape[0], inputs):
        return {}
    is_sampled = sampled is not None and (sampled.count > 1 or are_texts_alone)
    has_more = is_sampled and (spec.name, 0) in known and known[spec.name, 0].greatest > 1
    return {} if has_more else {0: (1, "one sample")}


def _batch_size(one: SizeRange | None, sampled: SampledSizes | None) -> tuple[int, str]:
    """Returns 1, or the size in which several samples agree; a single array with more rows may hold all samples."""
    if one is None or one.agreed in (None, 0, 1) or sampled is None or sampled.count == 1:
        return 1, "one sample"
    return one.least, "as in every sample"


def _ranges(inputs: Sequence[ValueSpec], sampled: SampledSizes | None) -> Ranges:
    """Returns the sizes of the samples in free dimensions; dimensions of one name are taken together."""
    found: dict[tuple[str, int], SizeRange] = {}
    by_name: dict[str, SizeRange] = {}
    named: dict[tuple[str, int], str] = {}
    if sampled is None:
        return found
    independent = independent_dims(inputs)
    for spec in inputs:
        ranges = sampled.ranges.get(spec.name, ())
        if spec.shape is None or len(spec.shape) != len(ranges):
            continue
        for axis, (dim, one) in enumerate(zip(spec.shape, ranges, strict=True)):
            if dim is None:
                found[spec.name, axis] = one
            elif isinstance(dim, str) and dim in independent:
                named[spec.name, axis] = dim
                by_name[dim] = one.joined(by_name.get(dim, one))
    return found | {place: by_name[dim] for place, dim in named.items()}


def _batch_axis(shape: Sequence[Dim]) -> int | None:
    """Returns the axis of the first dimension that has a name of batches, or None if it is not taken as one.

    ``N`` and ``B`` are names of other numbers, too: as the only dimension, or behind a 1 as the samples of a sound are,
    they are not taken as a batch.
    """
    axis = next((axis for axis, dim in enumerate(shape) if isinstance(dim, str) and BATCH.fullmatch(dim)), None)
    if axis is None:
        return None
    alone = len(shape) == 1 or (len(shape) == PLAIN_RANK and shape[0] == 1)
    return None if alone and ANY_NUMBER.fullmatch(str(shape[axis])) else axis


def _may_count_samples(dim: str | None, inputs: Sequence[ValueSpec]) -> bool:
    """Whether the first dimension's name allows that it counts samples, and no input has it at a later position."""
    if dim is None:
        return True
    elsewhere = any(dim in (spec.shape or ())[1:] for spec in inputs)
    return not elsewhere and terms(dim) == {dim} and COUNTS_STEPS.search(dim) is None


def _stated_size(metadata: Mapping[str, str]) -> tuple[int, int] | None:
    """Height and width of the pictures that the model is for; None where the file does not state them."""
    try:
        stated = ast.literal_eval(metadata.get(STATED_SIZE, ""))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    sizes = (stated, stated) if isinstance(stated, int) else tuple(stated) if isinstance(stated, list | tuple) else ()
    if len(sizes) != 2 or not all(isinstance(size, int) and size > 0 for size in sizes):
        return None
    return sizes
