from __future__ import annotations

import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model
from edgekit.target import Evidence, NodeVerdict, Support
from edgekit_coreml.target import CoreMLTarget


def verdicts(body: str, profile_name: str = "ios18", opset: int = 17) -> list[NodeVerdict]:
    text = f'<ir_version: 9, opset_import: ["" : {opset}, "my.domain" : 1]> g {body}'
    model = Model(ir.from_proto(onnx.parser.parse_model(text)))
    target = CoreMLTarget()
    return target.check(model, next(profile for profile in target.profiles if profile.name == profile_name))


def test_a_node_that_converts_is_supported_and_its_unit_a_rule_of_thumb() -> None:
    (found,) = verdicts("(float[1, 4] x) => (float[1, 4] y) { [act] y = Relu (x) }")
    assert found == NodeVerdict(
        node="act",
        op_type="Relu",
        support=Support.SUPPORTED,
        evidence=Evidence.REGISTRY,
        unit="Neural Engine",
        detail="has a lowering for iOS18",
        unit_evidence=Evidence.HEURISTIC,
    )


def test_a_node_without_a_lowering_is_unsupported_with_advice() -> None:
    (odd,) = verdicts("(float[1, 4] x) => (float[1, 4] y) { [odd] y = my.domain.Odd (x) }")
    assert (odd.support, odd.evidence, odd.unit) == (Support.UNSUPPORTED, Evidence.REGISTRY, "")
    assert odd.hint


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("(float[4, 2] x) => (float[1, 2] y) <int64[1] i = {1}> { y = Gather (x, i) }", "not seen to gather"),
        (
            "(float[1, 1, 9, 9] x) => (float[1, 1, 7, 7] y) <float[1, 1, 2, 2] w = {1, 2, 3, 4}>"
            " { y = Conv <dilations = [2, 2]> (x, w) }",
            "not seen to run dilated convolutions",
        ),
        ("(float[2] x, float[2] z) => (bool[2] y) { y = Less (x, z) }", "computes in float16"),
    ],
)
def test_what_the_neural_engine_is_not_known_to_run_falls_back(body: str, reason: str) -> None:
    (found,) = verdicts(body)
    assert (found.support, found.evidence, found.unit) == (Support.FALLS_BACK, Evidence.HEURISTIC, "GPU or CPU")
    assert reason in found.detail
    assert "https://" in found.detail  # whose rule it is


def test_quantizing_stays_on_the_neural_engine() -> None:
    body = (
        "(float[2] x) => (float[2] y) <float s = {0.5}, int8 z = {0}>"
        " { q = QuantizeLinear (x, s, z) y = DequantizeLinear (q, s, z) }"
    )
    assert [verdict.unit for verdict in verdicts(body)] == ["Neural Engine", "Neural Engine"]


@pytest.mark.parametrize(
    "body",
    [
        "(uint8[1, 2] a) => (int32[1, 1] y) <uint8[2, 1] b = {1, 2}> { y = MatMulInteger (a, b) }",
        "(bool c, float[2] x) => (float[2] y) { y = If (c) <"
        "then_branch = t () => (float[2] l) { l = Exp (x) }, else_branch = e () => (float[2] r) { r = Neg (x) }> }",
    ],
    ids=["integer product", "branches"],
)
def test_where_no_rule_of_thumb_holds_the_unit_is_unknown(body: str) -> None:
    (found,) = verdicts(body)
    assert (found.support, found.unit, found.unit_evidence) == (Support.SUPPORTED, "", Evidence.UNKNOWN)


def test_every_rule_of_thumb_names_a_source_that_is_told() -> None:
    from edgekit_coreml.units import _rules

    rules = _rules()
    named = [*rules["elsewhere"].values(), rules["dilated_convolutions"], rules["no_floats"]]
    assert {rule["source"] for rule in named} == set(rules["sources"])
    assert all({"source", "version", "date"} <= source.keys() for source in rules["sources"].values())
