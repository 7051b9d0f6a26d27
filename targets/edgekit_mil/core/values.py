"""Values while a graph is lowered: constants with ONNX's exact element types, and MIL variables that carry them.

ML Programs compute in float32, float16, int32 and bool. Every ONNX element type has a carrier among them: the value
keeps its ONNX type beside the MIL variable, so that integer semantics can be kept where the carrier is wider.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.operators.hints import fix_sizes_hint
from edgekit_mil.core.mil import Var, mb, types

FLOATS = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE, ir.DataType.BFLOAT16})
SIGNED = frozenset({ir.DataType.INT8, ir.DataType.INT16, ir.DataType.INT32, ir.DataType.INT64})
UNSIGNED = frozenset({ir.DataType.UINT8, ir.DataType.UINT16, ir.DataType.UINT32, ir.DataType.UINT64})
INTEGERS = SIGNED | UNSIGNED
LARGEST_FLOAT32 = float(np.finfo(np.float32).max)
HIGHEST_RANK = 5
"""The most dimensions that Core ML's tensors have."""
LARGEST_UNIFORM = 1024
"""A constant of one repeated number (an array whose strides are all 0) with more than 1024 elements is filled in at
run time."""
FIX_SIZES = fix_sizes_hint()
FOLD = "fix the input shapes so that it folds, or make it an initializer"
HINTS_OF_FIXED_INPUTS = {
    FIX_SIZES: "how many there are depends on what the inputs hold: cut the model before this node with "
    "`edgekit extract`, and do the rest in the app",
    FOLD: "it depends on what the inputs hold: make it an initializer, or cut the model before this node with "
    "`edgekit extract`",
}
"""By hint: the hint that replaces it if no input has an open dimension."""
INT32_RANGE = (-(2**31), 2**31 - 1)


