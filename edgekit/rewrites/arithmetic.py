"""Arithmetic that runtimes lack for some types, or compute in a form that overflows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial, reduce
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input
from edgekit.graph.simplification.known_optionals import GET, HAS, NotKnownError, element_asked_for
from edgekit.rewrite import InapplicableError, Rewrite

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)
MOST_CUMULATED = 4096
MASK_IS_BOOLEAN = 10
"""Since this opset the mask of Dropout holds true and false, and no numbers of the input's type."""
MASK_KEEPS = 12
"""Since this opset the mask of Dropout is true where an element is kept."""
EQUAL_TAKES_FLOATS = 11
"""Since this opset Equal takes floats."""
PARTS = 3
"""The number of shifts that one of up to 63 places is made of, so that the factor of each is far below 2^31."""
VECTOR = 16
"""Numbers of 32 bits in the widest vectors of today's processors (AVX-512)."""


def shape_of(value: ir.Value | None) -> tuple[int, ...]:
    """A value's sizes.

    Raises:
        InapplicableError: The sizes are not fixed.
    """
    if value is None or value.shape is None or not value.shape.is_static():
        raise InapplicableError("the shape of its input is not fixed")
    return tuple(int(size) for size in value.shape.numpy())


def rank_of(value: ir.Value | None) -> int:
    """How many axes a value has.

    Raises:
        InapplicableError: The number of axes is not known.
    """
    if value is None or value.shape is None:
        raise InapplicableError("how many axes its input has is not known")
    return value.shape.rank()


def size_along(value: ir.Value | None, axis: int) -> int:
    """A value's size along one axis, where those along others may be open.

    Raises:
        InapplicableError: The size along the axis is not fixed.
    """
    rank = rank_of(value)
    assert value is not None
    assert value.shape is not None
    size = value.shape[axis % rank]
    if not isinstance(size, int):
        raise InapplicableError(f"the size of its input along axis {axis % rank} is not fixed")
    return size


def kept_sizes(value: ir.Value | None, axes: Iterable[int]) -> list[int]:
    """Returns what ``Reshape`` takes to keep leading axes: their sizes, and for open ones 0, which keeps the size.

    Raises:
        InapplicableError: How many axes the value has is not known.
    """
    rank_of(value)
    assert value is not None
    assert value.shape is not None
    sizes = [value.shape[axis] for axis in axes]
    return [size if isinstance(size, int) else 0 for size in sizes]


def typed(value: ir.Value | None) -> tuple[ir.Value, ir.DataType]:
    """A value with its type.

    Raises:
        InapplicableError: Its type is not known.
    """
    if value is None or value.dtype is None:
        raise InapplicableError("the type of its input is not known")
    return value, value.dtype


class FloatRemainder(Rewrite):
    """``Mod`` of floating-point numbers with the divisor's sign (``fmod`` 0): the dividend less whole divisors."""

    name: ClassVar[str] = "remainder by floor"
    op_types: ClassVar[Sequence[str]] = ("Mod",)

    def matches(self, node: ir.Node) -> bool:
        """Whether numbers are floating-point, and the result has the divisor's sign."""
        value = node.inputs[0]
        return value is not None and value.dtype in _FLOATS and node.attributes.get_int("fmod", 0) == 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the exact remainder of C, plus the divisor where the signs differ."""
        x, y = node.inputs
        assert x is not None
        assert x.dtype is not None
        bounded = build("Where", build("IsInf", y), np.ones((), x.dtype.numpy()), y)
        rest = build(
            "Where", build("And", build("IsInf", y), _is_finite(build, x)), x, build("Mod", x, bounded, fmod=1)
        )
        zero = np.zeros((), x.dtype.numpy())
        differs = build("Xor", build("Less", rest, zero), build("Less", y, zero))
        moves = build("And", differs, build("Not", build("Equal", rest, zero)))
        sign = build("Mul", build("Abs", rest), build("Sign", y))  # a remainder of zero has the divisor's sign
        return [build("Where", moves, build("Add", rest, y), build("Where", build("Equal", rest, zero), sign, rest))]


def _is_finite(build: NodeBuilder, x: ir.Value) -> ir.Value:
    return build("Not", build("Or", build("IsInf", x), build("IsNaN", x)))


class CumulativeProduct(Rewrite):
    """``CumProd`` by doubling: after k rounds every element is the product of the last 2^k."""

    name: ClassVar[str] = "cumulative product by doubling"
    op_types: ClassVar[Sequence[str]] = ("CumProd",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For a constant axis of a known size."""
        x, axis = node.inputs[0], constant_input(node, 1)
        if x is None or axis is None or x.dtype is None:
            raise InapplicableError("its axis is computed")
        place = int(axis.item()) % rank_of(x)
        count = size_along(x, place)
        if count > MOST_CUMULATED:
            raise InapplicableError(f"{count} elements are too many")
        one = np.ones((), x.dtype.numpy())
        is_reverse = bool(node.attributes.get_int("reverse", 0))

        def shifted(value: ir.Value, by: int) -> ir.Value:
            ones = build("Expand", one, build("Shape", build.slice(value, [0], [by], [place])))
            if is_reverse:
                return build("Concat", build.slice(value, [by], [count], [place]), ones, axis=place)
            return build("Concat", ones, build.slice(value, [0], [count - by], [place]), axis=place)

        result = shifted(x, 1) if node.attributes.get_int("exclusive", 0) else x
        by = 1
        while by < count:
            result, by = build("Mul", result, shifted(result, by)), by * 2
        return [result]


