"""Stores weights in fewer bits than the program computes in: integers scaled by block, or indices into a palette."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from edgekit_mil.core.mil import Program, Var, block_context_manager, ct, mb, types
from edgekit_mil.passes.palette import palette

LEAST_ELEMENTS = 1024
"""Constants of fewer elements are not compressed: the room saved is not worth the loss."""
BLOCK = 32
"""Number of neighbors along the summed axis that share a scale in blockwise compression, if it divides the length."""


@dataclass(frozen=True)
class Axes:
    """The axes of a weight: along ``result`` are its results, along ``summed`` the entries that are summed over."""

    result: int
    summed: int


class Encode(Protocol):
    """Inserts an operation that computes the weights in front of the constant that held them."""

    def __call__(self, weight: Var, axes: Axes, target: ct.target) -> Var:
        """Returns the operation's result, which has the constant's shape and type."""


@dataclass(frozen=True)
class Scheme:
    """One way of compression."""

    bits: int
    encode: Encode


def blockwise_int4(weight: Var, axes: Axes, target: ct.target) -> Var:
    """Encodes as whole numbers from -7 to 7, times a scale for each result and block of summed entries."""
    weights = weight.val
    shape = [1] * weights.ndim
    shape[axes.result] = weights.shape[axes.result]
    length = weights.shape[axes.summed]
    if length % BLOCK == 0:
        shape[axes.summed] = length // BLOCK
    split = [part for blocks, size in zip(shape, weights.shape, strict=True) for part in (blocks, size // blocks)]
    largest = np.abs(weights.astype(np.float64)).reshape(split).max(axis=tuple(range(1, 2 * weights.ndim, 2)))
    scale = (largest / 7).astype(weights.dtype)
    scale[scale == 0] = 1
    spread = scale
    for axis, (blocks, size) in enumerate(zip(shape, weights.shape, strict=True)):
        spread = np.repeat(spread, size // blocks, axis=axis)
    integers = np.clip(np.rint(weights.astype(np.float64) / spread), -7, 7)
    return mb.constexpr_blockwise_shift_scale(
        data=integers.astype(types.np_int4_dtype), scale=scale, before_op=weight.op
    )


def palettized(bits: int) -> Encode:
    """Encodes as indices of N bits into one palette per tensor; from iOS 18 on each result also has a scale."""

    def encode(weight: Var, axes: Axes, target: ct.target) -> Var:
        weights = weight.val
        if target < ct.target.iOS18:
            levels, indices = palette(weights, 2**bits)
            each = np.unpackbits(indices.reshape(-1, 1), axis=1, count=bits, bitorder="little")
            packed = np.packbits(each.reshape(-1), bitorder="little")
            return mb.constexpr_lut_to_dense(
                indices=packed,
                lut=levels.astype(weights.dtype),
                shape=np.array(weights.shape, np.uint32),
                before_op=weight.op,
            )
        others = tuple(axis for axis in range(weights.ndim) if axis != axes.result)
        scale = np.sqrt(np.mean(np.square(weights, dtype=np.float64), axis=others, keepdims=True)).astype(weights.dtype)
        scale[scale == 0] = 1
        levels, indices = palette(weights / scale.astype(np.float64), 2**bits)
        dtype = types.nptype_from_builtin(types.string_to_builtin(f"uint{bits}"))
        alike = mb.constexpr_lut_to_dense(
            indices=indices.astype(dtype),
            lut=levels.astype(weights.dtype).reshape(*[1] * weights.ndim, len(levels), 1),
            before_op=weight.op,
        )
        return mb.constexpr_blockwise_shift_scale(data=alike, scale=scale, before_op=weight.op)

    return encode


SCHEMES = {
    "int4-weights": Scheme(4, blockwise_int4),
    "palette4": Scheme(4, palettized(4)),
    "palette6": Scheme(6, palettized(6)),
    "palette8": Scheme(8, palettized(8)),
}


def compress(program: Program, scheme: str, target_name: str) -> list[str]:
    """Compress the weights of a program, in place.

    Args:
        program: The program, its weights in the types that it computes in.
        scheme: One of :data:`SCHEMES` that the deployment target has.
        target_name: The deployment target by coremltools' name.

    Returns:
        The names of the operations whose weights have been compressed.
    """
    compressed: list[str] = []
    for function in program.functions.values():
        _compress(function, SCHEMES[scheme], ct.target[target_name], compressed)
    program.validate()
    return compressed


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def _compress(block: Any, scheme: Scheme, target: ct.target, compressed: list[str]) -> None:
    for operation in list(block.operations):
        for inner in operation.blocks:
            _compress(inner, scheme, target, compressed)
        if operation.op_type != "const" or operation.outputs[0] in block.outputs:
            continue
        weight = operation.outputs[0]
        axes = weight_axes(weight)
        if axes is None or weight.val.size < LEAST_ELEMENTS or not np.isfinite(weight.val).all():
            continue
        if weight.val.size * (8 * weight.val.itemsize - scheme.bits) <= 8 * weight.val.itemsize * 2**scheme.bits:
            continue  # the palette would outweigh what it saves
        small = scheme.encode(weight, axes, target)
        users = [user.name for user in weight.child_ops]
        if block.try_replace_uses_of_var_after_op(anchor_op=small.op, old_var=weight, new_var=small):
            block.remove_ops([operation])
            compressed.extend(users)


def weight_axes(weight: Var) -> Axes | None:
    """Returns the axes of a constant that all of its readers use as a weight; None for any other constant."""
    if not isinstance(weight.val, np.ndarray) or weight.val.dtype not in (np.float16, np.float32):
        return None
    found = {_axes_in(user, weight) for user in weight.child_ops}
    return next(iter(found)) if len(found) == 1 else None


def _axes_in(user: Any, weight: Var) -> Axes | None:
    kind, rank = user.op_type, len(weight.shape)
    if kind in ("conv", "linear") and user.weight is weight:
        return Axes(0, 1)
    if kind == "conv_transpose" and user.weight is weight:
        return Axes(1, 0)
    if kind in ("lstm", "gru", "rnn") and any(
        user.inputs.get(name) is weight for name in ("weight_ih", "weight_hh", "weight_ih_back", "weight_hh_back")
    ):
        return Axes(0, 1)
    if kind == "matmul" and rank > 1 and user.y is weight and user.x is not weight:
        turned = user.transpose_y is not None and bool(user.transpose_y.val)
        return Axes(rank - 2, rank - 1) if turned else Axes(rank - 1, rank - 2)
    if kind == "gather" and rank == 2 and user.x is weight and user.axis.val == 0:
        return Axes(0, 1)
    return None
