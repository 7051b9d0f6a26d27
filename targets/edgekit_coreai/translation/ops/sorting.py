"""Sorting along an axis."""

from __future__ import annotations

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, lowering
from edgekit_coreai.translation.tensors import Tensor


@lowering("argsort")
def argsort(b: Builder, call: Call, x: Tensor, axis: int = -1, ascending: bool = False) -> Tensor:
    """Indices that sort ``x`` along an axis; equal elements keep their order."""
    return b.argsort(x, axis, descending=not ascending)


@lowering("topk")
def topk(
    b: Builder,
    call: Call,
    x: Tensor,
    k: Tensor | None = None,
    axis: int = -1,
    ascending: bool = False,
    sort: bool = True,
    return_indices: bool = True,
    output_indices_dtype: str = "int32",
) -> tuple[Tensor, ...]:
    """The ``k`` greatest (if ascending: least) elements along an axis and their indices, sorted; all for ``k = -1``."""
    axis %= x.rank
    order = b.argsort(x, axis, descending=not ascending)
    if k is not None and k.array is None:
        raise CannotTranslate("its input k is computed by the model")
    count = 1 if k is None or k.array is None else int(k.array.reshape(-1)[0])
    if count != -1:
        order = b.narrow(order, axis, 0, count)
    values = b.along_axis(x, order, axis)
    return (values, order) if return_indices else (values,)
