"""Patterns of nodes that fewer nodes replace."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime

from edgekit.graph.simplification.patterns import fuse

ANCHORS = """
    <ir_version: 9, opset_import: ["" : 17]>
    g (float[2, 6] x) => (float[3, 4] y, float[3, 4] z) <int64[2] a = {3, 4}>
    {
        p = Flatten (x)
        q = Reshape (p, a)
        y = Neg (q)
        r = Flatten (q)
        z = Abs (r)
    }
"""
ASKED_IN_DOUBLE = """
    <ir_version: 9, opset_import: ["" : 17]>
    g (float[4] x) => (bool[4] a, bool[4] b, bool[4] c)
    {
        wide = Cast <to = 11> (x)
        a = IsInf <detect_positive = 0> (wide)
        b = IsInf (wide)
        c = IsNaN (wide)
    }
"""


def test_a_float32_is_infinite_or_no_number_without_float64() -> None:
    fused = ir.from_proto(onnx.parser.parse_model(ASKED_IN_DOUBLE))
    fuse(fused)
    assert [node.inputs[0].name for node in fused.graph if node.op_type != "Cast" and node.inputs[0]] == ["x", "x", "x"]
    session = onnxruntime.InferenceSession(ir.to_proto(fused).SerializeToString(), providers=["CPUExecutionProvider"])
    found = session.run(None, {"x": np.array([np.inf, -np.inf, np.nan, 3e38], np.float32)})
    assert [each.tolist() for each in found] == [
        [False, True, False, False],
        [True, True, False, False],
        [False, False, True, False],
    ]


def test_constants_that_two_rules_call_by_one_name_are_both_there() -> None:
    """torchvision's keypoint detector: the rules call the sizes of q after q, and those of r after its input, q."""
    proto = onnx.parser.parse_model(ANCHORS)
    fused = ir.from_proto(proto)
    fuse(fused, ["flatten and reshape"])
    kinds = [node.op_type for node in fused.graph]
    assert kinds.count("Reshape") == 2
    assert "Flatten" not in kinds
    x = np.arange(-6, 6, dtype=np.float32).reshape(2, 6)
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {"x": x})
        for each in (proto, ir.to_proto(fused))
    )
    np.testing.assert_array_equal(before, after)
