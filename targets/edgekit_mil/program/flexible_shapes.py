"""Dimensions that stay open: the sizes that an input may take, as Core ML declares them."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from edgekit.errors import InputError
from edgekit.features.dimensions import OpenDims, defaults
from edgekit_mil.core.mil import ct, get_new_symbol
from edgekit_mil.program.open_sizes import OpenSize, open_sizes

MOST_SHAPES = 128
"""The largest number of shapes of an input that Core ML enumerates."""


def symbols_of(dimensions: OpenDims) -> dict[str, Any]:
    """One symbol for every open dimension: inputs that share its name share its size."""
    return {name: get_new_symbol() for name in dimensions}


def coreml_shape(shape: Sequence[int | str], dimensions: OpenDims, subject: object) -> Any:
    """A shape with open dimensions as coremltools declares it.

    A size that is computed from open dimensions becomes a separate range: Core ML cannot declare how they depend.

    Raises:
        edgekit.errors.InputError: Ranges and lists in one shape, or too many shapes to list.
    """
    open_ones = open_sizes(shape, dimensions)
    names = [name for name in dimensions if any(name in size.factors for size in open_ones.values())]
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
        return tuple(size if isinstance(size, int) else _ranged(open_ones[size], dimensions) for size in shape)
    shapes = []
    for sizes in itertools.product(*(dimensions[name] for name in names)):
        chosen = dict(zip(names, sizes, strict=True))
        shapes.append([size if isinstance(size, int) else open_ones[size].at(chosen) for size in shape])
    if len(shapes) > MOST_SHAPES:
        raise InputError(
            "too many shapes",
            subject=subject,
            expected=f"at most {MOST_SHAPES}",
            found=len(shapes),
            hint="give a range",
        )
    return ct.EnumeratedShapes(shapes=shapes, default=shapes[0])


def require_enumerable(
    shapes: Mapping[str, Sequence[int | str | None]], dimensions: OpenDims, target: ct.target
) -> None:
    """Refuse inputs that Core ML does not enumerate together.

    Before iOS 18 one input may list its shapes. From iOS 18 on several may; Core ML then takes the first shape of one
    with the first shapes of the others, the second with the second, and no other combination
    (https://github.com/apple/coremltools/issues/2271). So they have to list the same combinations.

    Args:
        shapes: The inputs' shapes by name.
        dimensions: The sizes of the open dimensions.
        target: The deployment target.

    Raises:
        edgekit.errors.InputError: The inputs cannot be enumerated together.
    """
    listed = {
        name: {
            dim
            for size in open_sizes(shape, dimensions).values()
            for dim in size.factors
            if not isinstance(dimensions[dim], range)
        }
        for name, shape in shapes.items()
    }
    several = {name: dims for name, dims in listed.items() if dims}
    if len(several) < 2:
        return
    if target < ct.target.iOS18:
        raise InputError(
            f"{target.name} takes lists of sizes for one input only",
            subject=", ".join(several),
            hint="give a range (--dim NAME=LEAST..GREATEST), or package for ios18",
        )
    if any(dims != next(iter(several.values())) for dims in several.values()):
        raise InputError(
            "inputs list the sizes of different dimensions, and Core ML does not combine them",
            subject="; ".join(f"{name}: {', '.join(sorted(dims))}" for name, dims in several.items()),
            hint="give ranges (--dim NAME=LEAST..GREATEST)",
        )


def _ranged(size: OpenSize, dimensions: OpenDims) -> Any:
    least, greatest = size.bounds(dimensions)
    return ct.RangeDim(lower_bound=least, upper_bound=greatest, default=size.at(defaults(dimensions)))


def checked(dimensions: OpenDims) -> OpenDims:
    """Returns the dimensions unchanged, after a check of their sizes.

    Raises:
        edgekit.errors.InputError: One has no sizes, or a size that is not positive.
    """
    for name, sizes in dimensions.items():
        if not sizes or min(sizes) < 1 or (isinstance(sizes, range) and sizes.step != 1):
            raise InputError(
                "not the sizes of a dimension", subject=name, expected="positive numbers", found=str(sizes)
            )
    return dimensions
