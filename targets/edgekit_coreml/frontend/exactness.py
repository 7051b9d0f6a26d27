"""Operations that float16 would make wrong rather than imprecise: they bear a name, and stay in float32."""

from __future__ import annotations

from typing import Any

EXACT = "exact_integers"
"""What the names of operations on integers beyond 2 ** 11 begin with."""


def stays_exact(operation: Any) -> bool:
    """Whether an operation has to stay in float32: it is named so, or holds the weights of one that is."""
    if operation.op_type.startswith("constexpr_"):
        readers = [reader for var in operation.outputs for reader in var.child_ops]
        return bool(readers) and all(map(stays_exact, readers))
    return str(operation.name).startswith(EXACT)
