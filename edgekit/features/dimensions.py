"""Dimensions that stay open: the sizes that each may take once the model is built.

Written as ``1..8`` (any whole number from 1 to 8) or ``224,320,480`` (one of these). The first one that leaves elements
is the default: what is measured and what a device is prepared for. 0 stands for an input that may be empty, as a
decoder's past is at its first step.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any

from edgekit.errors import InputError

Sizes = range | tuple[int, ...]
"""All sizes of a range (of step 1), or those listed; :func:`default_size` is one of them."""

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
        least, greatest = parse_size(first, subject, least=0), parse_size(last, subject)
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
    sizes = tuple(parse_size(part, subject, least=0 if "," in text else 1) for part in text.split(","))
    twice = next((size for size in sizes if sizes.count(size) > 1), None)
    if twice is not None:
        raise InputError(f"the size {twice} is listed twice", subject=subject)
    return sizes if len(sizes) > 1 else sizes[0]


def parse_size(text: str, subject: str, *, least: int = 1) -> int:
    """One size.

    Raises:
        InputError: It is no whole number from the least one on.
    """
    try:
        size = int(text)
    except ValueError:
        size = least - 1
    if size < least:
        raise InputError(f"{text!r} is not a size", subject=subject, expected=f"a whole number from {least}")
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
    if isinstance(sizes, range):
        more: Sizes = range(min(size, sizes[0]), max(size, sizes[-1]) + 1)
    else:
        more = (*sizes, size)
    again = f"package the model again with --dim {quote(f'{name}={written(more)}')}"
    return again if size else f"{again}, or a second bundle for the empty input with --dim {quote(name)}=0"


def as_record(sizes: Sizes) -> dict[str, Any]:
    """The sizes as the manifest's ``dimensions`` hold them."""
    if isinstance(sizes, range):
        return {"least": sizes[0], "greatest": sizes[-1], "default": default_size(sizes)}
    return {"sizes": list(sizes), "default": default_size(sizes)}


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


def default_size(sizes: Sizes) -> int:
    """The size where nothing else is asked: the first one of which an input has elements."""
    return next((size for size in sizes if size), 0)


def without_empty(sizes: Sizes) -> int | Sizes:
    """The sizes other than 0: one, a range or a list."""
    others: Sizes = range(max(1, sizes[0]), sizes[-1] + 1) if isinstance(sizes, range) else tuple(filter(None, sizes))
    return others if len(others) > 1 else others[0]


def defaults(dims: OpenDims) -> dict[str, int]:
    """The size that each dimension has where nothing else is asked."""
    return {name: default_size(sizes) for name, sizes in dims.items()}


def last(dims: OpenDims) -> dict[str, int]:
    """The last size of each dimension, which is the greatest of a range."""
    return {name: sizes[-1] for name, sizes in dims.items()}


def trials(dims: OpenDims) -> list[dict[str, int]]:
    """The combinations of sizes to try a model at; the defaults come first.

    All that are listed, each with each. Dimensions with a range go together from the least sizes through those half-way
    to the greatest; of several, each also is at its least while the others are at their greatest.
    """
    listed = {name: _default_first(sizes) for name, sizes in dims.items() if not isinstance(sizes, range)}
    ranged = {name: sizes for name, sizes in dims.items() if isinstance(sizes, range)}
    together = [{name: place(sizes) for name, sizes in ranged.items()} for place in _PLACES]
    greatest = together[-1]
    apart = [{**greatest, name: sizes[0]} for name, sizes in ranged.items()] if len(ranged) > 1 else []
    found = [
        {name: {**dict(zip(listed, choice, strict=True)), **sizes}[name] for name in dims}
        for sizes in (*together, *apart)
        for choice in itertools.product(*listed.values())
    ]
    return [trial for place, trial in enumerate(found) if trial not in found[:place]]


def is_apart(dims: OpenDims, sizes: Mapping[str, int]) -> bool:
    """Whether sizes are a combination that nobody asked for: some ranges at their least, others at their greatest."""
    ranged = {name: each for name, each in dims.items() if isinstance(each, range)}
    return not any(all(sizes[name] == place(each) for name, each in ranged.items()) for place in _PLACES)


def _default_first(sizes: Sizes) -> list[int]:
    first = default_size(sizes)
    return [first, *(size for size in sizes if size != first)]


_PLACES: tuple[Callable[[range], int], ...] = (
    default_size,
    lambda sizes: sizes[0],
    lambda sizes: sizes[len(sizes) // 2],
    lambda sizes: sizes[-1],
)
"""The default of a range, which is its least size or the one after an empty input's, one between, and the greatest."""
