from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.model import Model
from edgekit.stages.load import Load

WEIGHTS = np.array([[1.5, -3.0], [0.0078125, 200.0]], np.float32)
"""Numbers that bfloat16 has."""
FED = np.array([[1.0009765625, 2.0]], np.float32)
"""The first number is one of float32 that bfloat16 rounds to 1."""


def written(folder: Path, text: str, opset: int = 18) -> Path:
    proto = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "own" : 1]> {text}')
    proto.graph.initializer.append(
        onnx.helper.make_tensor("w", onnx.TensorProto.BFLOAT16, WEIGHTS.shape, WEIGHTS.astype(ml_dtypes.bfloat16))
    )
    onnx.save(proto, folder / "model.onnx")
    return folder / "model.onnx"


@pytest.mark.parametrize("opset", [13, 22])
@pytest.mark.parametrize(
    "nodes",
    [
        "h = MatMul (x, w) y = Relu (h)",
        "f = Cast <to = 1> (x) b = Cast <to = 16> (f) h = MatMul (b, w) y = Relu (h)",
        "h = own.product (x, w) y = Relu (h)",
    ],
)
def test_a_model_in_bfloat16_runs_in_float32(tmp_path: Path, nodes: str, opset: int) -> None:
    body = "h = MatMul (a, b) c = Cast <to = 16> (h)"
    function = f'<domain: "own", opset_import: ["" : {opset}]> product (a, b) => (c) {{ {body} }}'
    graph = f"g (bfloat16[N, 2] x) => (bfloat16[N, 2] y) {{ {nodes} }}"
    result = Load()(written(tmp_path, f"{graph} {function if 'own.' in nodes else ''}", opset))
    assert [str(spec) for spec in (*result.model.inputs, *result.model.outputs)] == ["x: float32 N×2", "y: float32 N×2"]
    found = Reference(result.model).run({"x": FED})["y"]
    np.testing.assert_array_equal(found, np.maximum(FED @ WEIGHTS, 0))
    assert result.warnings == (
        "the model computes in bfloat16, which ONNX Runtime does not execute: it is converted to float32, and so "
        "are 'x', 'y'; weights keep their values, and results of nodes are not rounded to bfloat16's 8 bits",
    )


def test_bfloat16_inside_and_float16_beside_it(tmp_path: Path) -> None:
    """As tf2onnx writes a Keras model of the policy ``mixed_bfloat16``."""
    graph = "g (float[N, 2] x) => (float[N, 2] y) { b = Cast <to = 10> (x) h = MatMul (b, w) y = Cast <to = 1> (h) }"
    result = Load()(written(tmp_path, graph))
    np.testing.assert_array_equal(Reference(result.model).run({"x": FED})["y"], FED @ WEIGHTS)
    assert "it is converted to float32; weights keep their values" in result.warnings[0]


def test_few_of_many_inputs_and_outputs_are_counted(tmp_path: Path) -> None:
    graph = "g (bfloat16[2] a, bfloat16[2] b, bfloat16[2] c, float[2] d) => (bfloat16[2] y, bfloat16[2] z) "
    result = Load()(written(tmp_path, graph + "{ e = Add (a, b) y = Relu (e) z = Relu (c) i = Neg (d) }"))
    assert "float32, and so are 5 inputs and outputs; " in result.warnings[0]


def test_what_runs_in_bfloat16_stays(tmp_path: Path) -> None:
    """Weights that are stored in bfloat16 and computed with in float32 keep their size."""
    graph = "g (float[N, 2] x) => (float[N, 2] y) { f = Cast <to = 1> (w) y = MatMul (x, f) }"
    result = Load()(written(tmp_path, graph))
    assert [node.op_type for node in result.model.graph] == ["Cast", "MatMul"]
    assert result.warnings == ()


def test_inputs_and_outputs_in_bfloat16_become_float32_though_the_nodes_run(tmp_path: Path) -> None:
    """NumPy has no bfloat16: nobody could feed the input."""
    graph = "g (bfloat16[N, 2] x) => (bfloat16[N, 2] y) { f = Cast <to = 1> (x) g = Relu (f) y = Cast <to = 16> (g) }"
    result = Load()(written(tmp_path, graph))
    np.testing.assert_array_equal(Reference(result.model).run({"x": FED - 2})["y"], np.maximum(FED - 2, 0))
    assert result.warnings[0].startswith("the model takes inputs or gives outputs in bfloat16, which ONNX Runtime")


GRID = """g (float[1, 2, 5, 6] x, float[1, 3, 4, 2] places) => (%s y) {
    d = Cast <to = 11> (places) half = Constant <value = double {0.5}> () moved = Mul (d, half)
    s = GridSample <align_corners = 0, mode = "linear", padding_mode = "zeros"> (x, moved) %s
}"""


@pytest.mark.parametrize(
    ("tensor", "end"),
    [("float[1, 2, 3, 4]", "y = Relu (s)"), ("double[1, 2, 3, 4]", "r = Relu (s) y = Cast <to = 11> (r)")],
)
def test_places_in_double_precision_at_which_a_picture_is_sampled(tmp_path: Path, tensor: str, end: str) -> None:
    """As PyTorch's older exporter writes Deformable DETR: ONNX Runtime has no kernel for it."""
    path = written(tmp_path, GRID % (tensor, end), opset=20)
    with pytest.raises(NotRunnableError, match="GridSample"):
        Reference(Model(ir.load(path)))
    result = Load()(path)
    rng = np.random.default_rng(0)
    x, places = rng.normal(size=(1, 2, 5, 6)), rng.uniform(-2, 2, (1, 3, 4, 2))
    feeds = {"x": x.astype(np.float32), "places": places.astype(np.float32)}
    found = Reference(result.model).run(feeds)["y"]
    (expected,) = ReferenceEvaluator(str(path)).run(None, feeds)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert found.dtype == expected.dtype
    assert any("uses double precision" in warning for warning in result.warnings)
