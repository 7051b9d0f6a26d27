"""What a lowering is, and how one is registered.

A lowering is a function from ONNX inputs and attributes to MIL operations:

    @lowering("LeakyRelu", versions=[6, 16])
    def leaky_relu(ctx: Context, x: Value, *, alpha: float = 0.01) -> Var:
        return mb.leaky_relu(x=x.var, alpha=alpha)

Positional parameters are the operator's inputs in their order (an input left out is None, ``*xs`` takes a variadic
one); keyword-only parameters are its attributes by name. An attribute that the signature does not name makes the node
a gap: nothing is dropped silently. ``versions`` are the schema versions (`since_version`) that the function was
written for; a newer schema is a gap until somebody has read what it changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

LoweringFunction = Callable[..., Any]


@dataclass(frozen=True)
class Lowering:
    """One registered function, for some schema versions of one operator."""

    domain: str
    op_type: str
    versions: tuple[int, ...]
    function: LoweringFunction
    note: str
    """Restrictions, for the table of operators in the docs."""
    elementwise: bool
    """Whether an element of the result depends only on the inputs' elements at the same place, after broadcasting."""

    @property
    def refuses(self) -> bool:
        """Whether the function never returns: it is registered only to say why there can be no lowering."""
        return inspect.signature(self.function).return_annotation in (NoReturn, "NoReturn")

    @property
    def attributes(self) -> frozenset[str] | None:
        """Names of the attributes that the function takes; None if it takes any, as one does that only refuses."""
        parameters = inspect.signature(self.function).parameters.values()
        if any(p.kind is p.VAR_KEYWORD for p in parameters):
            return None
        return frozenset(p.name for p in parameters if p.kind is p.KEYWORD_ONLY)

    @property
    def most_inputs(self) -> int | None:
        """How many inputs the function takes at most; None if any number."""
        parameters = list(inspect.signature(self.function).parameters.values())[1:]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            return None
        return sum(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


registered: dict[tuple[str, str, int], Lowering] = {}
"""Registered lowerings by domain, operator and version, from the imported files of :mod:`edgekit_mil.ops`."""


def lowering(
    *op_types: str, versions: Iterable[int], domain: str = "", note: str = "", elementwise: bool = False
) -> Callable[[LoweringFunction], LoweringFunction]:
    """Register a function as the lowering of operators.

    Args:
        op_types: The operators; several if the function distinguishes them by ``ctx.op_type``.
        versions: The schema versions that it was written for.
        domain: The operators' domain; empty for the standard one.
        note: Restrictions, in words for the user.
        elementwise: Whether the function computes element by element, so that neighboring dimensions may be merged.
    """
    known = tuple(versions)

    def register(function: LoweringFunction) -> LoweringFunction:
        for op_type in op_types:
            entry = Lowering(domain, op_type, known, function, note, elementwise)
            for version in known:
                key = (domain, op_type, version)
                if key in registered:
                    raise ValueError(f"{domain or 'ai.onnx'}.{op_type} version {version} is registered twice")
                registered[key] = entry
        return function

    return register
