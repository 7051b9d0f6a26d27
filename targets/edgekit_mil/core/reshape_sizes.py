"""Computes the sizes of the result of a reshape whose sizes are open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import sympy


def sizes_of_volume(volume: Any, sizes: Sequence[Any]) -> list[Any]:
    """Returns the sizes, with the unknown one computed from the volume and the other sizes.

    A size is unknown if it is a symbol that the volume does not contain. The sizes are returned unchanged if none or
    several of them are unknown. coremltools solves for each of the sizes, which does not terminate if one is a sum such
    as ``s + 1``.

    Args:
        volume: How many elements there are: a number, or an expression of symbols.
        sizes: Numbers, symbols and expressions of symbols.
    """
    known = sympy.sympify(volume).free_symbols
    unknown = [place for place, size in enumerate(sizes) if isinstance(size, sympy.Symbol) and size not in known]
    others = math.prod(size for place, size in enumerate(sizes) if place not in unknown)
    if len(unknown) != 1 or sympy.sympify(others).free_symbols - known:
        return list(sizes)
    size = sympy.cancel(sympy.sympify(volume) / others)
    complete = list(sizes)
    complete[unknown[0]] = int(size) if size.is_Integer else size
    return complete
