from __future__ import annotations

import onnx.defs
import onnx_ir as ir
import pytest

from edgekit.operators.hints import CUT_OFF, definition_hint, replacement_hint, since_version


def node(op_type: str, domain: str = "") -> ir.Node:
    return ir.Node(domain, op_type, [])


def test_the_standards_definition_helps_where_the_device_takes_its_operators() -> None:
    schema = onnx.defs.get_schema("HardSwish", 14)
    needs = {part.op_type for part in schema.function_body.node}
    assert needs == {"HardSigmoid", "Mul"}
    hint = definition_hint(node("HardSwish"), 17, needs.__contains__)
    assert hint == "replace it by its definition in the standard, which needs only HardSigmoid and Mul"
    assert definition_hint(node("HardSwish"), 17, {"Mul"}.__contains__) == ""


@pytest.mark.parametrize(("op_type", "domain"), [("Conv", ""), ("Nothing", ""), ("HardSwish", "vendor")])
def test_what_the_standard_does_not_define_by_others_has_no_definition(op_type: str, domain: str) -> None:
    assert definition_hint(node(op_type, domain), 17, lambda _: True) == ""


def test_a_replacement_is_advised_only_where_it_runs() -> None:
    assert replacement_hint(node("Clip"), 17, {"Min", "Max"}.__contains__) == "write it as Min and Max"
    assert replacement_hint(node("Clip"), 17, {"Min"}.__contains__) == CUT_OFF
    assert replacement_hint(node("Clip", "vendor"), 17) == CUT_OFF


def test_a_definition_is_advised_only_where_its_operators_are_known_to_run() -> None:
    assert replacement_hint(node("HardSwish"), 17, {"HardSigmoid", "Mul"}.__contains__).startswith("replace it by its")
    assert replacement_hint(node("HardSwish"), 17) == CUT_OFF


def test_versions_are_those_of_the_standard() -> None:
    assert since_version(node("Softmax"), 12) == 11
    assert since_version(node("Softmax"), 17) == 13
    assert since_version(node("Nothing"), 17) is None
