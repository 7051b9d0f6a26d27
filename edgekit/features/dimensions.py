"""Dimensions that stay open: the sizes that each may take once the model is built.

Written as ``1..8`` (any whole number from 1 to 8) or ``224,320,480`` (one of these). The first one is the default: what
is measured and what a device is prepared for.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from edgekit.errors import InputError

Sizes = range | tuple[int, ...]
"""All sizes of a range (of step 1), or those listed; the first one is the default."""

OpenDims = Mapping[str, Sizes]
"""The sizes of dimensions by their names."""


@dataclass(frozen=True)
class SizeRange:
    """The least and the greatest size of a dimension in all samples."""

    least: int
    greatest: int

    @property
    def agreed(self) -> int | None:
        """The size where all samples have the same; None where they differ."""
        return self.least if self.least == self.greatest else None

    @property
    def sizes(self) -> int | Sizes:
        """The size that all samples have, or all sizes from the least to the greatest."""
        return self.least if self.least == self.greatest else range(self.least, self.greatest + 1)

    def with_size(self, size: int) -> SizeRange:
        """The range that has a further size in it."""
        return self.joined(SizeRange(size, size))

    def joined(self, other: SizeRange) -> SizeRange:
        """The range that has both in it."""
        return SizeRange(min(self.least, other.least), max(self.greatest, other.greatest))


def parse_sizes(text: str, subject: str) -> int | Sizes:
    """What follows the equals sign in ``--dim NAME=SIZES``: one size, a range or a list.

    Args:
        text: Such as ``1``, ``1..8`` or ``224,320,480``; ``0`` stands for an input without elements.
        subject: Where it stands, for errors.

    Raises:
        InputError: It is none of them, a range is reversed, or a size comes twice.
    """
    first, dots, last = text.partition("..")
    if dots:
        least, greatest = parse_size(first, subject), parse_size(last, subject)
        if greatest < least:
            raise InputError(
                "the range is reversed",
                subject=subject,
                expected="LEAST..GREATEST",
                found=text,
                hint=f"write {greatest}..{least}",
            )
        return range(least, greatest + 1) if least < greatest else least
    if text.strip() == "0":
        return 0
    sizes = tuple(parse_size(part, subject) for part in text.split(","))
    twice = next((size for size in sizes if sizes.count(size) > 1), None)
    if twice is not None:
        raise InputError(f"the size {twice} is listed twice", subject=subject)
    return sizes if len(sizes) > 1 else sizes[0]


def parse_size(text: str, subject: str) -> int:
    """One size.

    Raises:
        InputError: It is no whole number from 1 on.
    """
    try:
        size = int(text)
    except ValueError:
        size = 0
    if size < 1:
        raise InputError(f"{text!r} is not a size", subject=subject, expected="a whole number from 1")
    return size


def written(sizes: int | Sizes) -> str:
    """The sizes as :func:`parse_sizes` reads them."""
    if isinstance(sizes, range):
        return f"{sizes[0]}..{sizes[-1]}"
    return ",".join(map(str, (sizes,) if isinstance(sizes, int) else sizes))


def how_to_take(name: str, sizes: Sizes, size: int) -> str:
    """What to do for an open dimension to take one more size.

    Args:
        name: The dimension.
        sizes: The sizes that it takes.
        size: One that it does not take.
    """
    if size == 0:
        return f"package a bundle for the empty input with --dim {quote(name)}=0"
    if isinstance(sizes, range):
        more: Sizes = range(min(size, sizes[0]), max(size, sizes[-1]) + 1)
    else:
        more = (*sizes, size)
    return f"package the model again with --dim {quote(f'{name}={written(more)}')}"


def as_record(sizes: Sizes) -> dict[str, Any]:
    """The sizes as the manifest's ``dimensions`` hold them."""
    if isinstance(sizes, range):
        return {"least": sizes[0], "greatest": sizes[-1], "default": sizes[0]}
    return {"sizes": list(sizes), "default": sizes[0]}


def from_record(record: Mapping[str, Any]) -> Sizes:
    """The sizes that a manifest holds."""
    return tuple(record["sizes"]) if "sizes" in record else range(record["least"], record["greatest"] + 1)


def shape_text(shape: Sequence[object] | None) -> str:
    """A shape as people write it: ``1×3×?``, a question mark for a dimension without a size or a name."""
    if shape is None:
        return "unknown rank"
    return "×".join(map(_dimension_text, shape)) or "scalar"


def _dimension_text(dim: object) -> str:
    text = "?" if dim is None else str(dim)
    return f"({text})" if " " in text else text


def defaults(dims: OpenDims) -> dict[str, int]:
    """The size that each dimension has where nothing else is asked."""
    return {name: sizes[0] for name, sizes in dims.items()}


def last(dims: OpenDims) -> dict[str, int]:
    """The last size of each dimension, which is the greatest of a range."""
    return {name: sizes[-1] for name, sizes in dims.items()}


def trials(dims: OpenDims) -> list[dict[str, int]]:
    """The combinations of sizes to try a model at; the defaults come first.

    All that are listed, each with each. Dimensions with a range go together from the least sizes through those half-way
    to the greatest; of several, each also is at its least while the others are at their greatest.
    """
    listed = {name: sizes for name, sizes in dims.items() if not isinstance(sizes, range)}
    ranged = {name: sizes for name, sizes in dims.items() if isinstance(sizes, range)}
    together = [{name: sizes[place(len(sizes))] for name, sizes in ranged.items()} for place in _PLACES]
    greatest = together[-1]
    apart = [{**greatest, name: sizes[0]} for name, sizes in ranged.items()] if len(ranged) > 1 else []
    found = [
        {name: {**dict(zip(listed, choice, strict=True)), **sizes}[name] for name in dims}
        for sizes in (*together, *apart)
        for choice in itertools.product(*listed.values())
    ]
    return [trial for place, trial in enumerate(found) if trial not in found[:place]]


_PLACES = (lambda count: 0, lambda count: count // 2, lambda count: count - 1)
"""Positions of the least size, one between, and the greatest in a range of ``count`` sizes."""
