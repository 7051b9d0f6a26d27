from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.simplification.picked_columns import FEWEST, reduce_columns_at_once

PAIRS = [(0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2)]

OnnxModel = Callable[..., onnx.ModelProto]


def features(
    onnx_model: OnnxModel, reduce: str, *, opset: int = 13, pick: str = "Gather <axis = 1>"
) -> onnx.ModelProto:
    """The columns themselves, one by one as skl2onnx writes them, and what is reduced of each pair."""
    picked = [(place,) for place in range(FEWEST)] + PAIRS
    steps = " ".join(f"p{n} = {pick} (x, i{n}) r{n} = {reduce.format(n)}" for n in range(len(picked)))
    names = ", ".join(f"r{n}" for n in range(len(picked)))
    graph = f"g (float[n, 4] x) => (float[n, k] y) {{ {steps} e = Abs (x) y = Concat <axis = 1> (e, {names}) }}"
    constants = {f"i{n}": np.array(places) for n, places in enumerate(picked)}
    return onnx_model(graph, opset=opset, columns=np.array([1]), **constants)


def rewritten(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    reduce_columns_at_once(model)
    return ir.to_proto(model)


@pytest.mark.parametrize(
    ("opset", "reduce"),
    [
        (11, "ReduceProd <axes = [1]> (p{})"),
        (13, "ReduceSum (p{}, columns)"),
        (18, "ReduceProd (p{}, columns)"),
        (13, "ReduceMax <axes = [-1], keepdims = 1> (p{})"),
    ],
)
def test_columns_that_are_made_alike_are_made_at_once(onnx_model: OnnxModel, opset: int, reduce: str) -> None:
    before = features(onnx_model, reduce, opset=opset)
    after = rewritten(before)
    operators = [node.op_type for node in after.graph.node]
    assert (operators.count("Gather"), operators.count("Concat")) == (2, 1)
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(["y"], {"x": x})[
            0
        ]
        for each in (after, before)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("pick", "reduce"),
    [
        ("Gather <axis = 0>", "ReduceProd <axes = [1]> (p{})"),
        ("Gather <axis = 1>", "ReduceProd <axes = [0]> (p{})"),
        ("Gather <axis = 1>", "Softmax (p{})"),
    ],
)
def test_other_columns_stay(onnx_model: OnnxModel, pick: str, reduce: str) -> None:
    before = features(onnx_model, reduce, pick=pick)
    assert len(rewritten(before).graph.node) == len(before.graph.node)
