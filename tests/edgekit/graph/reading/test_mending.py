from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime import InferenceSession

from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.stages.load import Load


def relu(path, change) -> None:
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Mul", ["x", "c"], ["y"])],
        "plain",
        [info("x", TensorProto.FLOAT, [1, 4])],
        [info("y", TensorProto.FLOAT, [1, 4])],
        [numpy_helper.from_array(np.ones(4, np.float32), "c")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    change(proto)
    path.write_bytes(proto.SerializeToString().replace(b"@@@@", b"\xff\xfe\xfd\xfc"))


def without_name(proto: onnx.ModelProto) -> None:
    proto.graph.ClearField("name")


def with_bytes(proto: onnx.ModelProto) -> None:
    proto.graph.node[0].doc_string = "@@@@"


def with_unused(proto: onnx.ModelProto) -> None:
    proto.graph.initializer.add(name="unused", data_type=TensorProto.FLOAT, raw_data=b"abc").dims.append(7)


def with_initializers_alone(proto: onnx.ModelProto) -> None:
    proto.ir_version = 3


def with_an_untyped_output(proto: onnx.ModelProto) -> None:
    proto.graph.output[0].ClearField("type")


def with_an_untyped_value(proto: onnx.ModelProto) -> None:
    proto.graph.value_info.add(name="y")


def with_an_output_listed_twice(proto: onnx.ModelProto) -> None:
    proto.graph.output.add().CopyFrom(proto.graph.output[0])


def backwards(proto: onnx.ModelProto) -> None:
    node = helper.make_node
    (product,) = proto.graph.node
    product.output[0] = "product"
    branch = helper.make_graph(  # what its nodes read from outside has to be there before the If
        [node("Add", ["product", "c"], ["up"]), node("Neg", ["up"], ["down"])],
        "branch",
        [],
        [helper.make_tensor_value_info("down", TensorProto.FLOAT, [1, 4])],
    )
    nodes = [
        node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch),
        node("Equal", ["one", "one"], ["yes"]),
        product,
        node("Constant", [], ["one"], value_int=1),
    ]
    later = helper.make_graph(nodes, "later", [], []).node
    del proto.graph.node[:]
    proto.graph.node.extend(later)


@pytest.mark.parametrize(
    ("change", "warning"),
    [
        (without_name, "the graph had no name: it is called 'graph'"),
        (with_bytes, "1 doc strings that are not text were dropped"),
        (backwards, "nodes stood before what they read: they were put into the order in which they are computed"),
        (
            with_initializers_alone,
            "1 of its initializers are not inputs, which its IR version asks for: it is read as a newer one",
        ),
        (with_an_untyped_output, "output 'y' had no type: it has the one that its node makes"),
        (with_an_untyped_value, "1 values had an entry without a type: it was dropped"),
        (with_an_output_listed_twice, "output 'y' was listed 2 times: it is one output"),
        (with_unused, "initializer 'unused' is used by nothing and has another size than it says: it was dropped"),
    ],
)
def test_a_harmless_breach_is_mended_with_a_warning(tmp_path, change, warning):
    relu(tmp_path / "m.onnx", change)
    result = Load()(tmp_path / "m.onnx")
    assert warning in result.warnings
    assert result.model.proto().SerializeToString()


def test_sorted_nodes_compute_what_onnx_runtime_computes_of_the_file(tmp_path):
    relu(tmp_path / "m.onnx", backwards)
    x = np.array([[1, 2, 3, 4]], np.float32)
    (ours,) = Reference(Load()(tmp_path / "m.onnx").model).run({"x": x}).values()
    (theirs,) = InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"]).run(None, {"x": x})
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(ours, -(x + 1))


def test_an_output_that_onnx_runtime_takes_twice_is_one(tmp_path):
    relu(tmp_path / "m.onnx", with_an_output_listed_twice)
    theirs = InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    assert [each.name for each in theirs.get_outputs()] == ["y", "y"]
    assert [spec.name for spec in Load()(tmp_path / "m.onnx").model.outputs] == ["y"]


