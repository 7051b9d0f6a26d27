"""Dimensions that stay open: the sizes that an input may take, as Core ML declares them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from edgekit.errors import InputError
from edgekit_coreml.frontend.mil import ct, get_new_symbol

Sizes = range | tuple[int, ...]
"""All sizes of a range (of step 1), or those listed; the first one is the default."""

MOST_SHAPES = 128
"""Core ML enumerates so many shapes of an input at most."""


def symbols_of(dimensions: Mapping[str, Sizes]) -> dict[str, Any]:
    """One symbol for every open dimension: inputs that share its name share its size."""
    return {name: get_new_symbol() for name in dimensions}


def coreml_shape(shape: Sequence[int | str], dimensions: Mapping[str, Sizes], subject: object) -> Any:
    """A shape with open dimensions as coremltools declares it.

    Raises:
        edgekit.errors.InputError: Ranges and lists in one shape, or too many shapes to list.
    """
    names = [size for size in shape if isinstance(size, str)]
    if not names:
        return tuple(shape)
    listed = [name for name in names if not isinstance(dimensions[name], range)]
    if listed and len(listed) < len(names):
        raise InputError(
            "an input has dimensions with a range and others with a list of sizes",
            subject=subject,
            found=", ".join(names),
            hint="give a range for all of them, or a list for all of them",
        )
    if not listed:
        return tuple(size if isinstance(size, int) else ranged(dimensions[size]) for size in shape)
    names = list(dict.fromkeys(names))
    shapes = []
    for sizes in itertools.product(*(dimensions[name] for name in names)):
        chosen = dict(zip(names, sizes, strict=True))
        shapes.append([size if isinstance(size, int) else chosen[size] for size in shape])
    if len(shapes) > MOST_SHAPES:
        raise InputError(
            "too many shapes",
            subject=subject,
            expected=f"at most {MOST_SHAPES}",
            found=len(shapes),
            hint="give a range",
        )
    return ct.EnumeratedShapes(shapes=shapes, default=shapes[0])


def ranged(sizes: Sizes) -> Any:
    """A range of sizes."""
    return ct.RangeDim(lower_bound=min(sizes), upper_bound=max(sizes), default=sizes[0])


def checked(dimensions: Mapping[str, Sizes]) -> Mapping[str, Sizes]:
    """The dimensions themselves.

    Raises:
        edgekit.errors.InputError: One has no sizes, or a size that is not positive.
    """
    for name, sizes in dimensions.items():
        if not sizes or min(sizes) < 1 or (isinstance(sizes, range) and sizes.step != 1):
            raise InputError(
                "not the sizes of a dimension", subject=name, expected="positive numbers", found=str(sizes)
            )
    return dimensions
