"""What ONNX Runtime's optimizer and quantizer fuse transformers into, against its own kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(8)
MICROSOFT = "com.microsoft"
FLOAT, INT32 = TensorProto.FLOAT, TensorProto.INT32
BATCH, STEPS, PAST, HEADS, WIDTH = 2, 5, 3, 2, 8
WORDS = RNG.integers(0, 10, (BATCH, STEPS)).astype(np.int32)
SEGMENTS = RNG.integers(0, 2, (BATCH, STEPS)).astype(np.int32)
MASK = np.array([[1, 1, 1, 1, 0], [1, 1, 1, 0, 0]], np.int32)


def floats(*shape: int) -> np.ndarray:
    return 0.5 * RNG.standard_normal(shape).astype(np.float32)


def integers(dtype: type, *shape: int) -> np.ndarray:
    bounds = np.iinfo(dtype)
    return RNG.integers(bounds.min, bounds.max + 1, shape).astype(dtype)


def one_node(
    op_type: str,
    arrays: Sequence[np.ndarray | None],
    outputs: Mapping[str, int],
    *,
    fed: Sequence[int],
    is_open: bool = False,
    opset: int = 14,
    **attributes: Any,
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of one node, some of whose inputs are fed, and what is fed; the first two sizes of those may be open."""
    names = ["" if array is None else f"i{place}" for place, array in enumerate(arrays)]
    feeds = {names[place]: array for place in fed if (array := arrays[place]) is not None}
    graph = helper.make_graph(
        [helper.make_node(op_type, names, list(outputs), "node", domain=MICROSOFT, **attributes)],
        "single",
        [
            helper.make_tensor_value_info(
                name,
                helper.np_dtype_to_tensor_dtype(array.dtype),
                ["batch", "steps", *array.shape[2:]][: array.ndim] if is_open else array.shape,
            )
            for name, array in feeds.items()
        ],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items() if name],
        [
            numpy_helper.from_array(array, name)
            for name, array in zip(names, arrays, strict=True)
            if array is not None and name not in feeds
        ],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


def tables(dtype: type) -> list[np.ndarray]:
    """Tables of 10 words, 7 positions and 2 segments, a factor and a summand."""
    shapes = [(10, WIDTH), (7, WIDTH), (2, WIDTH), (WIDTH,), (WIDTH,)]
    return [floats(*shape) if dtype is np.float32 else integers(dtype, *shape) for shape in shapes]


def quantized_embeddings(dtype: type, *, segments: bool, mask: bool) -> list[np.ndarray | None]:
    """The inputs of QEmbedLayerNormalization."""
    scales = [np.array(0.01 * place, np.float32) for place in range(1, 6)]
    zeros = [np.array(3 * place, dtype) for place in range(1, 6)]
    found: list[np.ndarray | None] = [WORDS, SEGMENTS, *tables(dtype), MASK, *scales, *zeros]
    left_out = [] if segments else [1, 4, 10, 15]
    for place in [*left_out, *([] if mask else [7])]:
        found[place] = None
    return found