def test_nodes_in_a_circle_are_refused(tmp_path):
    def circle(proto: onnx.ModelProto) -> None:
        proto.graph.node[0].input[0] = "z"
        proto.graph.node.append(helper.make_node("Neg", ["y"], ["z"]))

    relu(tmp_path / "m.onnx", circle)
    with pytest.raises(InputError, match="breaks the rules of ONNX: Nodes in a graph must be topologically sorted"):
        Load()(tmp_path / "m.onnx")


@pytest.mark.parametrize("kind", ["Relu", "Softsign"])
def test_a_function_with_the_name_of_an_operator_is_not_called(tmp_path, kind: str) -> None:
    function = helper.make_function(
        "", kind, ["p"], ["q"], [helper.make_node("Neg", ["p"], ["q"])], [helper.make_opsetid("", 17)]
    )
    path = tmp_path / "m.onnx"
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node(kind, ["x"], ["y"])],
        "g",
        [info("x", TensorProto.FLOAT, [4])],
        [info("y", TensorProto.FLOAT, [4])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, functions=[function])
    path.write_bytes(proto.SerializeToString())
    feeds = {"x": np.float32([-3, 1, 0, 2])}
    wanted = InferenceSession(str(path), providers=["CPUExecutionProvider"]).run(None, feeds)[0]
    result = Load()(path)
    np.testing.assert_array_equal(Reference(result.model).run(feeds)["y"], wanted)
    assert result.warnings == (
        f"the model's function {kind!r} has the name of an operator of ONNX, which is executed in its place",
    )


def test_axes_that_a_transpose_counts_from_the_end_count_from_the_start(tmp_path):
    """As PyTorch 2.14's TorchScript exporter writes ``x.permute(0, -1, 1, 2)``, inside a branch as well."""
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[N, 3, 4, 5] x, bool c) => (float[N, 5, 3, 4] y) {'
        " t = Transpose <perm = [0, -1, 1, 2]> (x) y = If (c) <"
        " then_branch = a () => (float[N, 5, 3, 4] u) { u = Transpose <perm = [-4, -3, 2, 3]> (t) },"
        " else_branch = b () => (float[N, 5, 3, 4] v) { v = Neg (t) }> }"
    )
    onnx.save(proto, tmp_path / "m.onnx")
    result = Load()(tmp_path / "m.onnx")
    warning = "Transposes whose axes count from the end, which the standard does not allow, were mended: 2"
    assert result.warnings == (warning,)
    x = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)
    for taken, sign in ((True, 1), (False, -1)):
        y = Reference(result.model).run({"x": x, "c": np.array(taken)})["y"]
        np.testing.assert_array_equal(y, sign * x.transpose(0, 3, 1, 2))


def test_operators_of_onnx_runtime_that_are_not_imported(tmp_path):
    """ONNX Runtime imports them by itself."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]> g (float[2] x) => (float[2] y)'
        " { y = com.microsoft.Gelu (x) }"
    )
    del proto.opset_import[1]
    onnx.save(proto, tmp_path / "m.onnx")
    assert [each.name for each in InferenceSession(tmp_path / "m.onnx").get_outputs()] == ["y"]
    loaded = Load()(tmp_path / "m.onnx")
    assert "it used operators of the domain com.microsoft without importing it: version 1 is taken" in loaded.warnings


def test_nodes_of_a_branch_that_stand_before_what_they_read(tmp_path):
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool b) => (float[2] y) { y = If (b) <'
        " then_branch = one () => (float[2] r) { t = Neg (x) r = Relu (t) },"
        " else_branch = other () => (float[2] n) { n = Abs (x) }> }"
    )
    branch = proto.graph.node[0].attribute[0].g
    branch.node.extend([branch.node.pop(0)])
    onnx.save(proto, tmp_path / "m.onnx")
    model = Load()(tmp_path / "m.onnx").model
    found = Reference(model).run({"x": np.array([1, -2], np.float32), "b": np.array(True)})
    np.testing.assert_array_equal(found["y"], [0, 2])
