"""Types and shapes of the outputs of ``com.microsoft`` operators, provided to ONNX's shape inference.

ONNX knows none of these operators, so nothing behind one would have a shape. ONNX Runtime's document ContribOperators
defines them.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import onnx
from onnx.defs import OpSchema

MICROSOFT_DOMAIN = "com.microsoft"

Sizes = list[int | str | None]
"""Numbers, names, and None for what is unknown."""
_VERSION = 1
_MATRIX = 2
_HALF_A_BYTE = 4
_RESULTS_SCALE = 7
"""Which input of QGemm is the result's scale."""
_SUM_OUTPUT = 3
"""Index of the output of a normalization that holds the sum it normalizes."""


@contextmanager
def microsoft_operators_known(model: onnx.ModelProto) -> Iterator[None]:
    """Registers the operators' schemas with ONNX inside the context, if the model imports their domain."""
    schemas = [_schema(*entry) for entry in _RULES.items()] if _imports(model) else []
    known = [each for each in schemas if not onnx.defs.has(each.name, MICROSOFT_DOMAIN)]
    for schema in known:
        onnx.defs.register_schema(schema)
    try:
        yield
    finally:
        for schema in known:
            onnx.defs.deregister_schema(schema.name, _VERSION, MICROSOFT_DOMAIN)


def _imports(model: onnx.ModelProto) -> bool:
    return any(opset.domain == MICROSOFT_DOMAIN for opset in model.opset_import)


class _Node:
    """A node during inference."""

    def __init__(self, context: onnx.shape_inference.InferenceContext) -> None:
        self._context = context

    def dtype(self, place: int) -> int:
        """Returns the element type of an input, or 0 if it is unknown."""
        given = self._type(place)
        return 0 if given is None else given.elem_type

    def sizes(self, place: int) -> Sizes | None:
        """Returns the sizes of an input, or None if its rank is unknown."""
        given = self._type(place)
        if given is None or not given.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in given.shape.dim]

    def has(self, place: int) -> bool:
        """Whether an input is given."""
        return place < self._context.get_num_inputs() and self._context.has_input(place)

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute."""
        given = self._context.get_attribute(name)
        return default if given is None else int(given.i)

    def integers(self, name: str) -> list[int]:
        """Returns a list attribute, empty if it is not given."""
        given = self._context.get_attribute(name)
        return [] if given is None else list(given.ints)

    def text(self, name: str, default: str) -> str:
        """An attribute."""
        given = self._context.get_attribute(name)
        return default if given is None else given.s.decode()

    def tell(self, place: int, dtype: int, sizes: Sizes | None) -> None:
        """Sets an output's type and, as far as they are known, its sizes."""
        if dtype and place < self._context.get_num_outputs():
            self._context.set_output_type(place, onnx.helper.make_tensor_type_proto(dtype, sizes))

    def _type(self, place: int) -> onnx.TypeProto.Tensor | None:
        given = self._context.get_input_type(place) if self.has(place) else None
        return None if given is None or not given.HasField("tensor_type") else given.tensor_type


def _like_first(node: _Node) -> None:
    node.tell(0, node.dtype(0), node.sizes(0))


def _skipped(node: _Node) -> None:
    _like_first(node)
    node.tell(_SUM_OUTPUT, node.dtype(0), node.sizes(0))


def _of_blocks(node: _Node) -> None:
    """MatMulNBits and MatMulBnb4: [..., K] by weights of N columns."""
    sizes = node.sizes(0)
    node.tell(0, node.dtype(0), None if not sizes else [*sizes[:-1], node.integer("N") or None])


