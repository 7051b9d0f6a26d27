"""Conditions and loops."""

from __future__ import annotations

from typing import Any

from edgekit_mlruntime.registry import Call, kernel


@kernel("cond", raw=True)
def cond(call: Call, pred: bool) -> tuple[Any, ...]:
    """Returns the outputs of the first block if ``pred`` is True, else those of the second block."""
    return tuple(call.run_block(0 if pred else 1))


@kernel("while_loop", raw=True)
def while_loop(call: Call, loop_vars: list[Any]) -> tuple[Any, ...]:
    """Replace the loop variables by the outputs of the second block while the first block returns True for them."""
    while call.run_block(0, loop_vars)[0].item():
        loop_vars = call.run_block(1, loop_vars)
    return tuple(loop_vars)
