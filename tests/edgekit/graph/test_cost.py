from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.cost import cost, parameter_count
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float32)


@pytest.fixture
def model(onnx_model: OnnxModel) -> Callable[..., Model]:
    return lambda graph, **rest: infer_shapes(Model(ir.from_proto(onnx_model(graph, **rest))))


# Every expected number is the product that the comment beside it spells out.
COUNTS = {
    "conv": (
        "g (float[1, 3, 8, 8] x) => (float[1, 5, 6, 6] y) { y = Conv (x, w) }",
        {"w": zeros(5, 3, 3, 3)},
        5 * 6 * 6 * 3 * 3 * 3,  # outputs × inputs of one
    ),
    "grouped conv": (
        "g (float[2, 4, 8, 8] x) => (float[2, 4, 4, 4] y) "
        "{ y = Conv <group = 4, strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) }",
        {"w": zeros(4, 1, 3, 3)},
        2 * 4 * 4 * 4 * 3 * 3,  # every channel on its own
    ),
    "transposed conv": (
        "g (float[1, 3, 4, 4] x) => (float[1, 6, 8, 8] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
        {"w": zeros(3, 6, 2, 2)},
        3 * 4 * 4 * 6 * 2 * 2,  # every input to all it reaches
    ),
    "matrix product": (
        "g (float[2, 5, 7] x) => (float[2, 5, 3] y) { y = MatMul (x, w) }",
        {"w": zeros(7, 3)},
        2 * 5 * 3 * 7,
    ),
    "gemm": (
        "g (float[7, 5] x) => (float[5, 3] y) { y = Gemm <transA = 1, transB = 1> (x, w) }",
        {"w": zeros(3, 7)},
        5 * 3 * 7,
    ),
    "einsum": (
        "g (float[2, 4, 5] x, float[2, 5, 6] z) => (float[2, 4, 6] y) "
        '{ y = Einsum <equation = "bij,bjk->bik"> (x, z) }',
        {},
        2 * 4 * 5 * 6,
    ),
    "einsum of one": ('g (float[2, 3] x) => (float[3, 2] y) { y = Einsum <equation = "ij->ji"> (x) }', {}, 0),
    "lstm": (
        "g (float[9, 2, 4] x) => (float[9, 1, 2, 3] y) { y = LSTM <hidden_size = 3> (x, w, r) }",
        {"w": zeros(1, 12, 4), "r": zeros(1, 12, 3)},
        9 * 2 * 4 * (3 * 4 + 3 * 3),  # steps × batch × gates × (input and hidden products)
    ),
    "bidirectional gru": (
        "g (float[9, 2, 4] x) => (float[9, 2, 2, 3] y) "
        '{ y = GRU <hidden_size = 3, direction = "bidirectional"> (x, w, r) }',
        {"w": zeros(2, 9, 4), "r": zeros(2, 9, 3)},
        9 * 2 * 2 * 3 * (3 * 4 + 3 * 3),
    ),
    "elementwise": ("g (float[10] x) => (float[10] y) { y = Mul (x, x) }", {}, 0),
}


@pytest.mark.parametrize("name", COUNTS)
def test_macs_by_hand(model: Callable[..., Model], name: str) -> None:
    graph, weights, expected = COUNTS[name]
    counted = cost(model(graph, **weights))
    assert counted.macs == expected
    assert counted.uncounted == ()


@pytest.mark.parametrize("shape", ["[1, 4, 10, 8]", "[1, 10, 32]"])
def test_attention_multiplies_queries_by_keys_and_weights_by_values(model: Callable[..., Model], shape: str) -> None:
    heads = "" if shape.count(",") == 3 else "<q_num_heads = 4, kv_num_heads = 4>"
    inputs = ", ".join(f"float{shape} {name}" for name in "qkv")
    counted = cost(model(f"g ({inputs}) => (float{shape} y) {{ y = Attention {heads} (q, k, v) }}", opset=23))
    assert counted.macs == 4 * 10 * 10 * (8 + 8)


def test_attention_to_a_past_multiplies_its_keys_and_values_too(model: Callable[..., Model]) -> None:
    graph = """g (float[1, 4, 1, 8] q, float[1, 2, 1, 8] k, float[1, 2, 1, 6] v, float[1, 2, 30, 8] pk,
                  float[1, 2, 30, 6] pv) => (float[1, 4, 1, 6] y, float[1, 2, 31, 8] nk, float[1, 2, 31, 6] nv) {
        y, nk, nv = Attention (q, k, v, , pk, pv)
    }"""
    assert cost(model(graph, opset=23)).macs == 4 * 1 * 31 * (8 + 6)


