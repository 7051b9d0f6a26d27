"""Which values hold a constant tensor."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.graph.nodes import held_tensor

NUMBERS = ir.tensor(np.array([3.0, 4.0], np.float32))


def _made_by(operator: str, *attributes: ir.Attr, domain: str = "") -> ir.Value:
    return ir.Node(domain, operator, [], list(attributes)).outputs[0]


@pytest.mark.parametrize(
    ("value", "held"),
    [
        (ir.Value(name="initializer", const_value=NUMBERS), [3.0, 4.0]),
        (_made_by("Constant", ir.AttrTensor("value", NUMBERS)), [3.0, 4.0]),
        (_made_by("Constant", ir.AttrFloat32("value_float", 5.0)), 5.0),
        (_made_by("Constant", ir.AttrInt64s("value_ints", [1, 2])), [1, 2]),
        (_made_by("Constant", ir.AttrTensor("value", NUMBERS), domain="test"), None),
        (_made_by("ConstantOfShape", ir.AttrTensor("value", NUMBERS)), None),
        (ir.Value(name="input"), None),
    ],
)
def test_initializers_and_constant_nodes_hold_a_tensor(value: ir.Value, held: object) -> None:
    tensor = held_tensor(value)
    assert (None if tensor is None else tensor.numpy().tolist()) == held