def _of_convolution(node: _Node) -> None:
    """FusedConv: [batch, channels, …], with sizes along the further axes as a Conv has them."""
    sizes, weights = node.sizes(0), node.sizes(1)
    if not sizes or not weights:
        node.tell(0, node.dtype(0), None)
        return
    axes = len(sizes) - 2
    kernel = node.integers("kernel_shape") or weights[2:]
    strides = node.integers("strides") or [1] * axes
    dilations = node.integers("dilations") or [1] * axes
    pads = node.integers("pads") or [0] * 2 * axes
    along: Sizes
    if node.text("auto_pad", "NOTSET").startswith("SAME"):
        pairs = zip(sizes[2:], strides, strict=True)
        along = [-(-size // step) if isinstance(size, int) else None for size, step in pairs]
    else:
        padded = zip(sizes[2:], pads[:axes], pads[axes:], strict=True)
        wide = [before + size + after if isinstance(size, int) else None for size, before, after in padded]
        along = [
            (size - dilation * (length - 1) - 1) // step + 1
            if isinstance(size, int) and isinstance(length, int)
            else None
            for size, length, step, dilation in zip(wide, kernel, strides, dilations, strict=True)
        ]
    node.tell(0, node.dtype(0), [sizes[0], weights[0], *along])


def _of_projections(node: _Node) -> None:
    """Attention and QAttention: [b, s, width of the values]."""
    sizes, weights, widths = node.sizes(0), node.sizes(1), node.integers("qkv_hidden_sizes")
    columns = weights[-1] if weights else None
    values = widths[-1] if widths else columns // 3 if isinstance(columns, int) else None
    quantized = node.dtype(0) in (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    node.tell(0, onnx.TensorProto.FLOAT if quantized else node.dtype(0), [*sizes[:-1], values] if sizes else None)


def _of_rows(node: _Node) -> None:
    """GatherBlockQuantized of a table [rows, columns], with up to two to a byte; the scales have the result's type."""
    table, places = node.sizes(0), node.sizes(1)
    sizes: Sizes | None = None
    if table and places is not None and node.integer("gather_axis") == 0:
        in_a_byte = 8 // node.integer("bits", 4) if node.dtype(0) == onnx.TensorProto.UINT8 else 1
        last = table[-1]
        sizes = [*places, *table[1:-1], last * in_a_byte if isinstance(last, int) else None]
    node.tell(0, node.dtype(2), sizes)


def _of_grouped_heads(node: _Node) -> None:
    """GroupQueryAttention: [b, s, heads · d], and the caches [b, shared heads, t, d]."""
    query, past, heads, shared = node.sizes(0), node.sizes(3), node.integer("num_heads"), node.integer("kv_num_heads")
    last = query[-1] if query else None
    parts = heads if node.has(1) else heads + 2 * shared
    width = last // parts if isinstance(last, int) and parts else None
    node.tell(0, node.dtype(0), None if not query else [*query[:-1], None if width is None else width * heads])
    batch = query[0] if query else past[0] if past else None
    is_packed = node.integer("kv_cache_bit_width") == _HALF_A_BYTE
    depth = past[-1] if past and (is_packed or width is None) else None if is_packed else width
    for place in (1, 2):
        node.tell(place, node.dtype(3) or node.dtype(0), [batch, shared or None, None, depth])


def _of_steps(node: _Node) -> None:
    """CausalConvWithState: [b, channels, s], and the state."""
    node.tell(0, node.dtype(0), node.sizes(0))
    node.tell(1, node.dtype(3), node.sizes(3))


def _of_linear_heads(node: _Node) -> None:
    """LinearAttention: [b, s, heads · values], and the state [b, heads, keys, values] of shared heads."""
    query, key, value = node.sizes(0), node.sizes(1), node.sizes(2)
    queries, shared = node.integer("q_num_heads"), node.integer("kv_num_heads")
    widths = [each[-1] if each else None for each in (key, value)]
    keys, values = (each // shared if isinstance(each, int) and shared else None for each in widths)
    last = None if values is None else values * max(queries, shared)
    node.tell(0, node.dtype(0), [*query[:-1], last] if query else None)
    if not node.integer("state_window"):
        node.tell(1, node.dtype(3) or node.dtype(0), [query[0] if query else None, shared or None, keys, values])


def _of_gates(node: _Node) -> None:
    """LinearAttentionGate: decays, and rates, each shaped like an input."""
    node.tell(0, node.dtype(0), node.sizes(0))
    node.tell(1, node.dtype(0), node.sizes(3))


def _of_engrams(node: _Node) -> None:
    """EngramGate: two outputs of [b, s, streams, width]."""
    node.tell(0, node.dtype(0), node.sizes(0))
    node.tell(1, node.dtype(0), node.sizes(0))


def _of_streams(node: _Node) -> None:
    """HyperConnectionPreMix: one of the streams, which have a separate axis or lie side by side in the last one."""
    sizes, branches = node.sizes(0), node.integer("num_branches")
    if sizes and branches:
        last = sizes[-1]
        sizes = [*sizes[:-1], last // branches if isinstance(last, int) else None]
    elif sizes:
        sizes = [*sizes[:-2], sizes[-1]]
    node.tell(0, node.dtype(0), sizes)


def _of_heads(node: _Node) -> None:
    """MultiHeadAttention: [b, s, width of the values] if the values have no axis of heads."""
    query, values = node.sizes(0), node.sizes(2)
    known = bool(query and values) and len(query or ()) == len(values or ())
    node.tell(0, node.dtype(0), [*query[:-1], values[-1]] if known and query and values else None)


def _of_tokens(node: _Node) -> None:
    """Tokenizer: for each text its tokens, with as many columns as the longest text has tokens."""
    sizes = node.sizes(0)
    node.tell(0, onnx.TensorProto.STRING, None if sizes is None else [*sizes, None])


def _of_matrices(node: _Node) -> None:
    """FusedGemm, FusedMatMul and TransposeMatMul: products of the last two axes, transposed as the attributes tell."""
    node.tell(0, node.dtype(0), _product(node, 1))


def _of_quantized_matrices(node: _Node) -> None:
    """QGemm: integers where the result's scale is given, else float32."""
    node.tell(0, node.dtype(0) if node.has(_RESULTS_SCALE) else onnx.TensorProto.FLOAT, _product(node, 3))


def _of_integers(node: _Node) -> None:
    """MatMulIntegerToFloat and DynamicQuantizeMatMul: a product in float32."""
    node.tell(0, onnx.TensorProto.FLOAT, _product(node, 1))


def _of_both(node: _Node) -> None:
    """QLinearAdd and QLinearMul: the shape to which both operands broadcast."""
    one, other = node.sizes(0), node.sizes(3)
    node.tell(0, node.dtype(0), None if one is None or other is None else _broadcast_sizes(one, other))


def _product(node: _Node, place: int) -> Sizes | None:
    """Returns the sizes of the matrix product of the first input with another one, or None if unknown."""
    left, right = node.sizes(0), node.sizes(place)
    moved = node.integer("transBatchA") or node.integer("transBatchB")
    if not left or not right or min(len(left), len(right)) < _MATRIX or moved:
        return None
    rows = left[-1] if node.integer("transA") else left[-2]
    columns = right[-2] if node.integer("transB") else right[-1]
    return [*_broadcast_sizes(left[:-2], right[:-2]), rows, columns]


def _broadcast_sizes(one: Sizes, other: Sizes) -> Sizes:
    pairs = itertools.zip_longest(reversed(one), reversed(other), fillvalue=1)
    return [_broadcast(*pair) for pair in pairs][::-1]


def _broadcast(one: int | str | None, other: int | str | None) -> int | str | None:
    """The size that two axes have together; None where it is not known."""
    if one == other or other == 1:
        return one
    if one == 1 or isinstance(other, int):
        return other
    return one if isinstance(one, int) else None


_RULES: dict[str, Callable[[_Node], None]] = {
    **dict.fromkeys(["BiasGelu", "FastGelu", "Gelu", "Inverse", "QuickGelu", "RotaryEmbedding"], _like_first),
    **dict.fromkeys(["BranchwiseRMSNorm", "GatedAdd", "GatedRMSNorm", "HyperConnectionPostMix"], _like_first),
    **dict.fromkeys(["MRotaryEmbedding", "MoE", "QMoE", "ScaledSiLU", "Trilu"], _like_first),
    **dict.fromkeys(["DynamicQuantizeMatMul", "MatMulIntegerToFloat"], _of_integers),
    **dict.fromkeys(["Attention", "QAttention"], _of_projections),
    **dict.fromkeys(["FusedGemm", "FusedMatMul", "TransposeMatMul"], _of_matrices),
    **dict.fromkeys(["QLinearAdd", "QLinearMul"], _of_both),
    **dict.fromkeys(["QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax"], _like_first),
    **dict.fromkeys(["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"], _skipped),
    "CausalConvWithState": _of_steps,
    "EngramGate": _of_engrams,
    "FusedConv": _of_convolution,
    "GatherBlockQuantized": _of_rows,
    "GroupQueryAttention": _of_grouped_heads,
    "HyperConnectionPreMix": _of_streams,
    "LinearAttention": _of_linear_heads,
    "LinearAttentionGate": _of_gates,
    "MatMulBnb4": _of_blocks,
    "MatMulNBits": _of_blocks,
    "MultiHeadAttention": _of_heads,
    "QGemm": _of_quantized_matrices,
    "Tokenizer": _of_tokens,
}


@cache
def _schema(name: str, rule: Callable[[_Node], None]) -> OpSchema:
    """Returns a schema that accepts any inputs and outputs; checking them is left to ONNX Runtime."""
    types = onnx.defs.get_schema("Identity").type_constraints[0].allowed_type_strs  # those of all tensors
    variadic, inputs, outputs = OpSchema.FormalParameterOption.Variadic, "inputs", "outputs"
    given, made = (
        OpSchema.FormalParameter(each, each, param_option=variadic, is_homogeneous=False, min_arity=0)
        for each in (inputs, outputs)
    )
    constraints = [(each, types, "") for each in (inputs, outputs)]
    schema = OpSchema(name, MICROSOFT_DOMAIN, _VERSION, inputs=[given], outputs=[made], type_constraints=constraints)
    schema.set_type_and_shape_inference_function(lambda context: rule(_Node(context)))
    return schema
