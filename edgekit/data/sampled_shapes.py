"""The shapes of the arrays in a folder of samples, read from their headers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edgekit.data.npz import read_headers
from edgekit.data.samples import sample_files
from edgekit.features.dimensions import SizeRange


@dataclass(frozen=True)
class SampledFile:
    """A sample in a ``.npz`` file."""

    file: Path
    folder: Path
    """The folder of samples that it is of."""
    shapes: Mapping[str, tuple[int, ...]]
    """By the array's name."""


@dataclass(frozen=True)
class SampledShapes:
    """What sizes the arrays of samples have."""

    samples: tuple[SampledFile, ...]

    @property
    def count(self) -> int:
        """Of samples in ``.npz`` files."""
        return len(self.samples)

    @property
    def each(self) -> tuple[Mapping[str, tuple[int, ...]], ...]:
        """The shapes of each sample's arrays by their names."""
        return tuple(sample.shapes for sample in self.samples)

    @property
    def names(self) -> frozenset[str]:
        """Of the arrays that every sample has."""
        return frozenset(self.one).intersection(*self.each)

    @property
    def one(self) -> Mapping[str, tuple[int, ...]]:
        """Those of the first sample; none where there is no sample."""
        return self.samples[0].shapes if self.samples else {}

    @cached_property
    def ranges(self) -> Mapping[str, tuple[SizeRange, ...]]:
        """By the array's name, for each dimension; arrays whose ranks differ are not in it."""
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

    def without(self, files: Collection[Path]) -> SampledShapes:
        """The samples but those in some files."""
        return SampledShapes(tuple(sample for sample in self.samples if sample.file not in files))


def sampled_shapes(*folders: Path | None) -> SampledShapes:
    """The shapes of the arrays in the ``.npz`` files of folders; other files are ignored, and so is None.

    Raises:
        InputError: A folder is missing or empty, or a ``.npz`` file is damaged.
    """
    return SampledShapes(
        tuple(
            SampledFile(file, folder, {name: shape for name, (shape, _) in read_headers(file).items()})
            for folder in folders
            if folder is not None
            for file in sample_files(folder)
            if file.suffix.casefold() == ".npz"
        )
    )
