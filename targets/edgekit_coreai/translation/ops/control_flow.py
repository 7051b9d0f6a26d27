"""Branches and loops."""

from __future__ import annotations

from typing import Any

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor, element_type
from edgekit_mlruntime.program import ListType, TensorType


@lowering("cond")
def cond(b: Builder, call: Call, pred: Tensor) -> tuple[Any, ...]:
    """The outputs of the first block if ``pred`` is True, else those of the second block."""
    kinds = [_kind(declared) for declared in call.outputs]
    return tuple(b.condition(b.reshape(pred, []), kinds, [lambda: call.blocks[0]([]), lambda: call.blocks[1]([])]))


def _kind(declared: Any) -> tuple[tuple[int | None, ...], Any]:
    if isinstance(declared, ListType):
        shape, dtype = _kind(declared.element)
        return (None, *shape), dtype
    if not isinstance(declared, TensorType) or declared.shape is None:
        raise CannotTranslate("values that are not tensors of known rank")
    return declared.shape, element_type(declared.dtype)


@lowering("while_loop")
def while_loop(b: Builder, call: Call, loop_vars: list[Any]) -> tuple[Any, ...]:
    """Replace the loop variables by the outputs of the second block while the first block returns True for them."""
    if not all(isinstance(item, Tensor) for item in loop_vars):
        raise CannotTranslate("loop variables that are not tensors")
    kinds = [_kind(declared) for declared in call.outputs]
    results = b.loop(
        loop_vars,
        kinds,
        lambda values: b.reshape(call.blocks[0](values)[0], []),
        lambda values: call.blocks[1](values),
    )
    return tuple(results)