class SignedShift(Rewrite):
    """``BitShift`` of signed integers as products and quotients; right shifts by the width or more leave the sign."""

    name: ClassVar[str] = "shift of signed integers by unsigned ones"
    op_types: ClassVar[Sequence[str]] = ("BitShift",)

    def matches(self, node: ir.Node) -> bool:
        """Whether integers are signed, of 32 or 64 bits."""
        value = node.inputs[0]
        return value is not None and value.dtype in (ir.DataType.INT32, ir.DataType.INT64)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Products and floored quotients by powers of two, which every runtime has."""
        x, by = node.inputs
        assert x is not None
        assert x.dtype is not None
        dtype = x.dtype.numpy()
        width = dtype.itemsize * 8
        one, zero = (np.asarray(number, dtype) for number in (1, 0))
        is_inside = build("And", build("Less", by, np.asarray(width, dtype)), build("Not", build("Less", by, zero)))
        bounded = build("Where", is_inside, by, zero)
        factors = self._factors(bounded, dtype, build)
        is_negative = build("Less", x, zero)
        if node.attributes.get_string("direction", "") == "LEFT":
            shifted = reduce(partial(build, "Mul"), factors, x)
            return [build("Where", is_inside, shifted, zero)]
        # -x - 1 inverts all bits: zeros then come in from the left
        turned = build("Where", is_negative, build("Sub", build("Neg", x), one), x)
        halves = reduce(partial(build, "Div"), factors, turned)
        back = build("Where", is_negative, build("Sub", build("Neg", halves), one), halves)
        return [build("Where", is_inside, back, build("Where", is_negative, np.asarray(-1, dtype), zero))]

    def _factors(self, places: ir.Value, dtype: np.dtype, build: NodeBuilder) -> list[ir.Value]:
        """Returns powers of two whose product is two to the power of ``places``, each within 32 bits."""
        most = -(-(dtype.itemsize * 8 - 1) // PARTS)
        powers, count = (2 ** np.arange(most + 1)).astype(dtype), np.asarray(PARTS, dtype)
        parts = (build("Div", build("Add", places, np.asarray(more, dtype)), count) for more in range(PARTS))
        return [build("Gather", powers, build.cast(part, ir.DataType.INT64), axis=0) for part in parts]


class NarrowArithmetic(Rewrite):
    """Arithmetic of 8-bit integers, which wraps around, in 32 bits."""

    name: ClassVar[str] = "8-bit integers in 32 bits"
    op_types: ClassVar[Sequence[str]] = ("Abs", "Add", "Sub", "Mul", "Div", "Neg", "BitShift")

    def matches(self, node: ir.Node) -> bool:
        """Whether integers have 8 bits."""
        value = node.inputs[0]
        return value is not None and value.dtype in (ir.DataType.INT8, ir.DataType.UINT8)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds the low 8 bits of what 32 bits hold; a shift by 8 or more gives zero."""
        operands = [build.cast(value, ir.DataType.INT32) for value in node.inputs]
        _, dtype = typed(node.inputs[0])
        if node.op_type == "BitShift":
            x, y = operands
            powers = np.array([1 << places for places in range(9)], np.int32)
            last = np.array(len(powers) - 1, np.int32)
            y = build("Gather", powers, build("Where", build("Less", y, last), y, last), axis=0)
            operator = "Mul" if node.attributes.get_string("direction") == "LEFT" else "Div"
            return [build.cast(build(operator, x, y), dtype)]
        return [build.cast(build(node.op_type, *operands), dtype)]


