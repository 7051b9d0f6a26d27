"""Shapes and types of what ``com.microsoft`` makes, against those that ONNX Runtime gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper, numpy_helper

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

MICROSOFT = "com.microsoft"
B, S, D, H, W = 2, 3, 32, 2, 16
RNG = np.random.default_rng(4)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def integers(dtype: type, most: int, *shape: int) -> np.ndarray:
    return RNG.integers(0, most, shape).astype(dtype)


X = floats(B, S, D)
SCALE, ZERO = np.float32(0.02), np.uint8(120)
SCALED = [SCALE, ZERO]
MATRIX = [integers(np.uint8, 256, B, D), *SCALED, integers(np.uint8, 256, 5, D), *SCALED]
PICTURE = floats(1, 4, 9, 8)
CASES: Mapping[str, tuple[Sequence[np.ndarray | None], Sequence[bool], dict[str, Any]]] = {
    "Attention": ([X, floats(D, 3 * D), floats(3 * D)], [True], {"num_heads": H}),
    "Attention of narrow values": (
        [X, floats(D, 2 * D + W), floats(2 * D + W)],
        [True],
        {"num_heads": H, "qkv_hidden_sizes": [D, D, W]},
    ),
    "BiasGelu": ([X, floats(D)], [True], {}),
    "BranchwiseRMSNorm": ([X, floats(W)], [True], {"num_branches": 2}),
    "CausalConvWithState": ([X, floats(S, 1, 4), None, floats(B, S, 3)], [True, True], {"ndim": 1}),
    "DynamicQuantizeMatMul": ([X, integers(np.uint8, 256, D, 5), SCALE], [True], {}),
    "EngramGate": (
        [*floats(2, B, S, 2, D), X, *floats(3, 2, D)],
        [True, True],
        {},
    ),
    "FastGelu": ([X], [True], {}),
    "FusedConv": (
        [PICTURE, floats(6, 2, 3, 2), floats(6)],
        [True],
        {"activation": "Relu", "group": 2, "strides": [2, 3], "dilations": [2, 1], "pads": [1, 0, 2, 1]},
    ),
    "FusedConv of the same size": (
        [PICTURE, floats(6, 4, 3, 3)],
        [True],
        {"activation": "Relu", "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    ),
    "FusedConv without padding": ([PICTURE, floats(6, 4, 3, 3)], [True], {"activation": "Relu", "auto_pad": "VALID"}),
    "FusedGemm": ([floats(D, 3), floats(5, D)], [True], {"transA": 1, "transB": 1, "activation": "Relu"}),
    "FusedMatMul": ([X, floats(1, D, 5)], [True], {}),
    "FusedMatMul of transposed": ([floats(S, D), floats(B, 5, S)], [True], {"transA": 1, "transB": 1}),
    "GatherBlockQuantized": (
        [integers(np.uint8, 256, 7, D // 2), integers(np.int64, 7, B, S), floats(7, 1)],
        [True],
        {"block_size": 32, "bits": 4, "gather_axis": 0, "quantize_axis": 1},
    ),
    "GroupQueryAttention": (
        [X[:1], *floats(2, 1, S, W), *floats(2, 1, 1, 4, W), np.array([S + 3], np.int32), np.array(S + 4, np.int32)],
        [True, True, True],
        {"num_heads": H, "kv_num_heads": 1},
    ),
    "HyperConnectionPreMix": ([floats(B, S, 2, D), floats(B, S, 2)], [True], {}),
    "HyperConnectionPreMix of flat streams": ([X, floats(B, S, 2)], [True], {"num_branches": 2}),
    "LinearAttention": (
        [floats(B, S, 4 * W), floats(B, S, 2 * W), floats(B, S, 6), None, floats(B, S, 2), floats(B, S, 2)],
        [True, True],
        {"q_num_heads": 4, "kv_num_heads": 2},
    ),
    "LinearAttentionGate": ([floats(B, S, H), *floats(2, H), floats(B, S, H)], [True, True], {}),
    "MatMulNBits": (
        [X, integers(np.uint8, 256, 5, 1, 16), floats(5)],
        [True],
        {"K": D, "N": 5, "bits": 4, "block_size": 32},
    ),
    "MatMulIntegerToFloat": (
        [integers(np.uint8, 256, B, S, D), integers(np.uint8, 256, D, 5), SCALE, SCALE],
        [True],
        {},
    ),
    "MoE": ([X, floats(B * S, 2), floats(2, W, D), None, floats(2, D, W)], [True], {}),
    "MultiHeadAttention": ([X, X, floats(B, S, 4 * H)], [True], {"num_heads": H}),
    "QAttention": (
        [
            integers(np.uint8, 256, B, S, D),
            integers(np.uint8, 256, D, 3 * D),
            floats(3 * D),
            SCALE,
            SCALE,
            None,
            ZERO,
            ZERO,
        ],
        [True],
        {"num_heads": H},
    ),
    "QGemm": ([*MATRIX, integers(np.int32, 99, 5), *SCALED], [True], {"transB": 1}),
    "QGemm in float": (MATRIX, [True], {"transB": 1}),
    "QLinearAdd": ([*MATRIX[:3], integers(np.uint8, 256, S, 1, D), *SCALED, *SCALED], [True], {}),
    "QLinearSoftmax": ([*MATRIX[:3], *SCALED], [True], {"opset": 13}),
    "QuickGelu": ([X], [True], {}),
    "SkipLayerNormalization": ([X, X, floats(D)], [True, False, False, True], {}),
    "SkipSimplifiedLayerNormalization": ([X, X, floats(D)], [True, False, False, True], {}),
}


def model(op_type: str) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    arrays, made, attributes = CASES[op_type]
    op_type = op_type.partition(" ")[0]
    feeds = {f"i{place}": array for place, array in enumerate(arrays) if array is not None}
    weights = {name: array for name, array in feeds.items() if name != "i0" or op_type == "GatherBlockQuantized"}
    if op_type in ("GroupQueryAttention", "MultiHeadAttention"):
        weights = {}
    weights.pop("i1", None) if op_type == "GatherBlockQuantized" else None
    given = ["" if array is None else f"i{place}" for place, array in enumerate(arrays)]
    names = [f"o{place}" if given else "" for place, given in enumerate(made)]
    graph = helper.make_graph(
        [helper.make_node(op_type, given, names, "node", domain=MICROSOFT, **attributes)],
        "single",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
            if name not in weights
        ],
        [onnx.ValueInfoProto(name=name) for name in names if name],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    return proto, {name: array for name, array in feeds.items() if name not in weights}


@pytest.mark.parametrize("op_type", CASES)
def test_sizes_and_types_are_those_of_onnx_runtime(op_type: str) -> None:
    proto, feeds = model(op_type)
    inferred = infer_shapes(Model(ir.from_proto(proto)), strict=True)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    for value, array in zip(inferred.graph.outputs, session.run(None, feeds), strict=True):
        assert value.dtype is not None
        assert value.dtype.numpy() == array.dtype
        assert value.shape is not None
        sizes = [size if isinstance(dim, int) else None for dim, size in zip(value.shape, array.shape, strict=True)]
        assert [dim for dim in value.shape if isinstance(dim, int)] == [size for size in sizes if size is not None]
        assert isinstance(value.shape[-1], int)


def test_a_tokenizer_gives_texts_along_one_more_axis() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (string[2] x) => (float[N, M] y) {
        t = com.microsoft.Tokenizer <mark = 0, mincharnum = 1, pad_value = "#", separators = [" "]> (x)
        y = TfIdfVectorizer <max_gram_length = 1, max_skip_count = 0, min_gram_length = 1, mode = "TF",
            ngram_counts = [0], ngram_indexes = [0, 1, 2], pool_strings = ["a", "b", "c"]> (t)
    }"""
    proto = onnx.parser.parse_model(text)
    proto.graph.output[0].type.tensor_type.ClearField("shape")
    (y,) = infer_shapes(Model(ir.from_proto(proto)), strict=True).graph.outputs
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": np.array(["a b c b", "c"])})
    assert y.shape is not None
    assert tuple(y.shape) == found.shape == (2, 3)


def test_the_operators_are_unknown_again_afterwards() -> None:
    proto, _ = model("MatMulNBits")
    infer_shapes(Model(ir.from_proto(proto)))
    assert not onnx.defs.has("MatMulNBits", MICROSOFT)
