from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_onnxruntime.target import ONNXRuntimeTarget


def verdicts(body: str, profile_name: str = "onnxruntime") -> list[NodeVerdict]:
    text = f'<ir_version: 9, opset_import: ["" : 18, "my.domain" : 1]> g {body}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    target = ONNXRuntimeTarget()
    return target.check(model, next(profile for profile in target.profiles if profile.name == profile_name))


PLAIN = "(float[3] x) => (float[3] y) { [first] h = Exp(x) y = Relu(h) }"


def test_a_session_answers_for_every_node() -> None:
    found = verdicts(PLAIN)
    assert [(verdict.node, verdict.op_type) for verdict in found] == [("first", "Exp"), ("y", "Relu")]
    assert {(verdict.support, verdict.evidence, verdict.unit) for verdict in found} == {
        (Support.SUPPORTED, Evidence.COMPILED, "CPU")
    }


def test_the_model_that_is_judged_keeps_its_names() -> None:
    text = f'<ir_version: 9, opset_import: ["" : 18]> g {PLAIN}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    ONNXRuntimeTarget().check(model, ONNXRuntimeTarget().profiles[0])
    assert [node.name for node in model.graph] == ["first", ""]


def test_nodes_inside_branches_are_judged_too() -> None:
    found = verdicts(
        "(bool c, float[3] x) => (float[3] y) { [choice] y = If (c) <\n"
        "  then_branch = t () => (float[3] a) { [left] a = Sin(x) },\n"
        "  else_branch = e () => (float[3] b) { [right] b = Cos(x) }> }"
    )
    assert sorted(verdict.node for verdict in found) == ["choice", "left", "right"]


def test_an_operator_that_is_replaced_by_its_definition_is_decomposed() -> None:
    found = verdicts(
        "(float[1, 4, 3] x) => (float[1, 4, 3] y) {\n"
        "  s = Constant <value_floats = [1.0, 1.0]> ()\n  y = GroupNormalization <num_groups = 2> (x, s, s)\n}"
    )
    assert [verdict.support for verdict in found] == [Support.SUPPORTED, Support.DECOMPOSED]


def test_a_missing_kernel_is_told_by_name_and_type() -> None:
    found = verdicts(
        "(uint16[2] i, float[2] x) => (uint16[2] j, float[2] y)"
        ' { [shift] j = BitShift <direction = "LEFT"> (i, i) [fine] y = Relu(x) }'
    )
    assert [(verdict.node, verdict.support) for verdict in found] == [
        ("shift", Support.UNSUPPORTED),
        ("fine", Support.SUPPORTED),
    ]
    assert "UINT16" in found[0].detail


def test_what_lies_behind_an_unknown_operator_is_unknown() -> None:
    found = verdicts("(float[2] x) => (float[2] y) { [odd] h = my.domain.Odd(x) [behind] y = Relu(h) }")
    assert [verdict.support for verdict in found] == [Support.UNSUPPORTED, Support.UNKNOWN]


@pytest.mark.parametrize("profile", ["android-cpu", "web"])
def test_other_builds_of_the_same_kernels_are_judged_by_this_one(profile: str) -> None:
    assert {verdict.evidence for verdict in verdicts(PLAIN, profile)} == {Evidence.HEURISTIC}


def test_nnapi_is_judged_by_the_runtimes_own_table() -> None:
    found = verdicts(
        "(float[1, 3, 8, 8] x, float[4, 3, 3, 3] w) => (float[1, 4, 6, 6] y) { c = Conv(x, w) y = Erf(c) }",
        "android-nnapi",
    )
    assert [(verdict.support, verdict.evidence, verdict.unit) for verdict in found] == [
        (Support.SUPPORTED, Evidence.TABLE, "NNAPI"),
        (Support.FALLS_BACK, Evidence.TABLE, "CPU"),
    ]
    assert "2D" in found[0].detail  # the condition that the table makes


def test_what_no_table_tells_is_unknown() -> None:
    assert {verdict.evidence for verdict in verdicts(PLAIN, "android-qnn")} == {Evidence.UNKNOWN}
