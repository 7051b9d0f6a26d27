from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.loops.scans import MOST_ELEMENTS, compute_iterations_at_once

DISTANCES = "kept = Identity (s) d = Sub (s, t) o = ReduceSumSquare <axes = [1], keepdims = 0> (d)"
"""What skl2onnx writes for the distances between samples and those that were learnt."""
TURNS = 5


@pytest.fixture
def scan(onnx_model: Callable[..., onnx.ModelProto]) -> Callable[..., onnx.ModelProto]:
    def written(body: str, *, opset: int = 13, more: str = "", turns: int = TURNS) -> onnx.ModelProto:
        graph = f"""g (float[n, 4] x) => (y) {{
            gone, y = Scan <
                num_scan_inputs = 1, body = b (float[n, 4] s, float[4] t) => (kept, o) {{ {body} }}{more}
            > (x, learnt)
        }}"""
        learnt = np.random.default_rng(0).standard_normal((turns, 4)).astype(np.float32)
        numbers = {"one": np.array(1.5, np.float32), "last": np.array([-1])}
        return onnx.shape_inference.infer_shapes(onnx_model(graph, opset=opset, learnt=learnt, **numbers))

    return written


def computed_at_once(proto: onnx.ModelProto) -> onnx.ModelProto:
    model = ir.from_proto(proto)
    compute_iterations_at_once(model)
    return ir.to_proto(model)


@pytest.mark.parametrize(
    ("opset", "body"),
    [
        (11, DISTANCES),
        (13, DISTANCES),
        (13, DISTANCES.replace("[1]", "[-1]").replace("keepdims = 0", "keepdims = 1")),
        (13, "kept = Identity (s) d = Sub (t, s) o = ReduceSum <keepdims = 0> (d, last)"),
        (13, "kept = Identity (s) d = Sub (t, s) e = ReduceSum <keepdims = 0> (d, last) o = Sub (e, one)"),
        (18, "kept = Identity (s) d = Mul (s, t) e = Exp (d) o = ReduceMax (e)"),
        (13, "kept = Identity (s) u = Mul (s, one) v = Add (t, one) o = Max (v, u, s)"),
        (13, "kept = Identity (s) o = Neg (t)"),
    ],
)
def test_turns_that_depend_on_nothing_are_computed_at_once(
    scan: Callable[..., onnx.ModelProto], opset: int, body: str
) -> None:
    before = scan(body, opset=opset)
    after = computed_at_once(before)
    assert "Scan" not in [node.op_type for node in after.graph.node]
    x = np.random.default_rng(1).standard_normal((3, 4)).astype(np.float32)
    found, expected = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(["y"], {"x": x})[
            0
        ]
        for each in (after, before)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("body", "more"),
    [
        ("kept = Add (s, t) o = ReduceSumSquare <axes = [1], keepdims = 0> (kept)", ""),  # the next turn depends on it
        (DISTANCES, ", scan_input_directions = [1]"),
        (DISTANCES, ", scan_output_axes = [1]"),
        ("kept = Identity (s) o = Identity (s)", ""),  # the same in every turn
        ("kept = Identity (s) o = CumSum (s, one)", ""),
        ("kept = Identity (s) d = Sub (s, t) o = Softmax (d)", ""),
    ],
)
def test_other_scans_stay(scan: Callable[..., onnx.ModelProto], body: str, more: str) -> None:
    proto = scan(body, more=more)
    assert [node.op_type for node in computed_at_once(proto).graph.node] == ["Scan"]


def test_a_value_that_would_be_large_is_not_made(scan: Callable[..., onnx.ModelProto]) -> None:
    proto = scan(DISTANCES, turns=MOST_ELEMENTS // 4 + 1)
    assert [node.op_type for node in computed_at_once(proto).graph.node] == ["Scan"]
