"""The shapes of the arrays in a folder of samples, read from their headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from edgekit.data.npz import read_headers
from edgekit.data.samples import sample_files
from edgekit.dimensions import SizeRange


@dataclass(frozen=True)
class SampledShapes:
    """What sizes the arrays of samples have."""

    ranges: Mapping[str, tuple[SizeRange, ...]]
    """By the array's name, for each dimension; arrays whose ranks differ are not in it."""
    count: int
    """Of samples in ``.npz`` files."""
    each: tuple[Mapping[str, tuple[int, ...]], ...] = ()
    """The shapes of each sample's arrays by their names."""

    @property
    def one(self) -> Mapping[str, tuple[int, ...]]:
        """Those of the first sample; none where there is no sample."""
        return self.each[0] if self.each else {}


def sampled_shapes(*folders: Path | None) -> SampledShapes:
    """The shapes of the arrays in the ``.npz`` files of folders; other files are ignored, and so is None.

    Raises:
        InputError: A folder is missing or empty, or a ``.npz`` file is damaged.
    """
    files = [file for folder in folders if folder is not None for file in sample_files(folder)]
    ranges: dict[str, tuple[SizeRange, ...]] = {}
    other_ranks: set[str] = set()
    each: list[Mapping[str, tuple[int, ...]]] = []
    for file in files:
        if file.suffix.casefold() != ".npz":
            continue
        each.append({name: shape for name, (shape, _) in read_headers(file).items()})
        for name, shape in each[-1].items():
            known = ranges.setdefault(name, tuple(SizeRange(size, size) for size in shape))
            if len(known) != len(shape):
                other_ranks.add(name)
            else:
                ranges[name] = tuple(one.with_size(size) for one, size in zip(known, shape, strict=True))
    of_one_rank = {name: found for name, found in ranges.items() if name not in other_ranks}
    return SampledShapes(of_one_rank, len(each), tuple(each))