# ONNX Runtime's own operators, by its document ContribOperators.
MICROSOFT = {
    "conv with its activation": (
        '(float[1, 3, 8, 8] x) => (float[1, 5, 6, 6] y) { y = com.microsoft.FusedConv <activation = "Relu"> (x, w) }',
        {"w": zeros(5, 3, 3, 3)},
        5 * 6 * 6 * 3 * 3 * 3,
    ),
    "gemm with its activation": (
        '(float[7, 5] x) => (float[5, 3] y) { y = com.microsoft.FusedGemm <activation = "Relu", transA = 1> (x, w) }',
        {"w": zeros(7, 3)},
        5 * 3 * 7,
    ),
    "product": (
        "(float[2, 5, 7] x) => (float[2, 5, 3] y) { y = com.microsoft.FusedMatMul (x, w) }",
        {"w": zeros(7, 3)},
        2 * 5 * 3 * 7,
    ),
    "product of a transposed factor": (
        "(float[2, 7, 5] x) => (float[2, 5, 3] y) { y = com.microsoft.FusedMatMul <transA = 1> (x, w) }",
        {"w": zeros(7, 3)},
        2 * 5 * 3 * 7,
    ),
    "product of a factor led by its rows": (
        "(float[7, 2, 5] x) => (float[2, 5, 3] y) "
        "{ y = com.microsoft.FusedMatMul <transA = 1, transBatchA = 1> (x, w) }",
        {"w": zeros(7, 3)},
        2 * 5 * 3 * 7,
    ),
    "attention of projections": (
        "(float[2, 5, 8] x) => (float[2, 5, 8] y) { y = com.microsoft.Attention <num_heads = 2> (x, w) }",
        {"w": zeros(8, 24)},
        2 * 5 * 8 * 24 + 2 * 2 * 5 * 5 * (4 + 4),  # projections, and batch × heads × queries × keys × both sizes
    ),
    "attention of projections with a past": (
        "(float[2, 5, 8] x, float[2, 2, 2, 3, 4] past) => (float[2, 5, 8] y, float[2, 2, 2, 8, 4] present) "
        "{ y, present = com.microsoft.Attention <num_heads = 2> (x, w, , , past) }",
        {"w": zeros(8, 24)},
        2 * 5 * 8 * 24 + 2 * 2 * 5 * 8 * (4 + 4),
    ),
    "attention of narrow values": (
        "(float[2, 5, 8] q, float[2, 6, 8] k, float[2, 6, 4] v) => (float[2, 5, 4] y) "
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v) }",
        {},
        2 * 2 * 5 * 6 * (4 + 2),
    ),
    "attention by heads": (
        "(float[2, 5, 8] q, float[2, 2, 6, 4] k, float[2, 2, 6, 4] v) => (float[2, 5, 8] y) "
        "{ y = com.microsoft.MultiHeadAttention <num_heads = 2> (q, k, v) }",
        {},
        2 * 2 * 5 * 6 * (4 + 4),
    ),
    "attention of one tensor": (
        "(float[2, 5, 2, 3, 4] q) => (float[2, 5, 8] y) { y = com.microsoft.MultiHeadAttention <num_heads = 2> (q) }",
        {},
        2 * 2 * 5 * 5 * (4 + 4),
    ),
    "grouped attention": (
        "(float[1, 1, 8] q, float[1, 1, 4] k, float[1, 1, 4] v, float[1, 1, 6, 4] pk, float[1, 1, 6, 4] pv, "
        "int32[1] l, int32 t) => (float[1, 1, 8] y, float[1, 1, 7, 4] nk, float[1, 1, 7, 4] nv) "
        "{ y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 2, kv_num_heads = 1> (q, k, v, pk, pv, l, t) }",
        {},
        2 * 1 * 7 * (4 + 4),  # query heads × queries × keys × both sizes
    ),
    "experts": (
        "(float[5, 8] x, float[5, 4] r) => (float[5, 8] y) { y = com.microsoft.MoE <k = 2> (x, r, w1, , w2) }",
        {"w1": zeros(4, 16, 8), "w2": zeros(4, 8, 16)},
        5 * 2 * (8 * 16 + 16 * 8),  # rows × chosen experts × both products
    ),
    "experts in 4 bits, the second product's in 8": (
        "(float[5, 8] x, float[5, 4] r) => (float[5, 8] y) { "
        "y = com.microsoft.QMoE <k = 2, fc2_expert_weight_bits = 8> (x, r, w1, s1, , w2, s2) }",
        {
            "w1": np.zeros((4, 16, 4), np.uint8),
            "s1": zeros(4, 16),
            "w2": np.zeros((4, 8, 16), np.uint8),
            "s2": zeros(4, 8),
        },
        5 * 2 * (8 * 16 + 16 * 8),
    ),
    "linear attention": (
        "(float[1, 5, 12] q, float[1, 5, 6] k, float[1, 5, 8] v) => (float[1, 5, 16] y, float[1, 2, 3, 4] s) "
        '{ y, s = com.microsoft.LinearAttention <q_num_heads = 4, kv_num_heads = 2, update_rule = "linear"> '
        "(q, k, v) }",
        {},
        5 * (2 * 3 * 4 + 4 * 3 * 4),  # steps × (keys by values, queries by the state)
    ),
    "linear attention that corrects its state": (
        "(float[1, 5, 12] q, float[1, 5, 6] k, float[1, 5, 8] v, float[1, 5, 2] b) => "
        "(float[1, 5, 16] y, float[1, 2, 3, 4] s) "
        '{ y, s = com.microsoft.LinearAttention <q_num_heads = 4, kv_num_heads = 2, update_rule = "delta"> '
        "(q, k, v, , , b) }",
        {},
        5 * (2 * 2 * 3 * 4 + 4 * 3 * 4),
    ),
    "convolution of what came before": (
        "(float[1, 6, 10] x) => (float[1, 6, 10] y, float[1, 6, 3] s) "
        "{ y, s = com.microsoft.CausalConvWithState (x, w) }",
        {"w": zeros(6, 1, 4)},
        6 * 10 * 4,
    ),
}


