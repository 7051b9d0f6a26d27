"""Matrix products of ``com.microsoft`` with quantized operands, and quantization by a tensor's range."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.context import Context
from edgekit_mil.core.exactness import EXACT
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value, computed, constant
from edgekit_mil.ops.microsoft.fused import DOMAIN
from edgekit_mil.ops.standard.quantized_products import along_axis, integer_matmul, requantized, scale_ratio
from edgekit_mil.support.linear_quantization import Granularity, compressed, dynamically_quantized

BITS = {2: ir.DataType.UINT4, 4: ir.DataType.UINT4, 8: ir.DataType.UINT8}
"""The type in which weights of 2, 4 or 8 bits are stored."""


@lowering("DynamicQuantizeLinear", versions=[11])
def dynamic_quantize_linear(ctx: Context, x: Value) -> tuple[Value, Value, Value]:
    """Levels, scale and zero point for the range of x."""
    levels, scale, zero = dynamically_quantized(x.var)
    return computed(levels, ir.DataType.UINT8), computed(scale, x.dtype), computed(zero, ir.DataType.UINT8)


@lowering("DynamicQuantizeMatMul", versions=[1], domain=DOMAIN)
def dynamic_quantize_matmul(
    ctx: Context, a: Value, b: Value, b_scale: Value, b_zero_point: Value | None = None, bias: Value | None = None
) -> Value:
    """Product of a, quantized by its range, with a quantized b, as floats."""
    levels, scale, zero = dynamically_quantized(a.var)
    quantized_a = computed(levels, ir.DataType.UINT8)
    total = integer_matmul(ctx, quantized_a, computed(zero, ir.DataType.UINT8), b, b_zero_point)
    return rescaled(total, computed(scale, a.dtype), b_scale, bias)


@lowering("MatMulIntegerToFloat", versions=[1], domain=DOMAIN)
def matmul_integer_to_float(
    ctx: Context,
    a: Value,
    b: Value,
    a_scale: Value,
    b_scale: Value,
    a_zero_point: Value | None = None,
    b_zero_point: Value | None = None,
    bias: Value | None = None,
) -> Value:
    """Product of quantized matrices, as floats."""
    return rescaled(integer_matmul(ctx, a, a_zero_point, b, b_zero_point), a_scale, b_scale, bias)


@lowering("MatMulNBits", versions=[1], domain=DOMAIN, note="constant weights of 2, 4 or 8 bits")
def matmul_n_bits(
    ctx: Context,
    a: Value,
    b: Value,
    scales: Value,
    zero_points: Value | None = None,
    g_idx: Value | None = None,
    bias: Value | None = None,
    *,
    K: int,  # noqa: N803 - ONNX Runtime's name
    N: int,  # noqa: N803 - ONNX Runtime's name
    accuracy_level: int = 0,
    bits: int = 4,
    block_size: int,
) -> Var:
    """``a b^T`` with b [N, K] quantized in blocks along K and packed into bytes, lowest bits first.

    With g_idx, every column of b names its block. Zero points may be floats: b is then stored with the middle of the
    range as zero points, and the sums of a's columns in each block correct the difference.
    """
    if bits not in BITS:
        raise Unsupported(f"weights of {bits} bits", "quantize to 4 or 8 bits")
    blocks = -(-K // block_size)
    levels = _unpacked(b.require_constant("B"), bits).reshape(N, blocks * block_size)[:, :K]
    table = scales.require_constant("scales").reshape(N, blocks)
    data = a.var
    if g_idx is not None:
        order = _by_block(g_idx.require_constant("g_idx"), K, block_size)
        levels, data = levels[:, order], mb.gather(x=data, indices=order.astype(np.int32), axis=a.rank - 1)
    middle = np.full((N, blocks), 1 << (bits - 1), np.uint8)
    given = None if zero_points is None else zero_points.require_constant("zero_points").reshape(N, -1)
    is_integer = given is None or given.dtype == np.uint8
    zeros = middle if given is None or not is_integer else _unpacked(given, bits).reshape(N, -1)[:, :blocks]
    weights = compressed(
        ctx,
        constant(levels, BITS[bits]),
        constant(table),
        constant(zeros, BITS[bits]),
        Granularity((N, K), 1, block_size),
        ir.DataType.FLOAT,
    )
    product = mb.matmul(x=data, y=weights.var, transpose_y=True)
    if given is not None and not is_integer:
        moved = (middle - given[:, :blocks].astype(np.float32)) * table.astype(np.float32)
        sums = mb.matmul(x=data, y=_members(K, blocks, block_size))
        product = mb.add(x=product, y=mb.matmul(x=sums, y=moved, transpose_y=True))
    return product if bias is None else mb.add(x=product, y=bias.var)


def _by_block(blocks: np.ndarray, columns: int, length: int) -> np.ndarray:
    """Returns the order of columns by their blocks."""
    order: np.ndarray = np.argsort(blocks[:columns], kind="stable")
    if not np.array_equal(blocks[order], np.arange(columns) // length):
        raise Unsupported("blocks of several lengths", "quantize without an order of columns (g_idx)")
    return order


def _members(columns: int, blocks: int, length: int) -> np.ndarray:
    """Returns [columns, blocks]: 1 if a column is in a block, else 0."""
    is_in: np.ndarray = np.arange(columns)[:, np.newaxis] // length == np.arange(blocks)
    return is_in.astype(np.float32)


@lowering("QGemm", versions=[1], domain=DOMAIN)
def qgemm(
    ctx: Context,
    a: Value,
    a_scale: Value,
    a_zero_point: Value,
    b: Value,
    b_scale: Value,
    b_zero_point: Value,
    c: Value | None = None,
    y_scale: Value | None = None,
    y_zero_point: Value | None = None,
    *,
    alpha: float = 1.0,
    transA: int = 0,  # noqa: N803 - ONNX Runtime's name
    transB: int = 0,  # noqa: N803 - ONNX Runtime's name
) -> Value:
    """``alpha * (A' B' + C)`` of quantized matrices, C in int32; quantized if there is a scale for the result."""
    left, right = (_transposed(value) if flag else value for value, flag in ((a, transA), (b, transB)))
    total = integer_matmul(ctx, left, a_zero_point, right, b_zero_point)
    if c is not None:
        total = mb.add(x=total, y=c.var)
    scaled_a = a_scale if alpha == 1 else computed(mb.mul(x=a_scale.var, y=alpha), a_scale.dtype)
    if y_scale is None or y_zero_point is None:
        return rescaled(total, scaled_a, b_scale, None)
    return requantized(total, scale_ratio(scaled_a, along_axis(b_scale, -1, total.rank), y_scale), y_zero_point)


def rescaled(total: Var, a_scale: Value, b_scale: Value, bias: Value | None) -> Value:
    """``total * a_scale * b_scale + bias`` in float."""
    one = constant(np.ones((), np.float32))
    factor = scale_ratio(along_axis(a_scale, -2, total.rank), along_axis(b_scale, -1, total.rank), one)
    result = mb.mul(x=mb.cast(x=total, dtype="fp32"), y=factor, name=EXACT)
    return computed(result if bias is None else mb.add(x=result, y=bias.var), ir.DataType.FLOAT)


def _transposed(matrix: Value) -> Value:
    if matrix.constant is not None:
        return constant(np.ascontiguousarray(matrix.constant.T), matrix.dtype)
    return computed(mb.transpose(x=matrix.var, perm=[1, 0]), matrix.dtype)


def _unpacked(packed: np.ndarray, bits: int) -> np.ndarray:
    """Unpacks numbers of ``bits`` bits from bytes, the lowest bits first, along the last axis."""
    octets = packed.astype(np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    numbers: np.ndarray = (octets[..., None] >> shifts) & ((1 << bits) - 1)
    return numbers.reshape(*octets.shape[:-1], -1)
