"""What a model costs: parameters, and multiplications with their additions (MACs)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from edgekit.graph.nodes import has_input
from edgekit.model import Model, node_name

Shape = tuple[int, ...]

_NO_PARAMETERS = {ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL, ir.DataType.STRING}
"""Element types of shapes, indices and masks; learned numbers are floating-point, or quantized to 16 bits or less."""


@dataclass(frozen=True)
class Cost:
    """What a graph costs, as far as it can be determined."""

    macs: int
    """MACs of the nodes that can be counted; loop bodies count once, of several branches the most expensive counts."""
    uncounted: tuple[str, ...]
    """Names of the nodes that multiply, but whose shapes are not known."""


def parameter_count(model: Model) -> int:
    """How many learned numbers the model carries."""
    return sum(tensor.size for tensor in model.tensors() if tensor.dtype not in _NO_PARAMETERS)


def cost(model: Model) -> Cost:
    """Multiply-accumulate operations of one run, of the operators that do nearly all of them.

    These are convolutions, matrix products, recurrent layers and attention, in their float and their quantized forms.
    """
    return _graph_cost(model.graph)


def node_macs(node: ir.Node) -> int | None:
    """Multiply-accumulate operations of one node without its bodies; None where its shapes are not known."""
    count = _COUNTERS.get((node.domain, node.op_type))
    try:
        return 0 if count is None else count(node)
    except _UnknownShapeError:
        return None


def _graph_cost(graph: ir.Graph) -> Cost:
    macs, uncounted = 0, []
    for node in graph:
        bodies = [_graph_cost(attribute.as_graph()) for attribute in _graph_attributes(node)]
        if bodies:
            macs += max(body.macs for body in bodies)
            uncounted += [name for body in bodies for name in body.uncounted]
        count = _COUNTERS.get((node.domain, node.op_type))
        if count is None:
            continue
        try:
            macs += count(node)
        except _UnknownShapeError:
            uncounted.append(node_name(node))
    return Cost(macs, tuple(uncounted))


def _graph_attributes(node: ir.Node) -> list[ir.Attr]:
    return [attribute for attribute in node.attributes.values() if attribute.type == ir.AttributeType.GRAPH]


class _UnknownShapeError(Exception):
    """A shape that the count needs is not fixed."""


def _shape(values: Sequence[ir.Value | None], index: int) -> Shape:
    value = values[index] if index < len(values) else None
    if value is None or value.shape is None or not value.shape.is_static():
        raise _UnknownShapeError
    return value.shape.numpy()


def _conv(weight_index: int) -> Callable[[ir.Node], int]:
    """Every output element is a sum over the input channels of its group and over the kernel."""

    def count(node: ir.Node) -> int:
        return math.prod(_shape(node.outputs, 0)) * math.prod(_shape(node.inputs, weight_index)[1:])

    return count


def _conv_transpose(node: ir.Node) -> int:
    """Every input element goes to the output channels of its group, through the whole kernel."""
    return math.prod(_shape(node.inputs, 0)) * math.prod(_shape(node.inputs, 1)[1:])


def _matmul(node: ir.Node) -> int:
    """Every output element is a sum over the last axis of the left factor."""
    return math.prod(_shape(node.outputs, 0)) * _shape(node.inputs, 0)[-1]


def _gemm(node: ir.Node) -> int:
    left = _shape(node.inputs, 0)
    return math.prod(_shape(node.outputs, 0)) * left[0 if node.attributes.get_int("transA", 0) else 1]


def _recurrent(node: ir.Node) -> int:
    """W is [directions, gates·hidden, input], R is [directions, gates·hidden, hidden]; both are used at every step."""
    x, w, r = (_shape(node.inputs, index) for index in range(3))
    return x[0] * x[1] * (math.prod(w) + math.prod(r))


def _einsum(node: ir.Node) -> int:
    """The product over all indices, as in the textbook loop; with a single factor, there is no multiplication."""
    equation = node.attributes.get_string("equation", "").replace(" ", "")
    terms = equation.partition("->")[0].split(",")
    if len(terms) < 2:
        return 0
    if "." in equation:
        raise _UnknownShapeError
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        for letter, size in zip(term, _shape(node.inputs, index), strict=True):
            sizes[letter] = max(size, sizes.get(letter, 1))
    return math.prod(sizes.values())


def _attention(node: ir.Node) -> int:
    """The standard operator: for every query head, queries by keys, including past ones, then weights by values."""
    query, key, value = (_shape(node.inputs, index) for index in range(3))
    if len(query) == 4:  # [batch, heads, sequence, size]
        batch, heads, queries, size = query
        keys, value_size = value[2], value[3]
    else:  # [batch, sequence, heads·size]
        batch, queries, _ = query
        heads = node.attributes.get_int("q_num_heads", 1)
        key_heads = node.attributes.get_int("kv_num_heads", heads)
        size, keys, value_size = query[2] // heads, key[1], value[2] // key_heads
    if has_input(node, 4):
        keys += _shape(node.inputs, 4)[2]  # [batch, key heads, past, size]
    return batch * heads * queries * keys * (size + value_size)


_MICROSOFT = "com.microsoft"
"""ONNX Runtime's domain; its document ContribOperators defines the operators."""