@pytest.mark.parametrize("name", MICROSOFT)
def test_macs_of_onnx_runtimes_operators_by_hand(onnx_model: OnnxModel, name: str) -> None:
    graph, weights, expected = MICROSOFT[name]
    proto = onnx_model(f"g {graph}", **weights)
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    counted = cost(infer_shapes(Model(ir.from_proto(proto))))
    assert (counted.macs, counted.uncounted) == (expected, ())


def test_a_file_that_onnx_runtime_optimized_costs_as_much_as_before(onnx_model: OnnxModel, tmp_path: Path) -> None:
    graph = """g (float[1, 3, 10, 10] x) => (float[1, 6] y) {
        c = Conv <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w)
        r = Relu (c)
        f = Flatten (r)
        m = Gemm (f, g)
        y = Relu (m)
    }"""
    proto = onnx_model(graph, w=zeros(4, 3, 3, 3), g=zeros(100, 6))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(tmp_path / "optimized.onnx")
    assert {"FusedConv", "FusedGemm"} <= {node.op_type for node in optimized.graph.node}
    counted = [cost(infer_shapes(Model(ir.from_proto(each)))) for each in (proto, optimized)]
    assert counted[0] == counted[1]
    assert counted[1].macs == 4 * 5 * 5 * 3 * 3 * 3 + 100 * 6


def test_the_dearest_branch_counts(model: Callable[..., Model]) -> None:
    graph = """g (float[1, 4] x, bool flag) => (float[1, 4] y) {
        y = If (flag) <
            then_branch = t () => (float[1, 4] a) { a = MatMul (x, w) },
            else_branch = e () => (float[1, 4] b) { c = MatMul (x, w) b = MatMul (c, w) }
        >
    }"""
    assert cost(model(graph, w=zeros(4, 4))).macs == 2 * 4 * 4


def test_what_has_no_fixed_shape_is_named(model: Callable[..., Model]) -> None:
    counted = cost(model("g (float[N, 4] x) => (float[N, 4] y) { [mm] y = MatMul (x, w) }", w=zeros(4, 4)))
    assert counted.uncounted == ("mm",)


def test_parameters_are_what_was_learned(model: Callable[..., Model]) -> None:
    graph = "g (float[1, 4] x) => (float[2, 2] y) { m = MatMul (x, w) b = Add (m, c) y = Reshape (b, shape) }"
    counted = parameter_count(model(graph, w=zeros(4, 4), c=zeros(4), shape=np.array([2, 2])))
    assert counted == 16 + 4


def test_quantized_weights_are_parameters_too(model: Callable[..., Model]) -> None:
    graph = "g (float[1, 4] x) => (float[1, 4] y) { d = DequantizeLinear (w, s) y = MatMul (x, d) }"
    assert parameter_count(model(graph, w=np.zeros((4, 4), np.int8), s=np.array(0.1, np.float32))) == 16 + 1