class Unsupported(Exception):  # noqa: N818 - it reports a gap, which only the walk over the graph turns into an error
    """Raised by a lowering that cannot take its node.

    Args:
        reason: Which restriction the node meets.
        hint: What could be done about it.
    """

    def __init__(self, reason: str, hint: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


class Infeasible(Unsupported):
    """Raised where no runtime could run a node: its inputs contradict the operator's definition."""


def shape_in_words(shape: Iterable[Any]) -> str:
    """The sizes as a text, with a question mark for a dynamic dimension."""
    return "×".join(str(size) if isinstance(size, int | np.integer) else "?" for size in shape)


def carrier_name(dtype: ir.DataType) -> str:
    """MIL's name of the element type that carries an ONNX type: ``fp32``, ``int32`` or ``bool``."""
    if dtype in FLOATS:
        return "fp32"
    if dtype in INTEGERS:
        return "int32"
    if dtype is ir.DataType.BOOL:
        return "bool"
    raise Unsupported(f"ML Programs have no tensors of type {dtype.name.lower()}")


def to_carrier(array: np.ndarray, dtype: ir.DataType) -> np.ndarray:
    """A constant in its carrier's NumPy type.

    Raises:
        Unsupported: An integer does not fit int32; it is never saturated.
    """
    name = carrier_name(dtype)
    if name == "fp32":
        return to_float32(array)
    if name == "bool":
        return np.asarray(array, np.bool_)
    array = np.asarray(array)
    if is_beyond_int32(array):
        low, high = int(array.min()), int(array.max())
        worst = low if low < INT32_RANGE[0] else high
        raise Unsupported(f"the {dtype.name.lower()} constant {worst} does not fit int32, Core ML's widest integer")
    return array.astype(np.int32)


def is_beyond_int32(array: np.ndarray) -> bool:
    """Whether the array holds an integer that does not fit int32."""
    if array.dtype.kind not in "iu" or not array.size or array.dtype.itemsize < 4 or array.dtype == np.int32:
        return False
    return int(array.min()) < INT32_RANGE[0] or int(array.max()) > INT32_RANGE[1]


def to_float32(array: np.ndarray) -> np.ndarray:
    """A constant of floats in float32.

    Raises:
        Unsupported: A double is larger than float32's largest number.
    """
    array = np.asarray(array)
    if array.dtype == np.float64:
        largest = float(np.max(np.abs(array), where=np.isfinite(array), initial=0.0))
        if largest > LARGEST_FLOAT32:
            raise Unsupported(f"the double constant {largest:g} does not fit float32, Core ML's widest float")
    return np.asarray(array, np.float32)


@dataclass(frozen=True, eq=False)
class Value:
    """An ONNX value: its element type, and a constant or a MIL variable."""

    dtype: ir.DataType
    constant: np.ndarray | None = None
    """The exact value in ONNX's type, where it is known; ``var`` then makes a MIL constant of it on demand."""
    variable: Var | None = None
    """The MIL variable, where the value is computed. Its type may be narrower than the carrier (int8, uint8).

    If ``constant`` is set, too: the compressed form of the constant, which the program should hold.
    """

    wide_shape: tuple[Any, ...] | None = None
    """Sizes of a tensor of higher rank than Core ML has; in the variable, neighboring fixed dimensions are merged."""

    elements: np.ndarray | None = None
    """For a vector of sizes that the program computes: each size as a number, or as an open dimension's symbol."""

    @property
    def is_constant(self) -> bool:
        """Whether the value is known during the conversion."""
        return self.constant is not None

    @property
    def var(self) -> Var:
        """The value as a MIL variable of the carrier type.

        Raises:
            Unsupported: The rank is too high.
        """
        if self.rank > HIGHEST_RANK:
            raise Unsupported(f"a tensor of rank {self.rank}, Core ML has {HIGHEST_RANK} dimensions at most")
        name = carrier_name(self.dtype)
        if self.variable is None:
            assert self.constant is not None
            if self.constant.size > LARGEST_UNIFORM and not any(self.constant.strides):
                one = self.constant[(slice(0, 1),) * self.constant.ndim].reshape(1)
                return mb.fill(shape=list(self.constant.shape), value=to_carrier(one, self.dtype)[0])
            carried = to_carrier(self.constant, self.dtype)
            return mb.const(val=carried if carried.ndim else carried[()])
        if types.builtin_to_string(self.variable.dtype) == name:
            return self.variable
        return mb.cast(x=self.variable, dtype=name)

    @property
    def operand(self) -> Any:
        """What builder calls take: a constant as a NumPy array of the carrier type, anything else as a variable.

        For weights use ``var``, which keeps them compressed.
        """
        return to_carrier(self.constant, self.dtype) if self.constant is not None else self.var

    @property
    def shape(self) -> tuple[Any, ...]:
        """Sizes; a symbol where a dimension is dynamic."""
        if self.constant is not None:
            return tuple(self.constant.shape)
        if self.wide_shape is not None:
            return self.wide_shape
        assert self.variable is not None
        return tuple(self.variable.shape)

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        """Whether every dimension is a number."""
        return all(isinstance(size, int | np.integer) for size in self.shape)

    @property
    def shape_text(self) -> str:
        """The sizes in words: a question mark where a dimension is dynamic."""
        return shape_in_words(self.shape)

    @property
    def static_shape(self) -> tuple[int, ...]:
        """Sizes as numbers.

        Raises:
            Unsupported: A dimension is dynamic.
        """
        return self.static_sizes(range(self.rank))

    def static_sizes(self, axes: Iterable[int]) -> tuple[int, ...]:
        """Sizes of some dimensions as numbers; others may be dynamic.

        Raises:
            Unsupported: One of them is dynamic.
        """
        sizes = [self.shape[axis] for axis in axes]
        if not all(isinstance(size, int | np.integer) for size in sizes):
            raise Unsupported(f"needs fixed sizes, found {self.shape_text}", FIX_SIZES)
        return tuple(int(size) for size in sizes)

    @property
    def is_float(self) -> bool:
        """Whether the ONNX type is a floating-point type."""
        return self.dtype in FLOATS

    @property
    def is_integer(self) -> bool:
        """Whether the ONNX type is an integer type (bool is not)."""
        return self.dtype in INTEGERS

    def require_constant(self, what: str) -> np.ndarray:
        """The constant.

        Args:
            what: How the operator calls this input, for the message.

        Raises:
            Unsupported: The value is computed at run time.
        """
        if self.constant is None:
            raise Unsupported(
                f"{what} is computed at run time, Core ML needs a constant",
                FOLD,
            )
        return self.constant

    def ints(self, what: str) -> list[int]:
        """The constant as a flat list of integers."""
        return [int(number) for number in self.require_constant(what).reshape(-1)]


@dataclass(frozen=True, eq=False)
class TensorList(Value):
    """A sequence of tensors, known by its length, or an empty optional."""

    items: tuple[Value, ...] | None = None
    """The tensors; None for an optional without a value."""

    @property
    def var(self) -> Var:
        """There is none.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported("programs have neither sequences nor optionals at their inputs and outputs")

    @property
    def shape(self) -> tuple[Any, ...]:
        """There is none.

        Raises:
            Unsupported: Always.
        """
        raise Unsupported("a sequence has no shape")


@dataclass(frozen=True, eq=False)
class CollectedList(TensorList):
    """A sequence of tensors that a loop extends: ``items``, then tensors whose number is known only at run time."""

    rows: Value | None = None
    """The tensors that the loop has added, along a new first axis."""


def computed(var: Var, dtype: ir.DataType) -> Value:
    """A value that the program computes."""
    return Value(dtype, variable=var)


def constant(array: np.ndarray, dtype: ir.DataType | None = None) -> Value:
    """A value that is known; the type is the array's unless another is given (``bfloat16`` kept as float32, say)."""
    array = np.asarray(array)
    return Value(dtype or ir.DataType.from_numpy(array.dtype), constant=array)
