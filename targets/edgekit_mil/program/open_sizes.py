"""Sizes that are open, or follow from open ones: a decoder's mask has the length ``past + 1``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir

from edgekit.features.dimensions import OpenDims
from edgekit.graph.sizes.shape_request import terms


@dataclass(frozen=True)
class OpenSize:
    """A sum of multiples of open dimensions and a constant; of one dimension alone in most models."""

    factors: Mapping[str, int]
    """The factor of each open dimension, by its name."""
    constant: int = 0

    @classmethod
    def parse(cls, dim: str | None, dimensions: OpenDims) -> OpenSize | None:
        """Reads a dimension as a file writes it: a name, or an expression of names.

        Returns:
            The size; None if it depends on a dimension that is not open, is not such a sum (a quotient, for example),
            or is not positive for all sizes of the open dimensions.
        """
        if dim is None:
            return None
        if dim in dimensions:
            return cls({dim: 1})
        names = sorted(terms(dim))
        if not dimensions.keys() >= {*names}:
            return None
        zeros = dict.fromkeys(names, 0)
        apart = {name: 3 + 4 * place for place, name in enumerate(names)}
        greatest = {name: max(dimensions[name]) for name in names}
        points = [zeros, *({**zeros, name: 1} for name in names), apart, greatest]
        found = [value for value in (ir.SymbolicDim(dim).evaluate(point) for point in points) if isinstance(value, int)]
        if len(found) < len(points):
            return None
        constant, *at_one = found[: len(names) + 1]
        size = cls({name: value - constant for name, value in zip(names, at_one, strict=True)}, constant)
        is_sum = all(size.at(point) == value for point, value in zip(points, found, strict=True))
        return size if is_sum and 0 not in size.factors.values() and size.bounds(dimensions)[0] > 0 else None

    def at(self, sizes: Mapping[str, Any]) -> Any:
        """Returns the size for given sizes of the open dimensions, numbers or symbols."""
        return sum((factor * sizes[name] for name, factor in self.factors.items()), start=self.constant)

    def bounds(self, dimensions: OpenDims) -> tuple[int, int]:
        """The least and the greatest size."""
        ends = [sorted(factor * end(dimensions[name]) for end in (min, max)) for name, factor in self.factors.items()]
        return self.constant + sum(low for low, _ in ends), self.constant + sum(high for _, high in ends)


def open_sizes(shape: Sequence[int | str | None], dimensions: OpenDims) -> dict[str, OpenSize]:
    """Returns the open sizes of a shape, by the texts that stand for them in the shape."""
    names = [dim for dim in shape if isinstance(dim, str)]
    return {dim: size for dim in names if (size := OpenSize.parse(dim, dimensions)) is not None}
