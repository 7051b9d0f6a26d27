"""Blocks of which the last is not whole, as whole ones, against ONNX Runtime's own kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from edgekit.model import Model, node_name
from edgekit.registry import installed_rewrites
from edgekit.rewrites.application import rewritten
from edgekit.rewrites.blocked_scales import WholeBlocks

RANGES = {TensorProto.INT4: (-8, 8), TensorProto.UINT4: (0, 16), TensorProto.INT8: (-128, 128)}


def blocked(
    shape: tuple[int, ...], axis: int, block: int, kind: int, *, zeros: bool = True, fed: bool = False
) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model that adds what it is fed to dequantized numbers, which are fed or constant, and what is fed."""
    random = np.random.default_rng(7)
    scales = list(shape)
    scales[axis] = -(-shape[axis] // block)
    stored = random.integers(*RANGES[kind], shape)
    constants = [helper.make_tensor("s", TensorProto.FLOAT, scales, random.uniform(0.1, 1, scales).ravel())]
    feeds = {"a": np.zeros(1, np.float32)}
    inputs = [helper.make_tensor_value_info("a", TensorProto.FLOAT, [1])]
    if fed:
        inputs.append(helper.make_tensor_value_info("x", kind, shape))
        feeds["x"] = stored.astype(np.int8)
    else:
        constants.append(helper.make_tensor("x", kind, shape, stored.ravel()))
    if zeros:
        constants.append(helper.make_tensor("z", kind, scales, random.integers(*RANGES[kind], scales).ravel()))
    dequantize = helper.make_node(
        "DequantizeLinear", ["x", "s", *["z"] * zeros], ["r"], "node", axis=axis, block_size=block
    )
    graph = helper.make_graph(
        [dequantize, helper.make_node("Add", ["r", "a"], ["y"])],
        "blocked",
        inputs,
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), feeds


def refused(model: Model) -> set[str]:
    rewrite = WholeBlocks()
    nodes = (node for node in model.graph.all_nodes() if node.op_type == "DequantizeLinear")
    return {node_name(node) for node in nodes if rewrite.matches(node)}


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("zeros", [True, False], ids=["zero points", "no zero points"])
@pytest.mark.parametrize(
    ("shape", "axis", "block", "nodes"),
    [
        ((48, 6), 0, 32, 1),
        ((6, 48), -1, 32, 1),
        ((2, 49, 3), 1, 16, 2),
        ((49, 3), 0, 32, 2),
        ((20, 3), 0, 32, 1),
        ((21, 3), 0, 32, 1),
        ((64,), 0, 16, 1),
        ((41,), 0, 16, 2),
    ],
)
def test_blocks(
    model_of: Callable[[onnx.ModelProto], Model],
    run: Callable[..., list[np.ndarray]],
    kind: int,
    zeros: bool,
    shape: tuple[int, ...],
    axis: int,
    block: int,
    nodes: int,
) -> None:
    proto, feeds = blocked(shape, axis, block, kind, zeros=zeros)
    result = rewritten(model_of(proto), refused, installed_rewrites())
    assert not result.dropped
    assert not refused(result.model)
    found = [node for node in result.model.graph if node.op_type == "DequantizeLinear"]
    assert len(found) == nodes
    assert {node.inputs[0].dtype for node in found if node.inputs[0] is not None} == {ir.DataType(kind)}
    np.testing.assert_array_equal(run(result.model.proto(), feeds)[0], run(proto, feeds)[0])


@pytest.mark.parametrize(("shape", "block"), [((48, 6), 32), ((49, 3), 32), ((41,), 16)])
def test_blocks_of_integers_that_are_fed(model_of: Any, run: Any, shape: tuple[int, ...], block: int) -> None:
    proto, feeds = blocked(shape, 0, block, TensorProto.INT8, fed=True)
    result = rewritten(model_of(proto), refused, installed_rewrites())
    assert not result.dropped
    assert not refused(result.model)
    np.testing.assert_array_equal(run(result.model.proto(), feeds)[0], run(proto, feeds)[0])
