from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.errors import InputError
from edgekit.graph.extraction import extract_part
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

GRAPH = """g (float[1, 4] x, float[1, 4] z) => (float[1, 4] y) {
    [first] a = MatMul (x, w)
    [second] b = Relu (a)
    [third] c = Add (b, z)
    [fourth] y = Neg (c)
}"""
WEIGHTS = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


@pytest.fixture
def whole(onnx_model: OnnxModel) -> Model:
    return Model(ir.from_proto(onnx_model(GRAPH, w=WEIGHTS)))


def refusal(model: Model, outputs: list[str], inputs: list[str]) -> str:
    with pytest.raises(InputError) as caught:
        extract_part(model, outputs=outputs, inputs=inputs)
    return str(caught.value)


def run(model: Model, **feeds: np.ndarray) -> list[np.ndarray]:
    onnx.checker.check_model(model.proto(), full_check=True)
    return ReferenceEvaluator(model.proto()).run(None, feeds)


def test_a_part_computes_what_the_whole_computed_there(whole: Model) -> None:
    part = extract_part(whole, outputs=["b"])
    assert [spec.name for spec in part.inputs] == ["x"]
    assert [str(spec) for spec in part.outputs] == ["b: float32 1×4"]
    x = np.float32([[1, -2, 3, -4]])
    np.testing.assert_allclose(run(part, x=x)[0], np.maximum(x @ WEIGHTS, 0), rtol=1e-6)


def test_a_part_may_start_inside(whole: Model) -> None:
    part = extract_part(whole, outputs=["y"], inputs=["b", "z"])
    assert [spec.name for spec in part.inputs] == ["b", "z"]
    assert list(part.graph.initializers) == []
    b, z = np.float32([[1, 2, 3, 4]]), np.float32([[1, 1, 1, 1]])
    np.testing.assert_array_equal(run(part, b=b, z=z)[0], -(b + z))


@pytest.mark.parametrize("outputs", [["a,c"], ["a", "c"], [" a , c "], ["first,third"]])
def test_ways_to_name_outputs(whole: Model, outputs: list[str]) -> None:
    assert [spec.name for spec in extract_part(whole, outputs=outputs).outputs] == ["a", "c"]


def test_a_name_may_have_a_comma(onnx_model: OnnxModel) -> None:
    proto = onnx_model("g (float[1] x) => (float[1] y) { a = Relu (x) y = Neg (a) }")
    proto.graph.node[0].output[0] = proto.graph.node[1].input[0] = "a,b"
    assert [spec.name for spec in extract_part(Model(ir.from_proto(proto)), outputs=["a,b"]).outputs] == ["a,b"]


def test_what_a_branch_reads_comes_along(onnx_model: OnnxModel) -> None:
    graph = """g (float[1, 4] x, bool flag) => (float[1, 4] y) {
        a = Relu (x)
        b = If (flag) <
            then_branch = t () => (float[1, 4] p) { p = MatMul (a, w) },
            else_branch = e () => (float[1, 4] q) { q = Neg (a) }
        >
        y = Abs (b)
    }"""
    whole = Model(ir.from_proto(onnx_model(graph, w=WEIGHTS)))
    part = extract_part(whole, outputs=["b"])
    assert {spec.name for spec in part.inputs} == {"x", "flag"}
    x = np.float32([[1, -2, 3, -4]])
    np.testing.assert_allclose(run(part, x=x, flag=np.array(True))[0], np.maximum(x, 0) @ WEIGHTS, rtol=1e-6)


def test_the_whole_stays_as_it_is(whole: Model) -> None:
    before = whole.proto().SerializeToString()
    extract_part(whole, outputs=["b"])
    assert whole.proto().SerializeToString() == before


def test_an_unknown_name(whole: Model) -> None:
    assert refusal(whole, ["fourht"], []) == (
        "--outputs: there is no value or node 'fourht'\n"
        "expected: 'fourth'\n"
        "hint: `edgekit inspect` shows inputs and outputs; a viewer such as Netron shows what lies between"
    )


def test_no_name(whole: Model) -> None:
    assert refusal(whole, [","], []) == ("--outputs: names nothing to compute\nhint: `edgekit inspect` shows the names")


def test_inputs_that_do_not_suffice(whole: Model) -> None:
    assert refusal(whole, ["y"], ["b"]) == (
        "--inputs: the outputs also need 'z'\nhint: add it, or cut where nothing else comes in"
    )


def test_an_input_that_leads_nowhere(whole: Model) -> None:
    assert refusal(whole, ["b"], ["x", "z"]) == "--inputs: the outputs do not need 'z'\nhint: leave it out"


@pytest.mark.parametrize("name", ["x", "w"])
def test_an_output_that_no_node_makes(whole: Model, name: str) -> None:
    assert refusal(whole, [name], []) == (f"--outputs: {name!r} is not computed\nhint: name a value that a node makes")
