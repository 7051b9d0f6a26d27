"""Weights that a graph stores in 8 bits and turns into floats by Cast, Sub, Mul and the like: they stay in 8 bits.

Such nodes are folded as any others are. Beside the folded constant, the value gets the operation that decompresses the
weights when the model loads, which is what the program then holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Value
from edgekit_mil.support.linear_quantization import EIGHT_BITS, LEAST_COMPRESSED


@dataclass(frozen=True)
class Stored:
    """``(levels - zero) * scale``."""

    levels: np.ndarray
    """8-bit integers."""
    scale: np.ndarray
    """A scalar, or a vector along the axis."""
    zero: np.ndarray
    """A scalar, or a vector along the axis, in the levels' type."""
    axis: int

    @classmethod
    def of(cls, value: Value) -> Stored | None:
        """What a value is stored as; None where it is not, or in another way."""
        operation = None if value.variable is None or value.constant is None else value.variable.op
        if operation is None or operation.op_type != "constexpr_affine_dequantize":
            return None
        parts = (operation.quantized_data, operation.scale, operation.zero_point, operation.axis)
        levels, scale, zero, axis = (np.asarray(part.val) for part in parts)
        return cls(levels, scale, zero, int(axis))

    def scaled(self, factor: np.ndarray) -> Stored | None:
        """Times a constant that is a scalar or varies along one axis; None where the scales' axis is another."""
        along = self._along(factor)
        if along is None:
            return None
        axis, vector = along
        return replace(self, scale=(self.scale * vector).astype(np.float32), axis=axis)

    def less(self, offset: np.ndarray) -> Stored | None:
        """Less a constant that is a whole number of steps; None where it is not."""
        along = self._along(offset)
        if along is None:
            return None
        axis, vector = along
        zero = self.zero.astype(np.float32) + vector / self.scale
        limits = np.iinfo(self.levels.dtype)
        if not np.array_equal(zero, np.rint(zero)) or zero.min() < limits.min or zero.max() > limits.max:
            return None
        return replace(self, zero=zero.astype(self.levels.dtype), axis=axis)

    def transposed(self, order: Sequence[int]) -> Stored:
        """With its axes in another order."""
        return replace(self, levels=self.levels.transpose(order), axis=list(order).index(self.axis))

    def reshaped(self, shape: Sequence[int]) -> Stored | None:
        """In another shape; None where slices have scales of their own."""
        return (
            replace(self, levels=self.levels.reshape(shape), axis=0)
            if not (self.scale.ndim or self.zero.ndim)
            else None
        )

    def decompression(self) -> Var:
        """The operation that makes floats of it."""
        scale, zero = self.scale, self.zero
        if scale.ndim and not zero.ndim:
            zero = np.broadcast_to(zero, scale.shape).copy()
        elif zero.ndim and not scale.ndim:
            scale = np.broadcast_to(scale, zero.shape).copy()
        return mb.constexpr_affine_dequantize(
            quantized_data=np.ascontiguousarray(self.levels),
            zero_point=zero.astype(self.levels.dtype),
            scale=scale.astype(np.float32),
            axis=np.int32(self.axis),
        )

    def _along(self, operand: np.ndarray) -> tuple[int, np.ndarray] | None:
        """The axis along which an operand that broadcasts to the levels varies, and its numbers."""
        if operand.size == 1:
            return self.axis, np.asarray(operand, np.float32).reshape(())
        sizes = (1,) * (self.levels.ndim - operand.ndim) + operand.shape
        axes = [axis for axis, size in enumerate(sizes) if size != 1]
        is_vector = self.scale.ndim > 0 or self.zero.ndim > 0
        if len(sizes) != self.levels.ndim or len(axes) != 1 or sizes[axes[0]] != self.levels.shape[axes[0]]:
            return None
        if is_vector and axes[0] != self.axis:
            return None
        return axes[0], np.asarray(operand, np.float32).reshape(-1)


def kept(node: ir.Node, inputs: Sequence[Value | None], result: Value) -> Value:
    """A folded result with the operation that holds it in 8 bits, where its inputs are held so."""
    if result.constant is None or result.dtype is not ir.DataType.FLOAT or result.constant.size < LEAST_COMPRESSED:
        return result
    stored = _folded(node, inputs, result.constant)
    if stored is None or stored.levels.shape != result.constant.shape:
        return result
    return replace(result, variable=stored.decompression())


def _folded(node: ir.Node, inputs: Sequence[Value | None], result: np.ndarray) -> Stored | None:
    first = inputs[0] if inputs else None
    if first is None or first.constant is None:
        return None
    if node.op_type == "Cast" and first.dtype in EIGHT_BITS:
        one, none = np.float32(1), np.zeros((), first.constant.dtype)
        return Stored(first.constant, np.asarray(one), none, 0)
    stored = Stored.of(first)
    second = inputs[1] if len(inputs) > 1 else None
    if node.op_type in ("Mul", "Add") and stored is None and second is not None:
        first, second, stored = second, first, Stored.of(second)
    if stored is None:
        return None
    if node.op_type == "Transpose":
        order = node.attributes.get_ints("perm", range(stored.levels.ndim)[::-1])
        return stored.transposed(order)
    if node.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return stored.reshaped(result.shape)
    if node.op_type == "Identity":
        return stored
    if second is None or second.constant is None:
        return None
    if node.op_type == "Mul":
        return stored.scaled(second.constant)
    if node.op_type == "Div":
        return stored.scaled(1 / second.constant) if np.all(second.constant) else None
    if node.op_type == "Sub":
        return stored.less(second.constant)
    if node.op_type == "Add":
        return stored.less(-second.constant)
    return None
