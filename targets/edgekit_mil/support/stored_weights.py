"""Constants that a program holds in 8 bits, and what can be computed from them without converting them to floats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Value


@dataclass(frozen=True)
class Stored:
    """8-bit weights with the values ``(levels - zero) * scale``."""

    levels: np.ndarray
    """8-bit integers."""
    scale: np.ndarray
    """A scalar, or a vector along the axis."""
    zero: np.ndarray
    """A scalar, or a vector along the axis, in the levels' type."""
    axis: int

    @classmethod
    def of(cls, value: Value) -> Stored | None:
        """Returns the 8-bit form in which a value is stored; None if it is not stored, or in another form."""
        operation = None if value.variable is None or value.constant is None else value.variable.op
        if operation is None or operation.op_type != "constexpr_affine_dequantize":
            return None
        parts = (operation.quantized_data, operation.scale, operation.zero_point, operation.axis)
        levels, scale, zero, axis = (np.asarray(part.val) for part in parts)
        return cls(levels, scale, zero, int(axis))

    def scaled(self, factor: np.ndarray) -> Stored | None:
        """The product with a constant that is a scalar or varies along one axis; None if scales vary along another."""
        along = self._along(factor)
        if along is None:
            return None
        axis, vector = along
        return replace(self, scale=(self.scale * vector).astype(np.float32), axis=axis)

    def less(self, offset: np.ndarray) -> Stored | None:
        """The weights minus a constant; None if it is not a whole number of steps, or zero points would not fit."""
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
        """The weights with their axes in another order."""
        return replace(self, levels=self.levels.transpose(order), axis=list(order).index(self.axis))

    def reshaped(self, shape: Sequence[int]) -> Stored | None:
        """The weights in another shape; None if slices have separate scales or zero points."""
        return (
            replace(self, levels=self.levels.reshape(shape), axis=0)
            if not (self.scale.ndim or self.zero.ndim)
            else None
        )

    def at(self, index: int) -> Stored:
        """The weights at an index of the first axis."""
        if self.axis:
            return replace(self, levels=self.levels[index], axis=self.axis - 1)
        scale, zero = (part[index] if part.ndim else part for part in (self.scale, self.zero))
        return Stored(self.levels[index], np.asarray(scale), np.asarray(zero), 0)

    def rows(self, order: Sequence[int]) -> Stored:
        """The weights at some indices of the first axis, in the given order."""
        levels = self.levels[list(order)]
        if self.axis:
            return replace(self, levels=levels)
        scale, zero = (part[list(order)] if part.ndim else part for part in (self.scale, self.zero))
        return Stored(levels, scale, zero, 0)

    def values(self) -> np.ndarray:
        """The weights in float32."""
        along = [-1 if axis == self.axis else 1 for axis in range(self.levels.ndim)]
        scale, zero = (part.astype(np.float32).reshape(along if part.ndim else ()) for part in (self.scale, self.zero))
        return np.asarray((self.levels.astype(np.float32) - zero) * scale)

    def decompression(self) -> Var:
        """Returns the operation that decompresses the weights to floats."""
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
