"""The error that a kernel raises for a case whose result Core ML does not document."""

from __future__ import annotations

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit_mlruntime.registry import Call


def refusal(call: Call, reason: str) -> UnsupportedOpsError:
    """Returns the error that refuses an operation for the given reason."""
    return UnsupportedOpsError([OpGap(op_type=call.op_type, node=call.name, reason=reason)])
