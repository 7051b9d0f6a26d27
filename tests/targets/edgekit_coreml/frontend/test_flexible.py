from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import edgekit_coreml
from edgekit.errors import InputError, UnsupportedOpsError

FLOAT = onnx.TensorProto.FLOAT


def network(shape, nodes, weights):
    graph = make_graph(
        nodes,
        "open",
        [make_tensor_value_info("x", FLOAT, shape)],
        [make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=10)


def convolutional(shape, rng):
    nodes = [
        make_node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        make_node("Relu", ["a"], ["b"]),
        make_node("MaxPool", ["b"], ["c"], kernel_shape=[2, 2], strides=[2, 2]),
        make_node("Softmax", ["c"], ["y"], axis=1),
    ]
    return network(shape, nodes, {"w": rng.standard_normal((4, 3, 3, 3)).astype(np.float32)})


def assert_agrees(model, package, shapes, rng, atol=1e-5):
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in shapes:
        x = rng.standard_normal(shape).astype(np.float32)
        np.testing.assert_allclose(runner.run({"x": x})["y"], session.run(None, {"x": x})[0], rtol=0, atol=atol)


@pytest.mark.parametrize("precision", ["float32", "auto"])
def test_range_of_batches(tmp_path, rng, precision):
    model = convolutional(["n", 3, 8, 6], rng)
    dimensions = {"n": range(1, 5)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision=precision, dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 8, 6), (4, 3, 8, 6)], rng, atol=1e-5 if precision == "float32" else 1e-2)


def test_listed_sizes_of_images(tmp_path, rng):
    model = convolutional([1, 3, "h", "w"], rng)
    dimensions = {"h": (8, 16), "w": (6, 10)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 8, 6), (1, 3, 16, 10), (1, 3, 8, 10)], rng)
    with pytest.raises(InputError, match="not one of the shapes"):
        edgekit_coreml.load(package).run({"x": np.zeros((1, 3, 12, 6), np.float32)})


def test_size_out_of_range_is_refused_at_run_time(tmp_path, rng):
    model = convolutional(["n", 3, 8, 6], rng)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 3)})
    with pytest.raises(InputError, match="out of the range"):
        edgekit_coreml.load(package).run({"x": np.zeros((3, 3, 8, 6), np.float32)})


def test_classifier_head_for_any_batch(tmp_path, rng):
    nodes = [
        make_node("GlobalAveragePool", ["x"], ["a"]),
        make_node("Reshape", ["a", "flat"], ["b"]),
        make_node("MatMul", ["b", "w"], ["c"]),
        make_node("Add", ["c", "bias"], ["d"]),
        make_node("Softmax", ["d"], ["y"], axis=-1),
    ]
    weights = {
        "flat": np.array([-1, 3]),
        "w": rng.standard_normal((3, 5)).astype(np.float32),
        "bias": rng.standard_normal(5).astype(np.float32),
    }
    model = network(["n", 3, 8, 6], nodes, weights)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 9)})
    assert_agrees(model, package, [(1, 3, 8, 6), (8, 3, 8, 6)], rng)


@pytest.mark.parametrize(
    "flatten",
    [
        [make_node("Flatten", ["x"], ["y"])],
        [make_node("Flatten", ["x"], ["y"], axis=-1)],
        *([make_node("Reshape", ["x", name], ["y"])] for name in ("keeping", "batch_first", "inside", "batch_last")),
    ],
    ids=str,
)
def test_reshapes_of_any_batch(tmp_path, rng, flatten):
    shapes = {"keeping": [0, -1], "batch_first": [-1, 24], "inside": [0, 0, -1, 2], "batch_last": [24, -1]}
    used = flatten[0].input[1:]
    model = network(["n", 3, 2, 4], flatten, {name: np.array(shapes[name]) for name in used})
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 9)})
    assert_agrees(model, package, [(1, 3, 2, 4), (5, 3, 2, 4)], rng)


def test_shape_made_of_the_batch_keeps_the_sizes_that_are_numbers(tmp_path, rng):
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Gather", ["s", "zero"], ["n"]),
        make_node("Unsqueeze", ["n", "first"], ["batch"]),
        make_node("Slice", ["s", "one", "two"], ["channels"]),
        make_node("Concat", ["batch", "channels", "rest"], ["target"], axis=0),
        make_node("Reshape", ["x", "target"], ["a"]),
        make_node("MatMul", ["a", "w"], ["b"]),
        make_node("Reshape", ["b", "flat"], ["c"]),
        make_node("MatMul", ["c", "v"], ["y"]),
    ]
    weights = {
        "zero": np.array(0),
        "first": np.array([0]),
        "one": np.array([1]),
        "two": np.array([2]),
        "rest": np.array([-1]),
        "flat": np.array([0, 15]),
        "w": rng.standard_normal((8, 5)).astype(np.float32),
        "v": rng.standard_normal((15, 2)).astype(np.float32),
    }
    model = network(["n", 3, 2, 4], nodes, weights)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 9)})
    assert_agrees(model, package, [(1, 3, 2, 4), (5, 3, 2, 4)], rng)


def test_two_open_sizes_in_one_are_refused(tmp_path):
    model = network(["n", 3, "w"], [make_node("Reshape", ["x", "shape"], ["y"])], {"shape": np.array([0, -1, 1])})
    with pytest.raises(UnsupportedOpsError, match="more than one open size"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 9), "w": range(2, 9)})


def test_same_model_gives_the_same_bytes(tmp_path, rng):
    model = convolutional(["n", 3, 8, 6], rng)
    packages = [edgekit_coreml.convert(model, tmp_path / name, dimensions={"n": range(1, 9)}) for name in "ab"]
    first, second = ((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes() for package in packages)
    assert first == second


def test_operator_that_needs_fixed_sizes_is_refused_by_name(tmp_path):
    model = network(["n", 3], [make_node("Det", ["x"], ["y"], name="det")], {})
    with pytest.raises(UnsupportedOpsError, match=r"'det'.*needs a fixed shape"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 4)})


def test_range_and_list_in_one_shape_are_refused(tmp_path, rng):
    model = convolutional(["n", 3, "h", 6], rng)
    with pytest.raises(InputError, match="a range and others with a list"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 4), "h": (8, 16)})


@pytest.mark.parametrize("sizes", [(), (0, 1), range(1, 9, 2)])
def test_impossible_sizes_are_refused(tmp_path, rng, sizes):
    with pytest.raises(InputError, match="not the sizes of a dimension"):
        edgekit_coreml.convert(convolutional(["n", 3, 8, 6], rng), tmp_path / "m", dimensions={"n": sizes})
