"""Grouped attention as onnxruntime-genai exports it, against ONNX Runtime's own kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.rewrites.microsoft.group_attention import GroupedAttention

MICROSOFT = "com.microsoft"
ATTENTION = ("GroupQueryAttention",)
HEADS, SHARED, WIDTH = 4, 2, 16
RNG = np.random.default_rng(12)
FLOAT, HALF, INT64 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.INT64


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model(
    *, batch: int | str = 1, packed: bool = False, rotates: bool = False, shared: bool = False, dtype: int = FLOAT,
    biased: bool = False, sinks: bool = False, **attributes: Any,
) -> onnx.ModelProto:  # fmt: skip
    """A node whose lengths are those of a mask, as exporters count them; with ``shared`` past and present are alike."""
    columns = (HEADS + 2 * SHARED) * WIDTH if packed else HEADS * WIDTH
    inputs = {"q": [batch, "steps", columns]}
    if not packed:
        inputs |= {"k": [batch, "steps", SHARED * WIDTH], "v": [batch, "steps", SHARED * WIDTH]}
    after = "past" if shared else "total"
    inputs |= {name: [batch, SHARED, "past", WIDTH] for name in ("past_k", "past_v")}
    if biased:
        inputs["bias"] = [1, HEADS, "steps", "total"]
    angles = np.outer(np.arange(32), 1 / 2.0 ** np.arange(WIDTH // 2))
    kind = helper.tensor_dtype_to_np_dtype(dtype)
    constants = {"axis": np.array([1]), "one": np.array([1]), "at": np.array(1)}
    constants |= {"cos": np.cos(angles).astype(kind), "sin": np.sin(angles).astype(kind)} if rotates else {}
    constants |= {"sinks": floats(HEADS).astype(kind)} if sinks else {}
    names = ["q", *(["", ""] if packed else ["k", "v"]), "past_k", "past_v", "last", "total"]
    names += [
        "cos" if rotates else "",
        "sin" if rotates else "",
        "",
        "bias" if biased else "",
        "sinks" if sinks else "",
    ]
    nodes = [
        helper.make_node("ReduceSum", ["mask", "axis"], ["lengths"], keepdims=1),
        helper.make_node("Sub", ["lengths", "one"], ["wide_last"]),
        helper.make_node("Cast", ["wide_last"], ["last"], to=TensorProto.INT32),
        helper.make_node("Shape", ["mask"], ["sizes"]),
        helper.make_node("Gather", ["sizes", "at"], ["wide_total"], axis=0),
        helper.make_node("Cast", ["wide_total"], ["total"], to=TensorProto.INT32),
        helper.make_node(
            "GroupQueryAttention", names, ["y", "k_all", "v_all"], "node", domain=MICROSOFT,
            num_heads=HEADS, kv_num_heads=SHARED, do_rotary=int(rotates), **attributes,
        ),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "attention",
        [
            helper.make_tensor_value_info("mask", INT64, [batch, "total"]),
            *(helper.make_tensor_value_info(name, dtype, shape) for name, shape in inputs.items()),
        ],
        [
            helper.make_tensor_value_info("y", dtype, [batch, "steps", HEADS * WIDTH]),
            *(helper.make_tensor_value_info(name, dtype, [batch, SHARED, after, WIDTH]) for name in ("k_all", "v_all")),
        ],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def feeds(
    proto: onnx.ModelProto, steps: int, past: int, lengths: Sequence[int] = (), room: int = 0
) -> dict[str, np.ndarray]:
    """Inputs of a run; sequences are as long as ``lengths`` tells, and the past has room for more."""
    batch, total = max(1, len(lengths)), past + steps
    ends = np.array(lengths or [total])
    sizes = {"steps": steps, "past": past + room, "total": total, "batch": batch}
    found = {"mask": (np.arange(total) < ends[:, None]).astype(np.int64)}
    for value in proto.graph.input[1:]:
        shape = [sizes.get(dim.dim_param, dim.dim_value) for dim in value.type.tensor_type.shape.dim]
        found[value.name] = floats(*shape).astype(helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type))
    return found


PROMPT, STEP, STEPS = (6, 0), (1, 5), (3, 5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"packed": True},
        {"rotates": True},
        {"rotates": True, "rotary_interleaved": 1, "packed": True},
        {"scale": 0.5},
        {"local_window_size": 3},
        {"softcap": 2.0},
        {"smooth_softmax": 1},
        {"smooth_softmax": -1},
        {"sinks": True},
        {"biased": True},
    ],
    ids=lambda options: " ".join(options) or "plain",
)
def test_a_prompt_and_steps_after_a_past(assert_rewritten, options):
    proto = model(**options)
    result = assert_rewritten(proto, *(feeds(proto, *sizes) for sizes in (PROMPT, STEP, STEPS)), refused=ATTENTION)
    assert [each.rewrite for each in result.applied] == ["grouped attention written out"]


@pytest.mark.parametrize("rotates", [False, True])
def test_sequences_of_different_lengths(assert_rewritten, rotates):
    """New keys go behind those of their own sequence; what a prompt is filled up with is not seen."""
    proto = model(batch="batch", rotates=rotates)
    assert_rewritten(
        proto, feeds(proto, 5, 0, [5, 3]), feeds(proto, 1, 5, [6, 3, 1]), feeds(proto, 1, 5, [6, 6]), refused=ATTENTION
    )


def test_a_past_with_room_behind_its_keys(assert_rewritten):
    proto = model(shared=True, rotates=True)
    assert_rewritten(proto, feeds(proto, 1, 5, room=4), feeds(proto, 3, 5, room=4), refused=ATTENTION)


def test_half_precision(assert_rewritten):
    proto = model(dtype=HALF)
    assert_rewritten(proto, feeds(proto, 3, 5), refused=ATTENTION, rtol=1e-2, atol=1e-2)


def test_caches_of_integers_stay(model_of):
    node = next(node for node in model_of(model(k_quant_type="PER_TENSOR")).graph if node.name == "node")
    assert not GroupedAttention().matches(node)


@pytest.mark.parametrize("steps", [4, 5, 6, 7, 8])
def test_scores_that_are_equal_but_for_rounding(assert_rewritten, steps):
    """Of inputs that are -100 or 100 many scores are equal, and softmax magnifies the rounding that parts them."""
    sizes = [1, steps, 2 * 8]
    node = helper.make_node(
        "GroupQueryAttention", ["x", "xk", "xv", "", "", "last", "total"], ["y"], domain=MICROSOFT,
        num_heads=2, kv_num_heads=2,
    )  # fmt: skip
    lengths = {"last": np.array([steps - 1], np.int32), "total": np.array(steps, np.int32)}
    graph = helper.make_graph(
        [node],
        "prompt",
        [helper.make_tensor_value_info(name, FLOAT, sizes) for name in ("x", "xk", "xv")],
        [helper.make_tensor_value_info("y", FLOAT, sizes)],
        [numpy_helper.from_array(array, name) for name, array in lengths.items()],
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(MICROSOFT, 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    assert_rewritten(proto, {name: floats(*sizes) for name in ("x", "xk", "xv")}, refused=ATTENTION)
