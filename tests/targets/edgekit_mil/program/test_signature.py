from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.helper import make_node

import edgekit_coreml
from edgekit.errors import InputError, UnsupportedOpsError

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def test_odd_and_clashing_names_stay_the_models(convert_graph):
    feeds = {"onnx::Relu_0": X, "x.7": X + 1, "x_7": X + 2, "3": X}
    nodes = [
        make_node("Sub", ["x.7", "x_7"], ["y:0"]),
        make_node("Add", ["onnx::Relu_0", "3"], ["y_0"]),
        make_node("Neg", ["3"], ["ä"]),
    ]
    results = convert_graph(nodes, feeds, dict.fromkeys(["y:0", "y_0", "ä"], "float32")).run(feeds)
    np.testing.assert_array_equal(results["y:0"], np.full((2, 3), -1))
    np.testing.assert_array_equal(results["y_0"], 2 * X)
    np.testing.assert_array_equal(results["ä"], -X)


def test_input_handed_through_and_output_twice(convert_graph):
    nodes = [
        make_node("Identity", ["x"], ["a"]),
        make_node("Identity", ["x"], ["b"]),
        make_node("Relu", ["x"], ["c"]),
        make_node("Identity", ["c"], ["d"]),
    ]
    results = convert_graph(nodes, {"x": X}, dict.fromkeys("abcd", "float32")).run({"x": X})
    for array in results.values():
        np.testing.assert_array_equal(array, X)


def test_input_that_is_itself_an_output(convert_graph):
    results = convert_graph([make_node("Neg", ["x"], ["y"])], {"x": X}, {"x": "float32", "y": "float32"}).run({"x": X})
    np.testing.assert_array_equal(results["x"], X)
    np.testing.assert_array_equal(results["y"], -X)


def test_constant_output_and_unused_input(convert_graph):
    feeds = {"x": X, "unused": np.zeros(3, np.float32)}
    nodes = [make_node("Identity", ["k"], ["fixed"]), make_node("Neg", ["x"], ["y"])]
    results = convert_graph(nodes, feeds, {"fixed": "int64", "y": "float32"}, {"k": np.array([1, 2])}).run(feeds)
    np.testing.assert_array_equal(results["fixed"], np.array([1, 2]))


def test_model_without_inputs(convert_graph):
    runner = convert_graph([make_node("Add", ["k", "k"], ["y"])], {}, {"y": "float32"}, {"k": X})
    np.testing.assert_array_equal(runner.run({})["y"], 2 * X)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "uint16", "int64", "float64", "float16"])
@pytest.mark.parametrize("shape", [(), (2, 3), (2, 1, 2, 1, 3, 2), (2, 0, 3)])
def test_types_and_shapes_cross_the_border(convert_graph, dtype, shape):
    x = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    (y,) = convert_graph([make_node("Identity", ["x"], ["y"])], {"x": x}, {"y": dtype}).run({"x": x}).values()
    assert y.dtype == x.dtype
    assert y.shape == x.shape
    np.testing.assert_array_equal(y, x)


@pytest.mark.parametrize("number", [np.array([2**40]), np.array([1e200])])
def test_input_that_does_not_fit_is_refused_when_it_comes(convert_graph, number):
    runner = convert_graph([make_node("Identity", ["x"], ["y"])], {"x": number}, {"y": number.dtype.name})
    with pytest.raises(InputError, match="a value does not fit"):
        runner.run({"x": number})


def test_type_that_no_program_has_is_refused_by_name(tmp_path):
    text = onnx.helper.make_tensor_value_info("words", onnx.TensorProto.STRING, [2])
    graph = onnx.helper.make_graph([make_node("Identity", ["words"], ["y"])], "texts", [text], [
        onnx.helper.make_tensor_value_info("y", onnx.TensorProto.STRING, [2])
    ])  # fmt: skip
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(UnsupportedOpsError, match=r"'words'.*no tensors of type string\nhint: cut the nodes .*"):
        edgekit_coreml.convert(model, tmp_path / "model")


@pytest.mark.parametrize(("size", "flag"), [("batch", "--dim batch=SIZE"), (None, "--shape x=SIZE,3")])
def test_dynamic_dimension_is_an_error_that_names_the_flag(tmp_path, size, flag):
    graph = onnx.helper.make_graph(
        [make_node("Relu", ["x"], ["y"])],
        "dynamic",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [size, 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    with pytest.raises(InputError, match=flag):
        edgekit_coreml.convert(model, tmp_path / "model")


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_same_model_gives_the_same_bytes(tmp_path, rng, precision):
    graph = onnx.helper.make_graph(
        [make_node("MatMul", ["x", "w"], ["a"]), make_node("Softmax", ["a"], ["y"])],
        "twice",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2, 3])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(rng.standard_normal((3, 64)).astype(np.float32), "w")],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 21)], ir_version=10)
    first, second = (edgekit_coreml.convert(model, tmp_path / name, precision=precision) for name in ("a", "b"))
    files = sorted(path.relative_to(first) for path in first.rglob("*") if path.is_file())
    assert files == sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    for file in files:
        assert (first / file).read_bytes() == (second / file).read_bytes()


def test_a_hint_fixes_all_dynamic_dimensions_at_once(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]>
        g (float[1, H, W] x, float[H, W] m, float[?, K] z) => (float[1, H, W] y) {
        a = Add (x, m)
        y = Add (a, z)
        }"""
    )
    with pytest.raises(InputError) as caught:
        edgekit_coreml.convert(model, tmp_path / "m.mlpackage")
    hint = caught.value.hint
    assert hint.startswith("fix it with --dim H=SIZE --dim W=SIZE --shape z=SIZE,SIZE; ")
