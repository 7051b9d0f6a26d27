"""Operators of ONNX Runtime's fused Transformers where the batch and the sequence are open."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError

HEADS, SIZE = 2, 8
WIDTH = HEADS * SIZE
SIZES = [(1, 3), (2, 5), (3, 4)]
DIMENSIONS = {"b": range(1, 4), "s": range(2, 7)}

Array = np.ndarray


def weights(rng: np.random.Generator) -> dict[str, Array]:
    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape, dtype=np.float32)

    angles = rng.random((10, SIZE // 2), np.float32)
    return {
        "w": normal(WIDTH, 3 * WIDTH),
        "c": normal(3 * WIDTH),
        "gain": normal(WIDTH),
        "offset": normal(WIDTH),
        "words": normal(9, WIDTH),
        "places": normal(8, WIDTH),
        "segments": normal(2, WIDTH),
        "cosines": np.cos(angles),
        "sines": np.sin(angles),
        "first": np.array([2]),
    }


X = ("x", np.float32, ["b", "s", WIDTH])
KEYS = ("mask", np.int32, ["b", "s"])
LENGTHS = ("mask", np.int32, ["b"])
PAIRS = ("mask", np.int32, ["b", "s", "s"])
IDS = ("ids", np.int32, ["b", "s"])
KINDS = ("segment", np.int32, ["b", "s"])

CASES: list[tuple[str, str, list[str], list[tuple[str, Any, list[Any]]], dict[str, Any]]] = [
    ("plain", "Attention", ["x", "w", "c"], [X], {"num_heads": HEADS}),
    ("causal", "Attention", ["x", "w", "c"], [X], {"num_heads": HEADS, "unidirectional": 1}),
    ("keys", "Attention", ["x", "w", "c", "mask"], [X, KEYS], {"num_heads": HEADS}),
    ("lengths", "Attention", ["x", "w", "c", "mask"], [X, LENGTHS], {"num_heads": HEADS}),
    ("pairs", "Attention", ["x", "w", "c", "mask"], [X, PAIRS], {"num_heads": HEADS, "unidirectional": 1}),
    ("many", "MultiHeadAttention", ["x", "x", "x", "c"], [X], {"num_heads": HEADS}),
    ("many keys", "MultiHeadAttention", ["x", "x", "x", "", "mask"], [X, KEYS], {"num_heads": HEADS}),
    (
        "many keys, causal",
        "MultiHeadAttention",
        ["x", "x", "x", "", "mask"],
        [X, KEYS],
        {"num_heads": HEADS, "unidirectional": 1},
    ),
    ("rotary", "RotaryEmbedding", ["x", "first", "cosines", "sines"], [X], {"num_heads": HEADS}),
    (
        "pairs turned",
        "RotaryEmbedding",
        ["x", "first", "cosines", "sines"],
        [X],
        {"num_heads": HEADS, "interleaved": 1},
    ),
    ("skip", "SkipLayerNormalization", ["x", "x", "gain", "offset"], [X], {}),
    ("gelu", "BiasGelu", ["x", "gain"], [X], {}),
    ("fast", "FastGelu", ["x"], [X], {}),
    (
        "embedded",
        "EmbedLayerNormalization",
        ["ids", "segment", "words", "places", "segments", "gain", "offset"],
        [IDS, KINDS],
        {},
    ),
]


@pytest.mark.parametrize(
    ("operator", "names", "fed", "attributes"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_what_onnx_runtime_computes_at_every_size(
    tmp_path: Path,
    rng: np.random.Generator,
    operator: str,
    names: list[str],
    fed: list[tuple[str, Any, list[Any]]],
    attributes: dict[str, Any],
) -> None:
    constants = {name: array for name, array in weights(rng).items() if name in names}
    outputs = ["y", "z"] if operator == "EmbedLayerNormalization" else ["y"]
    types = {np.float32: onnx.TensorProto.FLOAT, np.int32: onnx.TensorProto.INT32}
    graph = make_graph(
        [make_node(operator, names, outputs, domain="com.microsoft", **attributes)],
        "open",
        [make_tensor_value_info(name, types[dtype], shape) for name, dtype, shape in fed],
        [make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["b", "s", WIDTH])],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [make_opsetid("", 17), make_opsetid("com.microsoft", 1)]
    model = make_model(graph, opset_imports=opsets, ir_version=10)
    dimensions = {name: DIMENSIONS[name] for name in ("b", "s")}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch, steps in SIZES:
        feeds = {}
        for name, dtype, shape in fed:
            sizes = [{"b": batch, "s": steps}.get(dim, dim) for dim in shape]
            greatest = {"ids": 9, "segment": 2}.get(name, 2)
            drawn = rng.standard_normal(sizes) if dtype is np.float32 else rng.integers(0, greatest, sizes)
            feeds[name] = drawn.astype(dtype)
            if name == "mask":
                seen = steps - 1 if "unidirectional" in attributes else 0
                feeds[name] = 1 + feeds[name] if len(shape) == 1 else np.maximum(feeds[name], np.arange(steps) == seen)
            feeds[name] = feeds[name].astype(dtype)
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(["y"], feeds)[0], rtol=0, atol=1e-4)


def test_what_needs_fixed_sizes_says_so(tmp_path: Path, rng: np.random.Generator) -> None:
    """Keys and values that are kept in a cache have places of their own."""
    names = ["x", "x", "x", "", "", "lengths", "total"]
    graph = make_graph(
        [
            make_node(
                "GroupQueryAttention", names, ["y", "k", "v"], "att", None, "com.microsoft", num_heads=2, kv_num_heads=2
            )
        ],
        "open",
        [make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, "s", WIDTH])],
        [make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, "s", WIDTH])],
        [
            onnx.numpy_helper.from_array(np.array([3], np.int32), "lengths"),
            onnx.numpy_helper.from_array(np.array(4, np.int32), "total"),
        ],
    )
    opsets = [make_opsetid("", 17), make_opsetid("com.microsoft", 1)]
    model = make_model(graph, opset_imports=opsets, ir_version=10)
    told = (
        r"'att'\): needs fixed sizes, found 1×\?×16, 1×\?×16, 1×\?×16; the rewrite 'grouped attention written out' was "
        r"dropped: nothing can be compared: .*; fix the dimension with --dim s=SIZE"
    )
    with pytest.raises(UnsupportedOpsError, match=told):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"s": range(2, 7)})
