"""Patterns of nodes that fewer nodes replace."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx_ir.passes.common import RemoveUnusedNodesPass

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
SHIFT = """
    <ir_version: 9, opset_import: ["" : 18]>
    g (int{bits}[6] x) => (int{bits}[6] y)
    <int{bits} zero = {{0}}, uint{bits} places = {{{places}}}, uint{bits} mask = {{{mask}}}>
    {{
        negative = Less (x, zero)
        wide = Cast <to = {unsigned}> (x)
        low = BitShift <direction = "RIGHT"> (wide, places)
        high = BitwiseOr (low, mask)
        filled = Cast <to = {signed}> (high)
        plain = Cast <to = {signed}> (low)
        y = Where (negative, filled, plain)
    }}
"""
"""``x >> places`` of signed integers, as PyTorch 2.14 exports it."""


@pytest.mark.parametrize("places", [0, 1, 5, 30])
@pytest.mark.parametrize("bits", [32, 64])
def test_a_right_shift_that_keeps_the_sign_is_a_division_that_rounds_down(bits: int, places: int) -> None:
    x = np.array([-7, 7, -1, 0, np.iinfo(f"int{bits}").min, np.iinfo(f"int{bits}").max], f"int{bits}")
    kinds, found = _shifted(x, places, highest_bits=places)
    assert kinds == {"Mod", "Sub", "Div"}
    assert found.tolist() == (x >> places).tolist()


def test_a_shift_that_sets_other_bits_stays() -> None:
    x = np.array([-7, 7, -1, 0, 5, 6], np.int32)
    kinds, found = _shifted(x, 2, highest_bits=1)
    assert kinds == {"Less", "Cast", "BitShift", "BitwiseOr", "Where"}
    assert found.tolist() == [0xBFFFFFFE - 2**32, 1, 0xBFFFFFFF - 2**32, 0, 1, 1]


def _shifted(x: np.ndarray, places: int, *, highest_bits: int) -> tuple[set[str], np.ndarray]:
    """Operators that the results of :data:`SHIFT` need after simplification, and its results."""
    bits = x.dtype.itemsize * 8
    types = {"signed": 6, "unsigned": 12} if bits == 32 else {"signed": 7, "unsigned": 13}
    mask = (1 << bits) - (1 << (bits - highest_bits))
    proto = onnx.parser.parse_model(SHIFT.format(bits=bits, places=places, mask=mask, **types))
    fused = ir.from_proto(proto)
    fuse(fused, ["right shift with the sign"])
    RemoveUnusedNodesPass()(fused)
    session = onnxruntime.InferenceSession(ir.to_proto(fused).SerializeToString(), providers=["CPUExecutionProvider"])
    return {node.op_type for node in fused.graph} - {"Constant"}, np.asarray(session.run(None, {"x": x})[0])


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
