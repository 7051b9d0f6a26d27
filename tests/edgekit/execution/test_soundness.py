from __future__ import annotations

import onnx
import onnx_ir as ir

from edgekit.execution.soundness import model_fault, runs
from edgekit.model import Model


def model(body: str, inputs: str = "float[2,3] x", opset: int = 18) -> Model:
    text = f'<ir_version: 9, opset_import: ["" : {opset}]> graph ({inputs}) => (float[A,B] y) {{ {body} }}'
    return Model(ir.from_proto(onnx.parser.parse_model(text)))


def test_a_sound_model_is_not_at_fault():
    assert model_fault(model("y = Relu(x)")) is None


def test_a_rule_of_onnx_that_is_broken():
    fault = model_fault(model("y = Cast(x)"))
    assert "breaks the rules of ONNX: Required attribute 'to' is missing" in str(fault)
    assert fault.exit_code == 2


def test_shapes_that_contradict_each_other():
    fault = model_fault(model("y = MatMul(x, w)", "float[2,3] x, float[4,5] w"))
    assert "contradicts itself" in str(fault)


def test_a_word_that_onnx_does_not_check():
    fault = model_fault(model('y = GridSample <mode = "sideways"> (x, g)', "float[1,1,2,3] x, float[1,2,2,2] g"))
    assert "sideways" in str(fault)


def test_a_type_that_onnx_runtime_has_no_kernel_for_is_no_fault():
    assert model_fault(model("z = Relu(x)\n y = Cast <to = 1> (z)", "int16[2,3] x")) is None


def test_a_model_whose_indices_have_another_rank_than_its_data_does_not_run():
    assert not runs(model("y = GatherElements(x, i)", "float[2,3] x, int64[1,3,1] i"))
    assert runs(model("y = GatherElements(x, i)", "float[2,3] x, int64[1,3] i"))


def test_a_model_without_a_kernel_may_run():
    assert runs(model("z = Relu(x)\n y = Cast <to = 1> (z)", "int16[2,3] x"))
