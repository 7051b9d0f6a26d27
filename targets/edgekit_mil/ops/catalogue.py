"""The lowerings by domain, operator and schema version: the one list that says what converts."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from edgekit_mil import ops
from edgekit_mil.core.registry import Lowering, registered


@cache
def lowerings() -> Mapping[tuple[str, str, int], Lowering]:
    """Returns every lowering by domain, operator and version, after importing every file of lowerings."""
    for module in pkgutil.walk_packages(ops.__path__, prefix=f"{ops.__name__}."):
        importlib.import_module(module.name)
    return registered


def find(domain: str, op_type: str, version: int) -> Lowering | None:
    """The lowering of an operator at a schema version; None if there is none."""
    return lowerings().get((domain, op_type, version))


def known_versions(domain: str, op_type: str) -> Sequence[int]:
    """The schema versions of an operator that convert."""
    return sorted(version for d, op, version in lowerings() if (d, op) == (domain, op_type))


def all_lowerings() -> Iterator[Lowering]:
    """Every registered lowering, by domain and operator."""
    for _, entry in sorted(lowerings().items()):
        yield entry
