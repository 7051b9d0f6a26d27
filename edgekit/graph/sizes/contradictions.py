"""Arrays that contradict the names of dimensions: two sizes for one name, or a size other than an expression's."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from edgekit.graph.sizes.shape_request import FixedSizes, terms
from edgekit.model import ValueSpec


@dataclass(frozen=True)
class Contradiction:
    """A dimension whose size differs from the one that other inputs require."""

    dimension: str
    """The dimension's name, or an expression such as ``past + sequence``."""
    input: str
    size: int
    wanted: int
    source: str
    """Where the wanted size comes from, in words."""

    @property
    def expected(self) -> str:
        """The size that would be right, and where it comes from."""
        return f"{self.wanted} in input {self.input!r}, {self.source}"


def contradiction(
    specs: Sequence[ValueSpec], shapes: Mapping[str, Sequence[int]], dims: Collection[str] | None = None
) -> Contradiction | None:
    """Returns the first dimension whose size differs from what other inputs require, or None if all sizes agree.

    Args:
        specs: The inputs.
        shapes: The shapes of the arrays by input name; inputs that are not named, or of another rank, are left out.
        dims: The dimensions to look at; None for all of them.
    """
    known: dict[str, tuple[int, str]] = {}
    sums: list[tuple[str, str, int]] = []
    names = frozenset(dim for spec in specs for dim in spec.shape or () if isinstance(dim, str))
    for spec in specs:
        for dim, size in zip(spec.shape or (), shapes.get(spec.name, ()), strict=False):
            if not isinstance(dim, str) or (dims is not None and dim not in dims):
                continue
            if terms(dim) != {dim} and terms(dim) <= names:
                sums.append((dim, spec.name, size))
                continue
            wanted, where = known.setdefault(dim, (size, spec.name))
            if wanted != size:
                return Contradiction(dim, spec.name, size, wanted, f"as in input {where!r}")
    sizes = FixedSizes({dim: size for dim, (size, _) in known.items()}, names)
    for dim, name, size in sums:
        total = sizes.put_in(dim)
        if isinstance(total, int) and total != size:
            parts = ", ".join(f"{part} is {known[part][0]} in input {known[part][1]!r}" for part in sorted(terms(dim)))
            return Contradiction(dim, name, size, total, f"where {parts}")
    return None
