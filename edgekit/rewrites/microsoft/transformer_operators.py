"""Operators that ONNX Runtime's optimizer and quantizer fuse transformers into, written out.

They are those of the domain ``com.microsoft`` in ONNX Runtime's document ContribOperators, as its CPU kernels compute
them. What ONNX Runtime's quantizer stores in 8 bits stays in 8 bits: integers are multiplied, and embeddings looked up,
as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.quantized_operators import MICROSOFT, single

COUNTING = 11
"""Since this opset there is Range; Slice takes computed borders since the one before."""
HIDDEN = -10000.0
"""The number that hides a key from a query, if no attribute says otherwise."""

LATER = np.finfo(np.float32).min
"""The number that hides a later key, in place of what a mask adds."""


class SummedEmbeddings(Rewrite):
    """Layer normalization of the sum of embeddings of words, positions and segments; and how many ones a mask has."""

    name: ClassVar[str] = "embeddings summed and normalized"
    op_types: ClassVar[Sequence[str]] = ("EmbedLayerNormalization", "QEmbedLayerNormalization")
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Tables, and the factor and summand of the normalization, may have 8 bits, with one scale each."""
        if build.opset < COUNTING:
            raise InapplicableError(f"counting its positions needs operators that opset {build.opset} does not have")
        words, segments, positions = input_at(node, 0), input_at(node, 1), None
        if node.op_type == "EmbedLayerNormalization":
            positions = input_at(node, 8)
            if node.attributes.get_int("mask_index_type", 0) not in (0, 1):
                raise InapplicableError("its mask is not the number of ones")
        if positions is None:
            table = build("Slice", node.inputs[3], [0], size_of(build, words, 1), [0])
        else:
            table = build("Gather", node.inputs[3], positions, axis=0)
        total = build("Add", _looked_up(build, node, 2, words), _widened(build, node, 3, table))
        if segments is not None and input_at(node, 4) is not None:
            total = build("Add", total, _looked_up(build, node, 4, segments))
        return [_normalized(build, node, total), self._lengths(node, build), total]

    def _lengths(self, node: ir.Node, build: NodeBuilder) -> ir.Value:
        mask = input_at(node, 7)
        if mask is None:
            return build("Expand", np.array([0], np.int32), size_of(build, input_at(node, 0), 0))
        ones = build.cast(build("Equal", mask, np.int32(1)), ir.DataType.INT32)
        return build.reduce("ReduceSum", ones, [1], keepdims=False)


def _looked_up(build: NodeBuilder, node: ir.Node, place: int, ids: ir.Value | None) -> ir.Value:
    """Returns rows of a table, as real numbers."""
    return _widened(build, node, place, build("Gather", node.inputs[place], ids, axis=0))


def _widened(build: NodeBuilder, node: ir.Node, place: int, x: ir.Value | None) -> ir.Value:
    """Returns the real numbers of what was taken from an input; quantized inputs have a scale and a zero point."""
    assert x is not None
    if node.op_type == "EmbedLayerNormalization":
        return x
    scale_at, zero_point_at = {2: (8, 13), 3: (9, 14), 4: (10, 15), 5: (11, 16), 6: (12, 17)}[place]
    return build(
        "DequantizeLinear", x, single(build, input_at(node, scale_at)), single(build, input_at(node, zero_point_at))
    )


def _normalized(build: NodeBuilder, node: ir.Node, x: ir.Value) -> ir.Value:
    """Returns the normalized numbers, computed in float32: the default of epsilon is 0 in half precision."""
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-12))
    factor, summand = (_widened(build, node, place, node.inputs[place]) for place in (5, 6))
    is_half = factor.dtype == ir.DataType.FLOAT16
    if is_half:
        x, factor, summand = (build.cast(value, ir.DataType.FLOAT) for value in (x, factor, summand))
    centered = build("Sub", x, build.reduce("ReduceMean", x, [-1]))
    variance = build.reduce("ReduceMean", build("Mul", centered, centered), [-1])
    unit = build("Div", centered, build("Sqrt", build("Add", variance, epsilon)))
    result = build("Add", build("Mul", unit, factor), summand)
    return build.cast(result, ir.DataType.FLOAT16) if is_half else result


