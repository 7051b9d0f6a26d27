from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.model import Model, ValueSpec, name_nodes, name_values

OnnxModel = Callable[..., onnx.ModelProto]

MATMUL = "g (float[N, 40] x) => (float[N, 30] y) { y = MatMul (x, w) }"
WEIGHTS = np.random.default_rng(0).standard_normal((40, 30)).astype(np.float32)


@pytest.fixture
def mapped(tmp_path: Path, onnx_model: OnnxModel) -> Model:
    """A model whose weights are in a file beside it."""
    onnx.save(onnx_model(MATMUL, w=WEIGHTS), tmp_path / "m.onnx", save_as_external_data=True, location="m.data")
    return Model(ir.load(tmp_path / "m.onnx"))


def weights_of(proto: onnx.ModelProto) -> np.ndarray:
    return onnx.numpy_helper.to_array(proto.graph.initializer[0])


def test_mapped_tensors_come_along_in_memory(mapped: Model) -> None:
    np.testing.assert_array_equal(weights_of(mapped.proto()), WEIGHTS)


def test_mapped_tensors_come_along_into_another_folder(mapped: Model, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    mapped.save(tmp_path / "elsewhere" / "m.onnx")
    (tmp_path / "m.data").unlink()
    np.testing.assert_array_equal(weights_of(onnx.load(tmp_path / "elsewhere" / "m.onnx")), WEIGHTS)


def test_serializing_leaves_mapped_tensors_mapped(mapped: Model) -> None:
    mapped.proto()
    assert [type(tensor) for tensor in mapped.tensors()] == [ir.ExternalTensor]


def test_mapped_tensors_come_along_while_somebody_looks_at_them(mapped: Model) -> None:
    (tensor,) = mapped.tensors()
    seen = tensor.numpy()
    np.testing.assert_array_equal(weights_of(mapped.proto()), WEIGHTS)
    np.testing.assert_array_equal(seen, WEIGHTS)


def test_a_model_that_no_message_can_hold_gets_a_data_file(
    onnx_model: OnnxModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgekit.model.PROTOBUF_LIMIT", WEIGHTS.nbytes)
    Model(ir.from_proto(onnx_model(MATMUL, w=WEIGHTS))).save(tmp_path / "big.onnx")
    assert (tmp_path / "big.onnx.data").stat().st_size >= WEIGHTS.nbytes
    np.testing.assert_array_equal(weights_of(onnx.load(tmp_path / "big.onnx")), WEIGHTS)


def test_all_tensors_count(onnx_model: OnnxModel) -> None:
    graph = """g (float[1] x, bool flag) => (float[1] y) {
        c = Constant <value = float[1] {1.0}> ()
        y = If (flag) <
            then_branch = t () => (float[1] a) { k = Constant <value = float[1] {2.0}> () a = Add (x, k) },
            else_branch = e () => (float[1] b) { b = Add (c, w) }
        >
    }"""
    model = Model(ir.from_proto(onnx_model(graph, w=np.ones(1, np.float32))))
    assert model.weight_bytes == 3 * 4


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (ValueSpec("x", "float32", (1, "N", None)), "x: float32 1×N×?"),
        (ValueSpec("x", "int64", ()), "x: int64 scalar"),
        (ValueSpec("x", "bool", None), "x: bool unknown rank"),
    ],
)
def test_how_an_input_reads(spec: ValueSpec, text: str) -> None:
    assert str(spec) == text


def test_what_is_no_tensor_says_so(onnx_model: OnnxModel) -> None:
    graph = "g (optional(float[2, 4]) x) => (seq(float[1, 4]) y) { t = OptionalGetElement (x) y = SplitToSequence (t) }"
    model = Model(ir.from_proto(onnx_model(graph)))
    assert (model.inputs[0].dtype, model.outputs[0].dtype) == ("optional(float32)", "seq(float32)")


def test_every_node_gets_a_name_of_its_own(onnx_model: OnnxModel) -> None:
    graph = """g (float[1] x, bool flag) => (float[1] y) {
        [act] a = Relu (x)
        [act] b = Neg (a)
        c = Abs (b)
        [act] y = If (flag) <
            then_branch = t () => (float[1] d) { [act] d = Exp (c) },
            else_branch = e () => (float[1] f) { f = Neg (c) }
        >
    }"""
    model = ir.from_proto(onnx_model(graph))
    name_nodes(model)
    assert [node.name for node in model.graph.all_nodes()] == ["act", "act_2", "c", "act_3", "act_4", "f"]


def test_values_of_two_branches_get_names_of_their_own(onnx_model: OnnxModel) -> None:
    text = """g (bool c, float[2] x) => (float[2] y, float[2] z) {
        y = If (c) <
            then_branch = t () => (float[2] o) { o = Neg (x) },
            else_branch = e () => (float[2] o) { o = Exp (x) }
        >
        z = If (c) <
            then_branch = u () => (float[2] o) { o = Abs (x) },
            else_branch = f () => (float[2] y_2) { y_2 = Sin (x) }
        >
    }"""
    model = ir.from_proto(onnx_model(text))
    name_values(model)
    names = [value.name for graph in model.graphs() for node in graph for value in node.outputs]
    assert names == ["y", "z", "o", "o_2", "o_3", "y_2"]


def test_many_equal_names_take_no_square_of_time() -> None:
    """Each of 4,000 nodes of one name was compared with all that came before it: 10 s."""
    nodes = [ir.node("Neg", [], name="n", num_outputs=1) for _ in range(20_000)]
    for node in nodes:
        node.outputs[0].name = "v"
    model = ir.Model(ir.Graph([], [], nodes=nodes, opset_imports={"": 17}), ir_version=9)
    start = time.process_time()
    name_nodes(model)
    name_values(model)
    assert time.process_time() - start < 5  # of processor time; the square would take minutes
    assert [node.name for node in nodes[:3]] == ["n", "n_2", "n_3"]
    assert nodes[-1].outputs[0].name == "v_20000"