class ChosenByThreshold(Rewrite):
    """``Shrink`` and ``ThresholdedRelu`` by choices, which keep infinite numbers: a product with zero would be NaN."""

    name: ClassVar[str] = "threshold by a choice"
    op_types: ClassVar[Sequence[str]] = ("Shrink", "ThresholdedRelu")

    def matches(self, node: ir.Node) -> bool:
        """Whether numbers are floating-point."""
        value = node.inputs[0]
        return value is not None and value.dtype in _FLOATS

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds choices that give zero within the threshold, and for NaN."""
        x, dtype = typed(node.inputs[0])

        def number(value: float) -> np.ndarray:
            return np.asarray(value, dtype.numpy())

        if node.op_type == "ThresholdedRelu":
            is_above = build("Less", number(node.attributes.get_float("alpha", 1.0)), x)
            return [build("Where", is_above, x, number(0))]
        bias, threshold = (
            node.attributes.get_float(name, default) for name, default in (("bias", 0.0), ("lambd", 0.5))
        )
        above = build("Where", build("Less", number(threshold), x), build("Sub", x, number(bias)), number(0))
        return [build("Where", build("Less", x, number(-threshold)), build("Add", x, number(bias)), above)]


class WholeBias(Rewrite):
    """``LRN`` with a bias of 1, whose result is multiplied by a power of the original bias."""

    name: ClassVar[str] = "local response normalization with a bias of 1"
    op_types: ClassVar[Sequence[str]] = ("LRN",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the bias is not 1; else nothing would change."""
        return node.attributes.get_float("bias", 1.0) != 1

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """``x / (b + a s)^c`` as ``b^-c x / (1 + a/b s)^c``."""
        x, dtype = typed(node.inputs[0])
        alpha, beta = node.attributes.get_float("alpha", 1e-4), node.attributes.get_float("beta", 0.75)
        bias = node.attributes.get_float("bias", 1.0)
        if bias <= 0:
            raise InapplicableError(f"its bias is {bias:g}")
        size = node.attributes.get_int("size")
        normalized = build("LRN", x, size=size, alpha=alpha / bias, beta=beta, bias=1.0)
        return [build("Mul", normalized, np.asarray(bias**-beta, dtype.numpy()))]


