"""Files without what shape inference finds again: the same model to ONNX, its checker and ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime

from edgekit.graph.value_info import without_inferable_value_info
from edgekit.model import Model

CHAIN = """
    <ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    chain (float[2, 3] x, bool take) => (float[2, 4] y)
    <float[3, 4] weights = {1,2,3,4,5,6,7,8,9,10,11,12}, float[2, 4] hidden, float[2, 4] summed>
    {
        hidden = MatMul(x, weights)
        summed = Add(hidden, hidden)
        y = If(take) <
            then_branch = left () => (float[2, 4] l) <float[2, 4] inner> { inner = Neg(summed) l = Abs(inner) },
            else_branch = right () => (float[2, 4] r) { r = Identity(summed) }
        >
    }
"""
GELU = """
    <ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
    own (float[2, 3] x) => (float[2, 3] y) <float[2, 3] wide, float[2, 3] curved>
    {
        wide = Neg(x)
        curved = com.microsoft.Gelu(wide)
        y = Abs(curved)
    }
"""


def _model(text: str) -> Model:
    return Model(ir.from_proto(onnx.parser.parse_model(text)))


def _names(model: Model) -> list[str]:
    return [value.name for value in model.proto().graph.value_info]


def test_inner_values_and_constants_are_left_out_and_the_outputs_stay_the_same() -> None:
    model = _model(CHAIN)
    told = model.proto()

    bare = without_inferable_value_info(model).proto()

    assert [*bare.graph.value_info] == []
    branch = next(a.g for a in bare.graph.node[-1].attribute if a.name == "then_branch")
    assert [*branch.value_info] == []
    assert [value.name for value in branch.output] == ["l"]
    assert bare.graph.output == told.graph.output
    assert bare.ByteSize() < told.ByteSize()
    onnx.checker.check_model(bare, full_check=True)
    feeds = {"x": np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32), "take": np.array(True)}
    for run in [onnxruntime.InferenceSession(each.SerializeToString()) for each in (told, bare)]:
        (found,) = run.run(None, feeds)
        np.testing.assert_array_equal(found, np.abs(2 * feeds["x"] @ np.arange(1, 13).reshape(3, 4).astype(np.float32)))


def test_what_inference_does_not_find_stays() -> None:
    bare = without_inferable_value_info(_model(GELU))

    assert _names(bare) == ["curved"]  # ONNX does not know the operator that gives it


def test_the_given_model_keeps_all_of_it() -> None:
    model = _model(CHAIN)
    before = _names(model)

    without_inferable_value_info(model)

    assert _names(model) == before


def test_a_name_that_inference_has_a_number_for_stays() -> None:
    model = _model(GELU.replace("<float[2, 3] wide,", "<float[2, K] wide,"))

    assert _names(without_inferable_value_info(model)) == ["wide", "curved"]


def test_notes_of_an_exporter_leave_no_entry_without_a_type() -> None:
    model = _model(CHAIN)
    values = [model.graph_model.graph.initializers["weights"], *(node.outputs[0] for node in model.graph_model.graph)]
    for value in values:
        value.metadata_props["pkg.torch.onnx.original_node_name"] = "linear"

    bare = without_inferable_value_info(model).proto()

    assert [*bare.graph.value_info] == []
    onnx.checker.check_model(bare, full_check=True)
    assert ir.from_proto(bare).graph.initializers["weights"].dtype == ir.DataType.FLOAT