@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize(("segments", "mask"), [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("is_open", [False, True], ids=["fixed", "open"])
def test_quantized_embeddings(
    assert_rewritten: Callable[..., Any], dtype: type, segments: bool, mask: bool, is_open: bool
) -> None:
    arrays = quantized_embeddings(dtype, segments=segments, mask=mask)
    outputs = {"y": FLOAT, "lengths": INT32}
    model, feeds = one_node(
        "QEmbedLayerNormalization", arrays, outputs, fed=(0, 1, 7), is_open=is_open, epsilon=1e-5, opset=13
    )
    shorter = {name: array[:1, :2] for name, array in feeds.items()}
    result = assert_rewritten(model, feeds, *([shorter] if is_open else []), atol=1e-5)
    assert [each.rewrite for each in result.applied] == ["embeddings summed and normalized"]


def test_tables_of_embeddings_stay_in_8_bits(assert_rewritten: Callable[..., Any]) -> None:
    arrays = quantized_embeddings(np.uint8, segments=True, mask=True)
    model, _ = one_node("QEmbedLayerNormalization", arrays, {"y": FLOAT, "lengths": INT32}, fed=(0, 1, 7))
    result = assert_rewritten(model)
    read = {node.inputs[0].name: node.op_type for node in result.model.graph if node.op_type in ("Gather", "Slice")}
    assert {name: read[name] for name in ("i2", "i3", "i4")} == {"i2": "Gather", "i3": "Slice", "i4": "Gather"}


@pytest.mark.parametrize("positions", [False, True])
@pytest.mark.parametrize("opset", [11, 14, 18])
def test_embeddings(assert_rewritten: Callable[..., Any], positions: bool, opset: int) -> None:
    arrays = [WORDS, SEGMENTS, *tables(np.float32), MASK, *([(WORDS % 7)[:, ::-1].copy()] if positions else [])]
    outputs = {"y": FLOAT, "lengths": INT32, "sum": FLOAT}
    model, feeds = one_node("EmbedLayerNormalization", arrays, outputs, fed=(0, 1, 7, 8)[: 3 + positions], opset=opset)
    assert_rewritten(model, feeds, atol=1e-5)


def test_embeddings_in_half_precision(assert_rewritten: Callable[..., Any]) -> None:
    """The default of epsilon would be 0 in half precision."""
    arrays = [WORDS, SEGMENTS, *(table.astype(np.float16) for table in tables(np.float32)), MASK]
    half = onnx.TensorProto.FLOAT16
    outputs = {"y": half, "lengths": INT32, "sum": half}
    model, feeds = one_node("EmbedLayerNormalization", arrays, outputs, fed=(0, 1, 7))
    assert_rewritten(model, feeds, atol=2e-3)


MASKS: dict[str, np.ndarray | None] = {
    "no mask": None,
    "zeros and ones": MASK,
    "nothing is seen": np.array([[0] * STEPS, [1] * STEPS], np.int32),
    "a mask a query": RNG.integers(0, 2, (BATCH, STEPS, STEPS)).astype(np.int32),
    "lengths": np.array([4, 2], np.int32),
    "ends and beginnings": np.array([4, 5, 1, 0], np.int32),
}


def quantized_attention(
    mask: np.ndarray | None, x: type = np.uint8, weights: type = np.int8, *, columns: bool = False
) -> list[np.ndarray | None]:
    shape = (3 * WIDTH,) if columns else ()
    return [
        integers(x, BATCH, STEPS, WIDTH),
        integers(weights, WIDTH, 3 * WIDTH),
        floats(3 * WIDTH),
        np.array(0.011, np.float32),
        (0.01 + 0.001 * RNG.random(shape)).astype(np.float32),
        mask,
        np.array(20, x),
        RNG.integers(0, 9, shape).astype(weights),
    ]


@pytest.mark.parametrize("unidirectional", [0, 1])
@pytest.mark.parametrize("mask", MASKS.values(), ids=MASKS)
def test_quantized_attention(
    assert_rewritten: Callable[..., Any], mask: np.ndarray | None, unidirectional: int
) -> None:
    arrays = quantized_attention(mask)
    model, feeds = one_node(
        "QAttention", arrays, {"y": FLOAT}, fed=(0, 5), num_heads=HEADS, unidirectional=unidirectional
    )
    result = assert_rewritten(model, feeds, atol=1e-5)
    assert [each.rewrite for each in result.applied] == ["attention written out"]
    (product,) = [node for node in result.model.graph if node.op_type == "MatMulInteger"]
    assert product.inputs[1] is not None
    assert product.inputs[1].name == "i1"


@pytest.mark.parametrize(
    ("x", "weights", "columns"), [(np.uint8, np.uint8, False), (np.uint8, np.int8, True), (np.uint8, np.uint8, True)]
)
def test_quantized_attention_of_other_integers(
    assert_rewritten: Callable[..., Any], x: type, weights: type, columns: bool
) -> None:
    arrays = quantized_attention(MASK, x, weights, columns=columns)
    model, feeds = one_node("QAttention", arrays, {"y": FLOAT}, fed=(0, 5), num_heads=HEADS, scale=0.2)
    assert_rewritten(model, feeds, atol=1e-5)


@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("is_masked", [False, True])
def test_quantized_attention_with_a_past(
    assert_rewritten: Callable[..., Any], zero_points: bool, is_masked: bool
) -> None:
    mask = np.array([[0, 1, 1, 1, 1, 1, 1, 1], [1] * 7 + [0]], np.int32) if is_masked else None
    arrays = [*quantized_attention(mask), floats(2, BATCH, HEADS, PAST, WIDTH // HEADS)]
    if not zero_points:
        arrays[6:8] = [None, None]
    outputs = {"y": FLOAT, "present": FLOAT}
    model, feeds = one_node("QAttention", arrays, outputs, fed=(0, 5, 8), num_heads=HEADS, unidirectional=1)
    assert_rewritten(model, feeds, atol=1e-5)


@pytest.mark.parametrize("mask", [None, MASK], ids=["no mask", "mask"])
def test_attention_of_open_sizes(assert_rewritten: Callable[..., Any], mask: np.ndarray | None) -> None:
    model, feeds = one_node(
        "QAttention", quantized_attention(mask), {"y": FLOAT}, fed=(0, 5), is_open=True, num_heads=HEADS
    )
    shorter = {name: array[:1, :3] for name, array in feeds.items()}
    assert_rewritten(model, feeds, shorter, atol=1e-5)


def test_attention_of_as_many_lengths_as_there_are_sequences(assert_rewritten: Callable[..., Any]) -> None:
    arrays = quantized_attention(np.array([3, 4], np.int32))
    model, feeds = one_node("QAttention", arrays, {"y": FLOAT}, fed=(0, 5), is_open=True, num_heads=HEADS)
    result = assert_rewritten(model, feeds, atol=1e-5)
    assert "Expand" not in {node.op_type for node in result.model.graph}


@pytest.mark.parametrize("mask", [MASKS["lengths"], MASKS["ends and beginnings"]], ids=["lengths", "both borders"])
def test_borders_of_an_unknown_number_of_sequences(assert_rewritten: Callable[..., Any], mask: np.ndarray) -> None:
    model, feeds = one_node("QAttention", quantized_attention(mask), {"y": FLOAT}, fed=(0,), num_heads=HEADS)
    model.graph.node[0].input[0] = "chosen"
    model.graph.initializer.append(numpy_helper.from_array(np.ones(BATCH, bool), "all"))
    model.graph.node.insert(0, helper.make_node("Compress", ["i0", "all"], ["chosen"], axis=0))
    result = assert_rewritten(model, feeds, refused=("QAttention",), atol=1e-5)
    assert "Expand" in {node.op_type for node in result.model.graph}


ATTENTIONS: dict[str, tuple[dict[int, np.ndarray], dict[str, Any]]] = {
    "its own scale": ({}, {"scale": 0.3}),
    "what hides a key": ({3: MASK}, {"mask_filter_value": -2.5}),
    "a bias of the scores": ({5: floats(BATCH, HEADS, STEPS, STEPS)}, {}),
    "a bias for all heads, a mask, and no later keys": (
        {3: MASK, 5: floats(1, 1, STEPS, STEPS)},
        {"unidirectional": 1},
    ),
    "other widths": ({1: floats(WIDTH, 14), 2: floats(14)}, {"qkv_hidden_sizes": [4, 4, 6]}),
    "a past": ({4: floats(2, BATCH, HEADS, PAST, WIDTH // HEADS)}, {"unidirectional": 1}),
}


@pytest.mark.parametrize(("given", "attributes"), ATTENTIONS.values(), ids=ATTENTIONS)
@pytest.mark.parametrize("opset", [11, 18])
def test_attention(
    assert_rewritten: Callable[..., Any], given: dict[int, np.ndarray], attributes: dict[str, Any], opset: int
) -> None:
    usual = {0: floats(BATCH, STEPS, WIDTH), 1: floats(WIDTH, 3 * WIDTH), 2: floats(3 * WIDTH)}
    arrays = [(usual | given).get(place) for place in range(6)]
    outputs = {"y": FLOAT} | ({"present": FLOAT} if 4 in given else {})
    model, feeds = one_node("Attention", arrays, outputs, fed=(0, 3, 4, 5), opset=opset, num_heads=HEADS, **attributes)
    assert_rewritten(model, feeds, atol=1e-5)


@pytest.mark.parametrize("mask", ["no mask", "zeros and ones", "lengths"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_in_half_precision(assert_rewritten: Callable[..., Any], mask: str, unidirectional: int) -> None:
    arrays = [floats(BATCH, STEPS, WIDTH), floats(WIDTH, 3 * WIDTH), floats(3 * WIDTH), MASKS[mask]]
    halves = [each.astype(np.float16) if place < 3 and each is not None else each for place, each in enumerate(arrays)]
    attributes = {"num_heads": HEADS, "unidirectional": unidirectional, "mask_filter_value": -1e5}
    model, feeds = one_node("Attention", halves, {"y": TensorProto.FLOAT16}, fed=(0,), **attributes)
    assert_rewritten(model, feeds, atol=4e-3, rtol=4e-3)


ROTATIONS: dict[str, tuple[tuple[int, ...], np.ndarray, int, dict[str, Any]]] = {
    "heads side by side": ((BATCH, STEPS, 8), WORDS % 6, 2, {}),
    "a number of heads": ((BATCH, STEPS, 8), WORDS % 6, 2, {"num_heads": 2}),
    "heads apart": ((BATCH, HEADS, STEPS, 4), WORDS % 6, 2, {}),
    "the first position": ((BATCH, STEPS, 8), np.array([3]), 2, {}),
    "the first position, heads apart": ((BATCH, HEADS, STEPS, 4), np.array([3]), 2, {}),
    "a part": ((BATCH, STEPS, 16), WORDS % 6, 2, {"num_heads": 2, "rotary_embedding_dim": 4}),
    "a part, heads apart": ((BATCH, HEADS, STEPS, 8), np.array([2]), 2, {"num_heads": 2, "rotary_embedding_dim": 4}),
}


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("shape", "positions", "half", "attributes"), ROTATIONS.values(), ids=ROTATIONS)
def test_rotary_embedding(
    assert_rewritten: Callable[..., Any],
    shape: tuple[int, ...],
    positions: np.ndarray,
    half: int,
    attributes: dict[str, Any],
    interleaved: int,
) -> None:
    arrays = [floats(*shape), positions.astype(np.int64), floats(16, half), floats(16, half)]
    model, feeds = one_node("RotaryEmbedding", arrays, {"y": FLOAT}, fed=(0, 1), interleaved=interleaved, **attributes)
    result = assert_rewritten(model, feeds)
    assert [each.rewrite for each in result.applied] == ["rotary embedding written out"]


def test_rotations_that_scale_are_left(assert_rewritten: Callable[..., Any]) -> None:
    arrays = [floats(BATCH, STEPS, 8), (WORDS % 6).astype(np.int64), floats(16, 2), floats(16, 2)]
    model, _ = one_node("RotaryEmbedding", arrays, {"y": FLOAT}, fed=(0, 1), scale=2.0)
    with pytest.raises(AssertionError, match="it packs batches, or scales"):
        assert_rewritten(model)


def test_attention_that_rotates_is_left(assert_rewritten: Callable[..., Any]) -> None:
    model, _ = one_node("QAttention", quantized_attention(None), {"y": FLOAT}, fed=(0,), num_heads=HEADS, do_rotary=1)
    with pytest.raises(AssertionError):
        assert_rewritten(model)
