"""Dimensions that stay open: the sizes that each may have once the model is built.

Written as ``1..8`` (any integer from 1 to 8) or ``224,320,480`` (one of these). The first nonzero size is the default,
at which the model is measured and for which a device is prepared. 0 means an input that may be empty, like a decoder's
past at its first step.
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
        """The size if all samples have the same, else None."""
        return self.least if self.least == self.greatest else None

    @property
    def sizes(self) -> int | Sizes:
        """The size that all samples have, or all sizes from the least to the greatest."""
        return self.least if self.least == self.greatest else range(self.least, self.greatest + 1)

    def with_size(self, size: int) -> SizeRange:
        """Returns the range extended to a further size."""
        return self.joined(SizeRange(size, size))

    def joined(self, other: SizeRange) -> SizeRange:
        """Returns the smallest range that contains both."""
        return SizeRange(min(self.least, other.least), max(self.greatest, other.greatest))


def parse_sizes(text: str, subject: str) -> int | Sizes:
    """Reads the text behind the equals sign in ``--dim NAME=SIZES``: one size, a range or a list.

    Args:
        text: Such as ``1``, ``1..8`` or ``224,320,480``; ``0`` means an input without elements.
        subject: Where the text is, for errors.

    Raises:
        InputError: The text is none of these, a range is reversed, or a size occurs twice.
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
    """Reads one size.

    Raises:
        InputError: The text is no integer of at least ``least``.
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
    """Returns advice on how to build the model so that an open dimension takes one more size.

    Args:
        name: The dimension.
        sizes: The sizes that it takes.
        size: A size that it does not take.
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
    """Returns the size that is used if none is requested: the first nonzero one, or 0."""
    return next((size for size in sizes if size), 0)


def without_empty(sizes: Sizes) -> int | Sizes:
    """The sizes other than 0: one, a range or a list."""
    others: Sizes = range(max(1, sizes[0]), sizes[-1] + 1) if isinstance(sizes, range) else tuple(filter(None, sizes))
    return others if len(others) > 1 else others[0]


def defaults(dims: OpenDims) -> dict[str, int]:
    """Returns the size of each dimension that is used if none is requested."""
    return {name: default_size(sizes) for name, sizes in dims.items()}


def last(dims: OpenDims) -> dict[str, int]:
    """The last size of each dimension, which is the greatest of a range."""
    return {name: sizes[-1] for name, sizes in dims.items()}


def trials(dims: OpenDims) -> list[dict[str, int]]:
    """Returns the combinations of sizes to try a model at, the defaults first.

    Listed sizes are combined in all ways. Dimensions with a range change together: default, least, middle and greatest
    size. If there are several, each one is also at its least size while the others are at their greatest.
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
    """Whether sizes mix ranges at their least and others at their greatest, which no user requested."""
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
"""Functions that pick sizes of a range: its default (the least nonzero one), the least, the middle, the greatest."""
