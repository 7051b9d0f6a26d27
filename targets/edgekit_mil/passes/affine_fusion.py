"""Fuses scales and offsets of channels into the convolutions and matrix products before them.

coremltools 9.0 has passes for this that cannot be used. They turn a constant divided by a convolution into a product,
and a constant minus a matrix product into a difference with the wrong sign; after transposed convolutions of several
groups they scale the wrong channels; and they fail on a constant that is subtracted from a convolution, on transposed
convolutions of three dimensions, and on products that are outputs as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Program, block_context_manager, mb, types

CONVOLUTIONS = ("conv", "conv_transpose")
PRODUCTS = ("linear", "matmul")


@dataclass(frozen=True)
class Affine:
    """An operation on each channel: ``scale * x + shift``, both [C] in float64."""

    scale: np.ndarray
    shift: np.ndarray


def fuse_affine_operations(program: Program) -> None:
    """Put constant scales and offsets of channels into the weights of the operations before them, in place."""
    for function in program.functions.values():
        _fuse(function)


@block_context_manager  # type: ignore[untyped-decorator]  # coremltools has no types
def _fuse(block: Any) -> None:
    for operation in list(block.operations):
        for inner in operation.blocks:
            _fuse(inner)
        fused = operation if operation.op_type in CONVOLUTIONS + PRODUCTS else None
        while fused is not None:
            fused = _with_next(block, fused)


def _with_next(block: Any, operation: Any) -> Any | None:
    """Replaces an operation and the one after it by one that does both, and returns it; None if that is impossible."""
    result = operation.outputs[0]
    if result in block.outputs or len(result.child_ops) != 1 or result.child_ops[0].enclosing_block is not block:
        return None
    follower = result.child_ops[0]
    affine = affine_of(follower, result, channel_axis=1 if operation.op_type in CONVOLUTIONS else result.rank - 1)
    if affine is None or not types.is_float(result.dtype):
        return None
    parameters = (
        _convolution_parameters(operation, affine)
        if operation.op_type in CONVOLUTIONS
        else _product_parameters(operation, affine)
    )
    if parameters is None:
        return None
    name = follower.outputs[0].name
    dropped = ("weight", "bias", "y", "transpose_x", "transpose_y")
    kept = {key: value for key, value in operation.inputs.items() if key not in dropped}
    constants = {
        key: mb.const(val=value, before_op=operation, name=f"{name}_{key}") if isinstance(value, np.ndarray) else value
        for key, value in parameters.items()
    }
    build = getattr(mb, "linear" if operation.op_type in PRODUCTS else operation.op_type)
    new = build(**kept, **constants, before_op=operation, name=name)
    if not block.try_replace_uses_of_var_after_op(anchor_op=follower, old_var=follower.outputs[0], new_var=new):
        block.remove_ops([new.op])
        return None
    block.remove_ops([operation, follower])
    return new.op


def _convolution_parameters(convolution: Any, affine: Affine) -> Mapping[str, Any] | None:
    """Returns the new weights and bias, as NumPy arrays if they change; None if the old ones are not known."""
    weight, bias = convolution.weight, convolution.bias
    if bias is not None and bias.val is None:
        return None
    offset = np.zeros(affine.scale.size) if bias is None else bias.val.astype(np.float64)
    new_bias = (offset * affine.scale + affine.shift).astype(np.float32)
    if np.all(affine.scale == 1):
        return {"weight": weight, "bias": new_bias}
    if not _is_constant(weight):
        return None
    new_weight = (weight.val * _along_weights(affine.scale, convolution)).astype(np.float32)
    if not (np.isfinite(new_weight).all() and np.isfinite(new_bias).all()):
        return None
    return {"weight": new_weight, "bias": new_bias}


def _product_parameters(product: Any, affine: Affine) -> Mapping[str, Any] | None:
    """The weights [M, C] and bias [M] of a ``linear`` with the offset added; None if the product cannot become one."""
    if not np.all(affine.scale == 1):
        return None
    if product.op_type == "linear":
        bias = product.bias
        if bias is not None and bias.val is None:
            return None
        offset = 0.0 if bias is None else bias.val.astype(np.float64)
        return {"weight": product.weight, "bias": (offset + affine.shift).astype(np.float32)}
    matrix = product.y
    shared = len(matrix.child_ops) > 1  # another operation reads it, too: a copy would store it twice
    if product.transpose_x.val or not _is_constant(matrix) or matrix.rank != 2 or product.x.rank < 2 or shared:
        return None
    weight = matrix.val if product.transpose_y.val else np.ascontiguousarray(matrix.val.T)
    return {"weight": weight, "bias": affine.shift.astype(np.float32)}


def _is_constant(var: Any) -> bool:
    """Whether a variable is a plain constant, not one that is stored compressed."""
    return var.val is not None and var.op.op_type == "const"


def _along_weights(scale: np.ndarray, convolution: Any) -> np.ndarray:
    """Factors of output channels [M], in a shape that broadcasts with the weights.

    Weights are [M, C / groups, *D]; transposed ones [C, M / groups, *D], where the first C / groups rows belong to the
    first M / groups output channels, and so on.
    """
    weight_shape = convolution.weight.shape
    ones = (1,) * (len(weight_shape) - 2)
    if convolution.op_type == "conv":
        return scale.reshape(-1, 1, *ones)
    groups = int(convolution.groups.val)
    rows = np.repeat(scale.reshape(groups, -1), weight_shape[0] // groups, axis=0)
    return rows.reshape(*rows.shape, *ones)


def affine_of(operation: Any, source: Any, channel_axis: int) -> Affine | None:
    """Returns the scale and shift that an operation applies to each channel; None if it does anything else."""
    channels = source.shape[channel_axis]
    if operation.op_type == "batch_norm":
        return _of_batch_norm(operation, channels) if channel_axis == 1 else None
    if operation.op_type not in ("add", "sub", "mul", "real_div"):
        return None
    first = operation.x is source
    constant = per_channel(operation.y if first else operation.x, source, channel_axis)
    if constant is None:
        return None
    zeros, ones = np.zeros(channels), np.ones(channels)
    if operation.op_type == "add":
        return Affine(ones, constant)
    if operation.op_type == "sub":
        return Affine(ones, -constant) if first else Affine(-ones, constant)
    if operation.op_type == "mul":
        return Affine(constant, zeros)
    return Affine(1 / constant, zeros) if first and np.all(constant != 0) else None


def _of_batch_norm(operation: Any, channels: int) -> Affine | None:
    """``gamma * (x - mean) / sqrt(variance + epsilon) + beta``."""
    given = {key: operation.inputs.get(key) for key in ("mean", "variance", "gamma", "beta")}
    if any(var is not None and var.val is None for var in given.values()):
        return None
    defaults = {"gamma": np.ones(channels), "beta": np.zeros(channels)}
    values = {key: defaults[key] if var is None else var.val.astype(np.float64) for key, var in given.items()}
    spread = np.sqrt(values["variance"] + float(operation.epsilon.val))
    if not np.all(spread > 0):
        return None
    scale = values["gamma"] / spread
    return Affine(scale, values["beta"] - values["mean"] * scale)


def per_channel(var: Any, source: Any, channel_axis: int) -> np.ndarray | None:
    """Returns a constant that varies along the channels of a tensor only, as [C] in float64; None for any other."""
    if var.val is None or not isinstance(source.shape[channel_axis], int | np.integer):
        return None
    value = np.asarray(var.val, np.float64)
    if value.ndim > source.rank:
        return None
    channels = int(source.shape[channel_axis])
    shape = (1,) * (source.rank - value.ndim) + value.shape
    others = shape[:channel_axis] + shape[channel_axis + 1 :]
    if any(size != 1 for size in others) or shape[channel_axis] not in (1, channels):
        return None
    return np.broadcast_to(value.reshape(-1), (channels,)).copy()
