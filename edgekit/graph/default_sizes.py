"""Sizes of free dimensions that nobody asked about: those of samples, a batch of one, what the file states."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgekit.graph.shape_request import ShapeRequest, terms
from edgekit.model import Dim, ValueSpec

BATCH = re.compile(r"n|b|bs|n?batch([_ ]?(size|dim|dimension|axis|n|no|num|count))?", re.IGNORECASE)
"""What exporters and people call the dimension that counts samples."""
COUNTS_STEPS = re.compile(
    r"seq|time|frame|len|step|token|word|char|sample|chunk|window|point|row|past|^t$", re.IGNORECASE
)
"""What names of dimensions have in them that count steps of one sample."""
ANY_NUMBER = re.compile(r"n|b", re.IGNORECASE)
"""Of these names, what people call other numbers too."""
PLAIN_RANK = 2
PICTURE_RANK = 4
STATED_SIZE = "imgsz"
"""Ultralytics' entry of a file's metadata: height and width, ``[640, 640]``."""


@dataclass(frozen=True)
class DefaultSize:
    """A size that a free dimension gets."""

    input: str
    axis: int
    dimension: str | None
    """Its name; None where it has none."""
    size: int
    why: str
    sampled: bool = False
    """Whether the samples have it."""

    def __str__(self) -> str:
        called = "" if self.dimension is None else f" ({self.dimension})"
        other = f"--shape {self.input}=SIZE,…" if self.dimension is None else f"--dim {self.dimension}=SIZE"
        place = f"dimension {self.axis}{called} of input {self.input!r}"
        return f"{place} is {self.size}, {self.why}; {other} makes it another"


SampledSizes = Mapping[str, Sequence[int | None]]
"""The sizes that samples have, by the input's name; None where they differ from sample to sample."""


def with_default_sizes(
    request: ShapeRequest,
    inputs: Sequence[ValueSpec],
    metadata: Mapping[str, str],
    sampled: SampledSizes | None = None,
) -> tuple[ShapeRequest, list[DefaultSize]]:
    """A request completed by the sizes of free dimensions that it leaves out.

    Of an input the first dimension that is called as batches are is 1, and so is one that stands first of two or more
    and is free, unless its name says that it counts steps, or another dimension of the input is called as batches are.
    Height and width of a picture are what the file states. Others are what the samples have.

    Args:
        request: What was asked for, which always wins.
        inputs: The model's inputs.
        metadata: What the file states, by key.
        sampled: The sizes that samples have; None without samples.

    Returns:
        The completed request, and the sizes that it got, each dimension once.
    """
    found: list[DefaultSize] = []
    sizes: dict[str, int] = {}
    shapes: dict[str, list[int | None]] = {}
    for spec in inputs:
        if spec.name in request.shapes or spec.shape is None:
            continue
        defaults = _defaults(spec, inputs, metadata)
        from_samples = _sampled(spec, (sampled or {}).get(spec.name, ()))
        reasons = {axis: (size, "as in the samples") for axis, size in from_samples.items()} | defaults
        for axis, (size, why) in sorted(reasons.items()):
            dim = spec.shape[axis]
            if isinstance(dim, str):
                if dim in request.dims or dim in sizes:
                    continue
                sizes[dim] = size
            else:
                shapes.setdefault(spec.name, [None] * len(spec.shape))[axis] = size
            dimension = dim if isinstance(dim, str) else None
            found.append(DefaultSize(spec.name, axis, dimension, size, why, axis not in defaults))
    return replace(request, dims={**request.dims, **sizes}, shapes={**request.shapes, **shapes}), found


def _defaults(spec: ValueSpec, inputs: Sequence[ValueSpec], metadata: Mapping[str, str]) -> dict[int, tuple[int, str]]:
    """The sizes of an input's free dimensions, by axis, each with the reason."""
    shape = spec.shape or ()
    batch = _batch_axis(shape)
    found = {} if batch is None else {batch: (1, "one sample")}
    if not found and len(shape) > 1 and not isinstance(shape[0], int) and _may_count_samples(shape[0], inputs):
        found[0] = (1, "one sample")
    stated = _stated_size(metadata)
    if stated is not None and len(inputs) == 1 and len(shape) == PICTURE_RANK and isinstance(shape[1], int):
        for axis, size in zip((2, 3), stated, strict=True):
            if not isinstance(shape[axis], int):
                found[axis] = (size, f"which the file states ({STATED_SIZE})")
    return found


def _sampled(spec: ValueSpec, sizes: Sequence[int | None]) -> dict[int, int]:
    """The sizes that samples have in an input's free dimensions, by axis."""
    shape = spec.shape or ()
    if len(shape) != len(sizes):
        return {}
    return {
        axis: size
        for axis, (dim, size) in enumerate(zip(shape, sizes, strict=True))
        if size is not None and (dim is None or (isinstance(dim, str) and terms(dim) == {dim}))
    }


def _batch_axis(shape: Sequence[Dim]) -> int | None:
    """Where a dimension stands that is called as batches are, and may be one.

    ``N`` is what people call any number: behind a batch it is none, nor behind a 1 or alone, as a sound's samples are.
    """
    axis = next((axis for axis, dim in enumerate(shape) if isinstance(dim, str) and BATCH.fullmatch(dim)), None)
    if axis is None:
        return None
    alone = len(shape) == 1 or (len(shape) == PLAIN_RANK and shape[0] == 1)
    return None if alone and ANY_NUMBER.fullmatch(str(shape[axis])) else axis


def _may_count_samples(dim: str | None, inputs: Sequence[ValueSpec]) -> bool:
    """Whether the name of a dimension that stands first says nothing else, here or where it stands elsewhere."""
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