class DividedByLength(Rewrite):
    """``LpNormalization`` as a division by the vector's length, or by 1 where the length is 0."""

    name: ClassVar[str] = "division by the length"
    op_types: ClassVar[Sequence[str]] = ("LpNormalization",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Nothing is added to the length: a short vector has the length 1 afterwards, too."""
        x = node.inputs[0]
        if x is None or x.dtype not in _FLOATS:
            raise InapplicableError("the type of its input is not known")
        axes, is_sum = [node.attributes.get_int("axis", -1)], node.attributes.get_int("p", 2) == 1
        total = build.reduce("ReduceSum", build("Abs", x) if is_sum else build("Mul", x, x), axes)
        length = total if is_sum else build("Sqrt", total)
        zero, one = (np.asarray(number, x.dtype.numpy()) for number in (0, 1))
        if build.opset >= EQUAL_TAKES_FLOATS:
            return [build("Div", x, build("Where", build("Equal", length, zero), one, length))]
        return [build("Div", x, build("Where", build.cast(length, ir.DataType.BOOL), length, one))]


class GreatestOfNothing(Rewrite):
    """``ReduceMax`` of no elements: minus infinity, or false."""

    name: ClassVar[str] = "greatest of nothing as a constant"
    op_types: ClassVar[Sequence[str]] = ("ReduceMax",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds a constant in the output's shape, which has to be known."""
        x, output = node.inputs[0], node.outputs[0]
        sizes, made = shape_of(x), shape_of(output)
        if 0 not in sizes or x is None or x.dtype is None:
            raise InapplicableError("it has elements")
        dtype = x.dtype.numpy()
        least = False if dtype == np.bool_ else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
        return [build("Identity", np.full(made, least, dtype))]


class ProductOfFourDimensions(Rewrite):
    """``MatMul`` with a batch of matrices, as one of four dimensions."""

    name: ClassVar[str] = "product of four dimensions"
    op_types: ClassVar[Sequence[str]] = ("MatMul",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the second operand has three dimensions, and the first two or three."""
        ranks = [None if value is None or value.shape is None else value.shape.rank() for value in node.inputs]
        return ranks in ([2, 3], [3, 3])

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Adds a first dimension of 1 to the operands and removes it from the result; a constant stays one."""
        x, matrices = node.inputs
        assert x is not None
        assert x.shape is not None
        constant = constant_input(node, 1)
        product = build(
            "MatMul",
            build.unsqueeze(x, [*range(4 - x.shape.rank())]),
            build.unsqueeze(matrices, [0]) if constant is None else np.ascontiguousarray(constant[None]),
        )
        return [build.squeeze(product, [0])]


class WholeVectorAverage(Rewrite):
    """``GlobalAveragePool`` of a multiple of :data:`VECTOR` channels, so that a kernel adds up all channels equally."""

    name: ClassVar[str] = "average in whole vectors"
    op_types: ClassVar[Sequence[str]] = ("GlobalAveragePool",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Adds channels of zeros and removes them from the result; the number of channels has to be known."""
        x = node.inputs[0]
        channels = size_along(x, 1)
        behind = [0, -channels % VECTOR, *[0] * (rank_of(x) - 2)]
        average = build("GlobalAveragePool", build.pad(x, [0] * len(behind) + behind))
        return [build.slice(average, [0], [channels], [1])]


class NoDropout(Rewrite):
    """``Dropout`` that drops nothing: outside training, or at a ratio of zero."""

    name: ClassVar[str] = "dropout of nothing"
    op_types: ClassVar[Sequence[str]] = ("Dropout",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """The input itself, and a mask: true, and zero in the versions before 12, as ONNX Runtime has it."""
        ratio, training = constant_input(node, 1), constant_input(node, 2)
        is_training = len(node.inputs) > 2 and node.inputs[2] is not None and (training is None or bool(training))
        is_none = ratio is not None and float(ratio) == 0.0
        if is_training and not is_none:
            raise InapplicableError("it drops at random")
        x = node.inputs[0]
        if len(node.outputs) == 1:
            return [build("Identity", x)]
        kept = np.array([build.opset >= MASK_KEEPS])
        if build.opset < MASK_IS_BOOLEAN:
            kept = kept.astype(typed(x)[1].numpy())
        return [build("Identity", x), build("Expand", kept, build("Shape", x))]


class FlattenedSoftmax(Rewrite):
    """``Softmax`` of opsets below 13, over all axes from a given one on, as a softmax of two dimensions."""

    name: ClassVar[str] = "softmax of two dimensions"
    op_types: ClassVar[Sequence[str]] = ("Softmax",)
    versions: ClassVar[range] = range(1, 13)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """The axes before the given one become rows, those from there on columns."""
        x = node.inputs[0]
        if x is None or x.shape is None:
            raise InapplicableError("how many axes its input has is not known")
        rows = build("Flatten", x, axis=node.attributes.get_int("axis", 1) % x.shape.rank())
        return [build("Reshape", build("Softmax", rows, axis=1), build("Shape", x))]


class Determinant(Rewrite):
    """``Det`` of small matrices, by expansion along rows."""

    name: ClassVar[str] = "determinant written out"
    op_types: ClassVar[Sequence[str]] = ("Det",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds sums of signed products, one for each permutation; up to 5 rows."""
        x = node.inputs[0]
        count, rank = size_along(x, -1), rank_of(x)
        if count > 5:
            raise InapplicableError(f"a matrix of {count} rows has too many terms")
        flat = build("Reshape", x, [*kept_sizes(x, range(rank - 2)), count * count])
        terms = []
        for order in itertools.permutations(range(count)):
            sign = np.float32(np.linalg.det(np.eye(count)[list(order)]).round())
            cells = [
                build.slice(flat, [row * count + column], [row * count + column + 1], [rank - 2])
                for row, column in enumerate(order)
            ]
            product = cells[0]
            for cell in cells[1:]:
                product = build("Mul", product, cell)
            terms.append(product if sign > 0 else build("Neg", product))
        total = terms[0]
        for term in terms[1:]:
            total = build("Add", total, term)
        return [build.squeeze(total, [rank - 2])]


class HasElement(Rewrite):
    """``OptionalHasElement`` and ``OptionalGetElement`` of a value that is known to be there, or to be missing."""

    name: ClassVar[str] = "optional value that is known"
    op_types: ClassVar[Sequence[str]] = (GET, HAS)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """A tensor is there, wrapped in an optional value or not; an input that is left out is missing."""
        try:
            element = element_asked_for(node)
        except NotKnownError as error:
            raise InapplicableError(str(error)) from None
        if node.op_type == HAS:
            return [build("Identity", np.array(element is not None))]
        if element is None:
            raise InapplicableError("there is no element")
        return [build("Identity", element)]
