"""Operations that float16 would make wrong rather than imprecise: they stay in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

EXACT = "exact_integers"
"""What the names of operations on integers beyond 2 ** 11 begin with."""

SMALLEST_NORMAL_HALF = float(np.finfo(np.float16).tiny)


def stays_exact(operation: Any) -> bool:
    """Whether an operation has to stay in float32.

    That is one that is named so, one that holds the weights of such, and a quantization with a scale that float16 has
    not or only a few bits of.
    """
    if operation.op_type.startswith("constexpr_"):
        readers = [reader for var in operation.outputs for reader in var.child_ops]
        return bool(readers) and all(map(stays_exact, readers))
    if operation.op_type in ("quantize", "dequantize"):
        return bool(np.min(operation.scale.val) < SMALLEST_NORMAL_HALF)
    return str(operation.name).startswith(EXACT)
