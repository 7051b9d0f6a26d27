"""Samples of the sizes that open dimensions may take, made of samples of other sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from edgekit.data.samples import Sample, Samples
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.model import ValueSpec

MOST_PARTS = 8
"""Most samples that one larger sample is joined from; if these are not enough, they are repeated."""
LEAST_STEPS = 3
"""The least number that counts as a length if it equals the size of an axis: flags and counts are smaller."""


class SizedSamples:
    """Samples with every open dimension at a size, made by joining samples and cutting what is too much.

    Along the first open axis of an input, samples follow one another, so that the items of a batch differ; along the
    other open axes a sample is repeated. Axes that take any size, and for which no size is asked, have the size that
    the first of the joined samples has. If the greatest number of an integer input equals the size of an open axis in
    every sample, that number is the length of the longest sequence. It is set to the new size of the axis, since models
    make masks as wide as the greatest length. The samples have no labels.

    Args:
        base: The samples that are joined and cut.
        inputs: The model's inputs, the open dimensions by their names.
        sizes: The size of each open dimension.
        count: The number of samples.
        below: What lengths and places stay below at these sizes, by input; greater numbers are lowered.
    """

    has_labels = False

    def __init__(
        self,
        base: Samples,
        inputs: Sequence[ValueSpec],
        sizes: Mapping[str, int],
        count: int,
        below: Mapping[str, int] | None = None,
    ) -> None:
        self._base = base
        self._below = below or {}
        # the size of each axis that is not fixed, None where no size is asked; the axes to join along come first
        self._inputs: dict[str, dict[int, int | None]] = {
            spec.name: {
                axis: size if isinstance(size, int) else None
                for axis, (dim, size) in sorted(
                    enumerate(zip(spec.shape or (), fixed.shape or (), strict=True)),
                    key=lambda numbered: not isinstance(numbered[1][1], int),
                )
                if not isinstance(dim, int)
            }
            for spec, fixed in zip(inputs, at_sizes(inputs, sizes), strict=True)
        }
        self._dims = {spec.name: spec.shape or () for spec in inputs}
        self._integers = [spec.name for spec in inputs if spec.dtype.startswith(("int", "uint"))]
        self._sizes = sizes
        self._count = count
        self._identity = id(base), tuple((spec.name, spec.shape) for spec in inputs), tuple(sizes.items()), count

    def __len__(self) -> int:
        return self._count

    def __eq__(self, other: object) -> bool:
        """Whether both are made of the same object ``base`` for the same inputs, sizes and count."""
        return isinstance(other, SizedSamples) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._as_cut():
            lowered = {name: np.minimum(sample.feeds[name], limit - 1) for name, limit in self._below.items()}
            yield Sample(sample.name, {**sample.feeds, **lowered})

    @property
    def lowered(self) -> dict[str, int]:
        """The limits of the inputs that hold a number to be lowered in at least one sample, by the input's name."""
        samples = [*self._as_cut()] if self._below else []
        return {
            name: limit
            for name, limit in self._below.items()
            if any(np.any(sample.feeds[name] >= limit) for sample in samples)
        }

    def _as_cut(self) -> Iterator[Sample]:
        """The samples before lengths and places are lowered."""
        parts = [sample.feeds for sample in islice(self._base, MOST_PARTS)]
        filled = self._filled(parts)
        at = ", ".join(f"{name}={size}" for name, size in self._sizes.items())
        for number in range(self._count):
            turned = [parts[(number + place) % len(parts)] for place in range(len(parts))]
            feeds = {name: _made([part[name] for part in turned], sizes) for name, sizes in self._inputs.items()}
            feeds |= {
                name: _longest_raised(feeds[name], feeds[measured].shape[axis])
                for name, (measured, axis) in filled.items()
            }
            yield Sample(f"sample {number} at {at}", feeds)

    def _filled(self, parts: Sequence[Mapping[str, np.ndarray]]) -> dict[str, tuple[str, int]]:
        """By integer input whose greatest number equals the size of an open axis in every sample: input and axis.

        Open axes that the integer input has itself do not count.
        """
        axes = [(name, axis) for name, sizes in self._inputs.items() for axis in sizes]
        found: dict[str, tuple[str, int]] = {}
        for counts in self._integers:
            if not all(part[counts].size for part in parts):
                continue
            longest = [int(part[counts].max()) for part in parts]
            for name, axis in axes:
                if min(longest) < LEAST_STEPS or self._dims[name][axis] in self._dims[counts]:
                    continue
                if longest == [part[name].shape[axis] for part in parts]:
                    found.setdefault(counts, (name, axis))
        return found


def _longest_raised(lengths: np.ndarray, size: int) -> np.ndarray:
    """The lengths with the greatest of them set to ``size``, and all others at most ``size``."""
    return np.where(lengths == lengths.max(), size, np.minimum(lengths, size)).astype(lengths.dtype)


def _made(arrays: Sequence[np.ndarray], sizes: Mapping[int, int | None]) -> np.ndarray:
    """The arrays of several samples as one array with the size ``sizes`` along each of the axes there.

    Axes without a size there have that of the first array. The first axis is the one to join along; if it has no size
    there, the first array is taken alone.
    """
    joined, *repeated = sizes or (0,)
    size = sizes.get(joined)
    if size is None:
        return arrays[0]
    for axis in repeated:
        of_axis = sizes[axis]
        arrays = [_repeated(array, axis, arrays[0].shape[axis] if of_axis is None else of_axis) for array in arrays]
    return _repeated(np.concatenate(arrays, joined), joined, size)


def _repeated(array: np.ndarray, axis: int, size: int) -> np.ndarray:
    """The array cut, or repeated from its beginning, to a size along an axis; zeros where it is empty there."""
    if not array.shape[axis]:
        return np.zeros((*array.shape[:axis], size, *array.shape[axis + 1 :]), array.dtype)
    return np.take(array, np.arange(size), axis, mode="wrap")