class SelfAttention(Rewrite):
    """Attention of queries, keys and values that one matrix product gives, of floats or of integers of 8 bits."""

    name: ClassVar[str] = "attention written out"
    op_types: ClassVar[Sequence[str]] = ("Attention", "QAttention")
    domain: ClassVar[str] = MICROSOFT

    def matches(self, node: ir.Node) -> bool:
        """Whether it neither rotates nor shares a buffer of past and present, for which there are no CPU kernels."""
        return not any(node.attributes.get_int(name, 0) for name in ("do_rotary", "past_present_share_buffer"))

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """With a mask of lengths or of zeros and ones, and with keys and values of a past; in float32 in any case."""
        if build.opset < COUNTING:
            raise InapplicableError(f"its masks need operators that opset {build.opset} does not have")
        heads = node.attributes.get_int("num_heads")
        sizes = _widths(node)
        query, key, value = _projections(node, build, heads, sizes)
        past = input_at(node, 8 if node.op_type == "QAttention" else 4)
        if past is not None:
            wide = build.cast(past, ir.DataType.FLOAT)
            before = [build("Gather", wide, np.int64(place), axis=0) for place in range(2)]
            key, value = (build("Concat", *pair, axis=2) for pair in zip(before, (key, value), strict=True))
        present = None
        if len(node.outputs) > 1:
            present = _typed(
                build, node, build("Concat", build.unsqueeze(key, [0]), build.unsqueeze(value, [0]), axis=0)
            )
        scale = node.attributes.get_float("scale", 0.0) or 1 / math.sqrt(sizes[0] // heads)
        scores = build("MatMul", build("Mul", query, np.float32(scale)), build("Transpose", key, perm=[0, 1, 3, 2]))
        for bias in _biases(node, build, query, key):
            scores = build("Add", scores, bias)
        mixed = build("MatMul", build("Softmax", scores, axis=-1), value)
        joined = build("Reshape", build("Transpose", mixed, perm=[0, 2, 1, 3]), [0, 0, sizes[2]])
        return [_typed(build, node, joined), present]


def _typed(build: NodeBuilder, node: ir.Node, x: ir.Value) -> ir.Value:
    """Returns float32 numbers in the type of the node's input, or of the scale of the input's integers."""
    _, dtype = typed(node.inputs[3 if node.op_type == "QAttention" else 0])
    return x if dtype == ir.DataType.FLOAT else build.cast(x, dtype)


def _widths(node: ir.Node) -> list[int]:
    """Returns how many columns of the weights are for queries, for keys and for values."""
    weights = node.inputs[1]
    if weights is None or weights.shape is None or not isinstance(weights.shape[1], int):
        raise InapplicableError("the width of its weights is not known")
    return list(node.attributes.get_ints("qkv_hidden_sizes", ()) or [weights.shape[1] // 3] * 3)


def _projections(node: ir.Node, build: NodeBuilder, heads: int, sizes: Sequence[int]) -> list[ir.Value]:
    """Returns queries, keys and values as [b, heads, s, d]."""
    parts = build.split(_projected(node, build), 2, sizes)
    apart = [build("Reshape", part, [0, 0, heads, size // heads]) for part, size in zip(parts, sizes, strict=True)]
    return [build("Transpose", each, perm=[0, 2, 1, 3]) for each in apart]


def _projected(node: ir.Node, build: NodeBuilder) -> ir.Value:
    x, weights, bias = node.inputs[0], node.inputs[1], input_at(node, 2)
    if node.op_type == "QAttention":
        sums = build("MatMulInteger", x, weights, single(build, input_at(node, 6)), _column(build, input_at(node, 7)))
        scale = build("Mul", *(build.cast(each, ir.DataType.FLOAT) for each in node.inputs[3:5]))
        product = build("Mul", build.cast(sums, ir.DataType.FLOAT), scale)
    else:
        product = build("MatMul", *(build.cast(each, ir.DataType.FLOAT) for each in (x, weights)))
    return product if bias is None else build("Add", product, build.cast(bias, ir.DataType.FLOAT))


def _biases(node: ir.Node, build: NodeBuilder, query: ir.Value, key: ir.Value) -> list[ir.Value]:
    """Returns what is added to the scores [b, heads, s, t]."""
    is_quantized = node.op_type == "QAttention"
    mask, bias = input_at(node, 5 if is_quantized else 3), None if is_quantized else input_at(node, 5)
    hidden: ir.Value | None = None
    if mask is not None:
        strength = np.float32(node.attributes.get_float("mask_filter_value", HIDDEN))
        hidden = build("Where", _is_seen(node, build, mask, key), np.float32(0), strength)
    if node.attributes.get_int("unidirectional", 0):
        keys, queries = size_of(build, key, 2), size_of(build, query, 2)
        last = build("Add", build.unsqueeze(counted(build, queries), [1]), build("Sub", keys, queries))
        later = build("Greater", counted(build, keys), last)
        hidden = build("Where", later, LATER, np.float32(0) if hidden is None else hidden)
    return [each for each in (hidden, bias and build.cast(bias, ir.DataType.FLOAT)) if each is not None]


def _is_seen(node: ir.Node, build: NodeBuilder, mask: ir.Value, key: ir.Value) -> ir.Value:
    """Returns which keys queries see, [b, 1, 1 or s, t]: a mask has zeros for hidden keys, or holds their borders."""
    if mask.shape is None or mask.shape.rank() not in (1, 2, 3):
        raise InapplicableError("the shape of its mask is not known, or has more than three dimensions")
    if mask.shape.rank() > 1:
        return build.unsqueeze(build("Greater", mask, np.int32(0)), [1, 2] if mask.shape.rank() == 2 else [1])
    places = counted(build, size_of(build, key, 2))
    ends, begins = _borders(node, build, mask)
    is_seen = build("Less", places, build("Cast", build.unsqueeze(ends, [1]), to=int(ir.DataType.INT64)))
    if begins is not None:
        hidden = build("Less", places, build("Cast", build.unsqueeze(begins, [1]), to=int(ir.DataType.INT64)))
        is_seen = build("And", is_seen, build("Not", hidden))
    return build.unsqueeze(is_seen, [1, 2])


def _borders(node: ir.Node, build: NodeBuilder, mask: ir.Value) -> tuple[ir.Value, ir.Value | None]:
    """Returns where the seen keys of each sequence end, and where they begin; None if that is at the first key."""
    x = node.inputs[0]
    assert mask.shape is not None
    sequences = None if x is None or x.shape is None else x.shape[0]
    if mask.shape[0] == 1 or mask.shape[0] == sequences != ir.SymbolicDim(None):
        return mask, None
    batch = size_of(build, x, 0)
    row = build("Concat", np.array([1]), batch, axis=0)
    rows = build("Reshape", mask, build("Concat", np.array([-1]), batch, axis=0))
    both = build("Concat", rows, build("Expand", np.int32(0), row), axis=0)
    ends, begins = (build.squeeze(build.slice(both, [at], [at + 1], [0]), [0]) for at in range(2))
    return ends, begins


def size_of(build: NodeBuilder, x: ir.Value | None, axis: int) -> ir.Value:
    """Returns one of a value's sizes, [1]."""
    return build.slice(build("Shape", x), [axis], [axis + 1], [0])


def counted(build: NodeBuilder, size: ir.Value) -> ir.Value:
    """Returns the numbers from 0 up to below a size [1]."""
    return build("Range", np.array(0), build.squeeze(size, [0]), np.array(1))


def _column(build: NodeBuilder, zero_point: ir.Value | None) -> ir.Value | None:
    """Returns the zero points of the weights' columns; a single one as a scalar."""
    if zero_point is None or zero_point.shape is None or zero_point.shape.numpy() != (1,):
        return zero_point
    return build.squeeze(zero_point, [0])


class RotatedPairs(Rewrite):
    """``RotaryEmbedding``: pairs of elements turned by angles that tables have for positions."""

    name: ClassVar[str] = "rotary embedding written out"
    op_types: ClassVar[Sequence[str]] = ("RotaryEmbedding",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Of [b, s, heads * d] or [b, heads, s, d]; a single position is that of the first element."""
        x, positions, cosines = node.inputs[0], node.inputs[1], node.inputs[2]
        if build.opset < COUNTING or x is None or x.shape is None or positions is None or positions.shape is None:
            raise InapplicableError(f"the shapes of its inputs are not known, or opset {build.opset} is too old")
        if node.attributes.get_int("is_packed_batching", 0) or node.attributes.get_float("scale", 1.0) != 1.0:
            raise InapplicableError("it packs batches, or scales")
        if cosines is None or cosines.shape is None or not isinstance(cosines.shape[1], int):
            raise InapplicableError("the width of its tables is not known")
        rank, turned = x.shape.rank(), 2 * cosines.shape[1]
        size = _head_size(node, x, turned)
        heads = x if rank == 4 else build("Reshape", x, [0, 0, -1, size])
        parts = [heads] if turned == size else list(build.split(heads, 3, [turned, size - turned]))
        cosines, sines = (self.at_positions(node, build, table, heads) for table in node.inputs[2:4])
        is_interleaved = node.attributes.get_int("interleaved", 0) == 1
        parts[0] = turned_pairs(build, parts[0], cosines, sines, turned // 2, is_interleaved=is_interleaved)
        result = parts[0] if len(parts) == 1 else build("Concat", *parts, axis=3)
        return [result if rank == 4 else build("Reshape", result, build("Shape", x))]

    def at_positions(self, node: ir.Node, build: NodeBuilder, table: ir.Value | None, heads: ir.Value) -> ir.Value:
        """Returns a table's rows by step, broadcastable to heads [b, s, heads, d], or [b, heads, s, d] at rank 4."""
        x, positions = node.inputs[:2]
        if x is None or x.shape is None or positions is None or positions.shape is None:
            raise InapplicableError("the shapes of its inputs are not known")
        is_by_head = x.shape.rank() == 4
        if positions.shape.rank() == 2:
            return build.unsqueeze(build("Gather", table, positions, axis=0), [1 if is_by_head else 2])
        steps = build("Add", counted(build, size_of(build, heads, 2 if is_by_head else 1)), positions)
        rows = build("Gather", table, steps, axis=0)
        return rows if is_by_head else build.unsqueeze(rows, [1])


def _head_size(node: ir.Node, x: ir.Value, turned: int) -> int:
    """Returns how many elements a head has, of which the first are turned."""
    assert x.shape is not None
    width, heads = x.shape[-1], node.attributes.get_int("num_heads", 0)
    if not node.attributes.get_int("rotary_embedding_dim", 0):
        return turned
    if not isinstance(width, int):
        raise InapplicableError("the width of its input is not known")
    return width if x.shape.rank() == 4 else width // heads


def turned_pairs(
    build: NodeBuilder, x: ir.Value, cosines: ir.Value, sines: ir.Value, half: int, *, is_interleaved: bool
) -> ir.Value:
    """Returns ``half`` pairs of elements turned: adjacent elements if interleaved, else those of two halves."""
    if is_interleaved:
        pairs = build("Reshape", x, [0, 0, 0, half, 2])
        first, second = (build.squeeze(part, [4]) for part in build.split(pairs, 4, [1, 1]))
    else:
        first, second = build.split(x, 3, [half, half])
    real = build("Sub", build("Mul", first, cosines), build("Mul", second, sines))
    imaginary = build("Add", build("Mul", first, sines), build("Mul", second, cosines))
    if not is_interleaved:
        return build("Concat", real, imaginary, axis=3)
    both = build("Concat", build.unsqueeze(real, [4]), build.unsqueeze(imaginary, [4]), axis=4)
    return build("Reshape", both, [0, 0, 0, 2 * half])