def _fused_matmul(node: ir.Node) -> int:
    """FusedMatMul: ``transA`` swaps the last two axes of the left factor; with ``transBatchA``, its rows come first."""
    left = _shape(node.inputs, 0)
    if len(left) < 2 or not node.attributes.get_int("transA", 0):
        summed = -1
    else:
        summed = 0 if node.attributes.get_int("transBatchA", 0) else -2
    return math.prod(_shape(node.outputs, 0)) * left[summed]


def _projected_attention(past_index: int) -> Callable[[ir.Node], int]:
    """Attention with its projections: [batch, sequence, width] by [width, columns of queries, keys and values]."""

    def count(node: ir.Node) -> int:
        batch, sequence, width = _shape(node.inputs, 0)
        columns = _shape(node.inputs, 1)[1]
        queries, _, values = node.attributes.get_ints("qkv_hidden_sizes", ()) or [columns // 3] * 3
        past = _shape(node.inputs, past_index)[3] if has_input(node, past_index) else 0  # [2, batch, heads, past, size]
        return batch * sequence * (width * columns + (past + sequence) * (queries + values))

    return count


_PAST_KEY = 6
"""Which input of MultiHeadAttention holds the keys of earlier steps: [batch, heads, past, size]."""


def _multi_head_attention(node: ir.Node) -> int:
    """Queries by keys, then the weights by values; one tensor may hold all three, or keys and values."""
    query = _shape(node.inputs, 0)  # [batch, sequence, heads·size] or [batch, sequence, heads, 3, size]
    width = query[2] * query[4] if len(query) == 5 else query[2]
    keys, value_width = query[1], width
    if has_input(node, 1):
        key = _shape(node.inputs, 1)  # [batch, keys, heads·size] or [batch, keys, heads, 2, size]
        keys = key[2] if len(key) == 4 else key[1]  # [batch, heads, keys, size]
    if has_input(node, 2):
        value = _shape(node.inputs, 2)
        value_width = value[1] * value[3] if len(value) == 4 else value[2]
    if has_input(node, _PAST_KEY):
        keys += _shape(node.inputs, _PAST_KEY)[2]
    return query[0] * query[1] * keys * (width + value_width)


def _grouped_attention(node: ir.Node) -> int:
    """GroupQueryAttention: [batch, sequence, heads·size], and all keys [batch, shared heads, keys, size]."""
    return 2 * math.prod(_shape(node.outputs, 0)) * _shape(node.outputs, 1)[2]


def _experts(*weights: int) -> Callable[[ir.Node], int]:
    """Mixture of experts: each input row [..., hidden] goes to ``k`` experts, each with a product for every weight.

    Args:
        weights: Indices of inputs with the weights [experts, rows, columns]; QMoE packs numbers of 2, 4 or 8 bits
            into bytes.
    """

    def count(node: ir.Node) -> int:
        per_expert = 0
        for number, index in enumerate(weights, start=1):
            if has_input(node, index):
                common = node.attributes.get_int("expert_weight_bits", 4)
                bits = node.attributes.get_int(f"fc{number}_expert_weight_bits", common)
                in_a_byte = 8 // bits if node.op_type == "QMoE" else 1
                per_expert += math.prod(_shape(node.inputs, index)[1:]) * in_a_byte
        return math.prod(_shape(node.inputs, 0)[:-1]) * node.attributes.get_int("k", 1) * per_expert

    return count


def _linear_attention(node: ir.Node) -> int:
    """LinearAttention: every key by its value into the state, queries by the state; delta rules also read by keys."""
    (batch, steps, queries), values = _shape(node.inputs, 0), _shape(node.inputs, 2)[2]
    heads, key_heads = (node.attributes.get_int(name, 1) for name in ("q_num_heads", "kv_num_heads"))
    state = queries // heads * (values // key_heads)
    by_key = 2 if "delta" in node.attributes.get_string("update_rule", "gated_delta") else 1
    return batch * steps * state * (heads + by_key * key_heads)


_COUNTERS: dict[tuple[str, str], Callable[[ir.Node], int]] = {
    ("", "Attention"): _attention,
    ("", "Conv"): _conv(weight_index=1),
    ("", "ConvInteger"): _conv(weight_index=1),
    ("", "ConvTranspose"): _conv_transpose,
    ("", "DeformConv"): _conv(weight_index=1),
    ("", "Einsum"): _einsum,
    ("", "GRU"): _recurrent,
    ("", "Gemm"): _gemm,
    ("", "LSTM"): _recurrent,
    ("", "MatMul"): _matmul,
    ("", "MatMulInteger"): _matmul,
    ("", "QLinearConv"): _conv(weight_index=3),
    ("", "QLinearMatMul"): _matmul,
    ("", "RNN"): _recurrent,
    (_MICROSOFT, "Attention"): _projected_attention(past_index=4),
    (_MICROSOFT, "CausalConvWithState"): _conv(weight_index=1),
    (_MICROSOFT, "ConvTransposeWithDynamicPads"): _conv_transpose,
    (_MICROSOFT, "DynamicQuantizeLSTM"): _recurrent,
    (_MICROSOFT, "DynamicQuantizeMatMul"): _matmul,
    (_MICROSOFT, "FusedConv"): _conv(weight_index=1),
    (_MICROSOFT, "FusedGemm"): _gemm,
    (_MICROSOFT, "FusedMatMul"): _fused_matmul,
    (_MICROSOFT, "GroupQueryAttention"): _grouped_attention,
    (_MICROSOFT, "LinearAttention"): _linear_attention,
    (_MICROSOFT, "MatMulBnb4"): _matmul,
    (_MICROSOFT, "MatMulInteger16"): _matmul,
    (_MICROSOFT, "MatMulIntegerToFloat"): _matmul,
    (_MICROSOFT, "MatMulNBits"): _matmul,
    (_MICROSOFT, "MoE"): _experts(2, 4, 6),
    (_MICROSOFT, "MultiHeadAttention"): _multi_head_attention,
    (_MICROSOFT, "QAttention"): _projected_attention(past_index=8),
    (_MICROSOFT, "QGemm"): _gemm,
    (_MICROSOFT, "QLinearConv"): _conv(weight_index=3),
    (_MICROSOFT, "QMoE"): _experts(2, 5, 8),
    (_MICROSOFT, "TransposeMatMul"): _fused_matmul,
}
"""Functions that count a node's MACs, by domain and operator."""
