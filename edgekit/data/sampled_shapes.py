"""The shapes of the arrays in a folder of samples, read from their headers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from edgekit.data.npz import read_headers, read_npz
from edgekit.data.samples import sample_files
from edgekit.features.dimensions import SizeRange
from edgekit.features.tokens import shape_of_numbers
from edgekit.graph.sizes.default_sizes import MediaSize
from edgekit.model import ValueSpec


@dataclass(frozen=True)
class SampledFile:
    """A sample in a ``.npz`` file."""

    file: Path
    folder: Path
    """The folder of samples that the file belongs to."""
    shapes: Mapping[str, tuple[int, ...]]
    """The shape of each array by name."""
    texts: frozenset[str] = frozenset()
    """The names of the arrays that hold texts."""

    def for_inputs(self, inputs: Sequence[ValueSpec]) -> SampledFile:
        """The file with the shapes that the inputs have to take; see :meth:`SampledShapes.for_inputs`."""
        shapes = dict(self.shapes)
        for spec in inputs:
            shape = shapes.get(spec.name, ())
            if spec.name in self.texts:
                shapes |= {spec.name: shape_of_numbers(shape, spec.tokens)}
            elif spec.dtype == "str" and spec.shape is not None and len(shape) == len(spec.shape) + 1:
                shapes |= {spec.name: shape[:-1]}
        return replace(self, shapes=shapes)


@dataclass(frozen=True)
class SampledShapes:
    """The sizes that the arrays of samples have."""

    samples: tuple[SampledFile, ...]
    media: MediaSize | None = None
    """The size of pictures or sounds, if samples are such, the input leaves it free, and it is known."""

    @property
    def count(self) -> int:
        """The number of samples in ``.npz`` files."""
        return len(self.samples)

    @property
    def each(self) -> tuple[Mapping[str, tuple[int, ...]], ...]:
        """The shapes of each sample's arrays by their names."""
        return tuple(sample.shapes for sample in self.samples)

    @property
    def names(self) -> frozenset[str]:
        """The names of the arrays that every sample has."""
        return frozenset(self.one).intersection(*self.each)

    @property
    def one(self) -> Mapping[str, tuple[int, ...]]:
        """The shapes of the first sample's arrays by their names; empty if there is no sample."""
        return self.samples[0].shapes if self.samples else {}

    @cached_property
    def ranges(self) -> Mapping[str, tuple[SizeRange, ...]]:
        """The range of sizes of each dimension, by the array's name, without arrays whose ranks differ by sample."""
        ranges: dict[str, tuple[SizeRange, ...]] = {}
        other_ranks: set[str] = set()
        for shapes in self.each:
            for name, shape in shapes.items():
                known = ranges.setdefault(name, tuple(SizeRange(size, size) for size in shape))
                if len(known) != len(shape):
                    other_ranks.add(name)
                else:
                    ranges[name] = tuple(one.with_size(size) for one, size in zip(known, shape, strict=True))
        return {name: found for name, found in ranges.items() if name not in other_ranks}

    def for_inputs(self, inputs: Sequence[ValueSpec]) -> SampledShapes:
        """The samples with the shapes that a model's inputs have to take.

        An input that takes the numbers of a text's words has one dimension more than an input that takes the text.
        Samples may hold texts or numbers for a model of either kind.
        """
        return replace(self, samples=tuple(sample.for_inputs(inputs) for sample in self.samples))

    def arrays(self, names: Collection[str], nan_inputs: Collection[str] = ()) -> Iterator[dict[str, np.ndarray]]:
        """The arrays of each sample that have these names, read one file at a time.

        Args:
            names: The arrays' names; samples that hold none of these arrays are skipped.
            nan_inputs: The inputs that may hold NaN.

        Raises:
            InputError: A file is damaged.
        """
        for sample in self.samples:
            if set(names) & set(sample.shapes):
                arrays = read_npz(sample.file, nan_inputs)
                yield {name: array for name, array in arrays.items() if name in names}

    def without(self, files: Collection[Path]) -> SampledShapes:
        """The samples without those in the given files."""
        return replace(self, samples=tuple(sample for sample in self.samples if sample.file not in files))


def sampled_shapes(*folders: Path | None) -> SampledShapes:
    """The shapes of the arrays in the ``.npz`` files of folders; other files are ignored, and so is None.

    Raises:
        InputError: A folder is missing or empty, or a ``.npz`` file is damaged.
    """
    return SampledShapes(
        tuple(
            _sampled(file, folder)
            for folder in folders
            if folder is not None
            for file in sample_files(folder)
            if file.suffix.casefold() == ".npz"
        )
    )


def _sampled(file: Path, folder: Path) -> SampledFile:
    headers = read_headers(file)
    texts = frozenset(name for name, (_, dtype) in headers.items() if dtype.kind == "U")
    return SampledFile(file, folder, {name: shape for name, (shape, _) in headers.items()}, texts)
