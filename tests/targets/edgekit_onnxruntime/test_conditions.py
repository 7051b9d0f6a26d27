from __future__ import annotations

import onnx.parser
import onnx_ir as ir
import pytest

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit_onnxruntime.conditions import UnmetCondition, unmet_conditions
from edgekit_onnxruntime.devices import Operator, Table

ANY_SHAPE = Table("a page", "1", "2026-01-02", fixed_shapes=False, operators={})


def unmet(body: str, operator: Operator, opset: int = 17) -> list[UnmetCondition]:
    """Returns the conditions that the last node of a graph fails."""
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]> g {body}')
    *_, node = infer_shapes(Model(ir.from_proto(proto))).graph
    return list(unmet_conditions(node, operator, ANY_SHAPE, opset))


SOFTMAX = "(float[2, 3] x) => (float[2, 3] y) { y = Softmax(x) }"


@pytest.mark.parametrize(
    ("opset", "spans", "taken"),
    [
        (12, ((1, 10), (11, 12)), True),  # Softmax has had the versions 1, 11 and 13
        (17, ((1, 10), (11, 12)), False),
        (17, ((13, None),), True),
        (12, ((13, None),), False),
        (10, ((11, 11),), False),
    ],
)
def test_the_operators_version_has_to_be_among_those_that_are_taken(
    opset: int, spans: tuple[tuple[int, int | None], ...], taken: bool
) -> None:
    assert (not unmet(SOFTMAX, Operator(opsets=spans), opset)) is taken


def test_the_versions_that_are_taken_are_told() -> None:
    (failed,) = unmet(SOFTMAX, Operator(opsets=((1, 10), (11, 11), (14, None))))
    assert failed.reason == "version 13 of the operator is not among those that are taken (1 to 10, 11, 14 and newer)"
    assert failed.hint.startswith("export the model with an opset whose Softmax has one of the versions")


def test_every_condition_that_fails_is_told() -> None:
    operator = Operator(ranks=(4,), constant=(1,), attributes={"transA": 1})
    body = "(float[2, 3] x, float[3, 4] w) => (float[2, 4] y) { y = Gemm <transA = 0> (x, w) }"
    assert [failed.reason for failed in unmet(body, operator)] == [
        "its first input has 2 dimensions, not 4",
        "input 'w' is not constant",
        "transA is 0, not 1",
    ]


def test_an_input_or_attribute_that_is_left_out_fails_nothing() -> None:
    body = "(float[2, 3] x) => (float[2, 3] y) { y = Clip (x) }"
    assert unmet(body, Operator(constant=(1, 2), attributes={"mode": "linear"})) == []


@pytest.mark.parametrize(("expected", "taken"), [("nearest", True), ("linear", False)])
def test_an_attribute_that_is_left_to_default_has_the_standards_value(expected: str, taken: bool) -> None:
    body = "(float[1, 1, 2, 2] x, float[4] s) => (float[1, 1, 4, 4] y) { y = Resize (x, , s) }"
    assert (not unmet(body, Operator(attributes={"mode": expected}))) is taken


@pytest.mark.parametrize(
    "made",
    [
        "k = Constant <value = float[2] {1, 2}> ()",
        "q = Constant <value = int8[2] {1, 2}> () s = Constant <value = float {0.5}> () k = DequantizeLinear (q, s)",
    ],
)
def test_constants_come_in_several_forms(made: str) -> None:
    body = f"(float[2] x) => (float[2] y) {{ {made} y = Add (x, k) }}"
    assert unmet(body, Operator(constant=(1,))) == []
