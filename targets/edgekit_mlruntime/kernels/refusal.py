"""What a kernel raises on a case whose result nobody but Core ML knows."""

from __future__ import annotations

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit_mlruntime.registry import Call


def refusal(call: Call, reason: str) -> UnsupportedOpsError:
    """The error that refuses an operation."""
    return UnsupportedOpsError([OpGap(op_type=call.op_type, node=call.name, reason=reason)])
