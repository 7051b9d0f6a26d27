from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info

import edgekit_coreml
from edgekit.errors import InputError, UnsupportedOpsError

FLOAT = onnx.TensorProto.FLOAT


def network(shape, nodes, weights, opset=17):
    graph = make_graph(
        nodes,
        "open",
        [make_tensor_value_info("x", FLOAT, shape)],
        [make_tensor_value_info("y", FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    return make_model(graph, opset_imports=[make_opsetid("", opset)], ir_version=10)


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


def test_reshape_to_several_open_sizes(tmp_path, rng):
    model = network(["n", 3, "w"], [make_node("Reshape", ["x", "shape"], ["y"])], {"shape": np.array([0, -1, 1])})
    dimensions = {"n": range(1, 9), "w": range(2, 9)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 2), (8, 3, 5), (3, 3, 8)], rng)


def test_heads_of_attention_over_any_batch_and_length(tmp_path, rng):
    """What exporters write for ``x.view(*x.shape[:2], heads, size)``: two open sizes, the others numbers."""
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Slice", ["s", "zero", "two"], ["leading"]),
        make_node("Concat", ["leading", "heads"], ["target"], axis=0),
        make_node("Reshape", ["x", "target"], ["a"]),
        make_node("Transpose", ["a"], ["q"], perm=[0, 2, 1, 3]),
        make_node("Transpose", ["a"], ["k"], perm=[0, 2, 3, 1]),
        make_node("MatMul", ["q", "k"], ["scores"]),
        make_node("Softmax", ["scores"], ["y"], axis=-1),
    ]
    weights = {"zero": np.array([0]), "two": np.array([2]), "heads": np.array([2, 4])}
    model = network(["n", "l", 8], nodes, weights)
    dimensions = {"n": range(1, 5), "l": range(2, 9)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 2, 8), (4, 8, 8), (3, 5, 8)], rng)


def test_positions_cut_to_the_length_of_a_sequence(tmp_path, rng):
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Slice", ["s", "one", "two"], ["length"]),
        make_node("Slice", ["table", "zero", "length", "one"], ["cut"]),
        make_node("Add", ["x", "cut"], ["y"]),
    ]
    table = rng.standard_normal((1, 16, 4)).astype(np.float32)
    weights = {"table": table, "zero": np.array([0]), "one": np.array([1]), "two": np.array([2])}
    model = network([1, "l", 4], nodes, weights)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"l": range(2, 17)})
    assert_agrees(model, package, [(1, 2, 4), (1, 16, 4)], rng)


OPEN_BATCH = {
    "pool, sizes rounded up": make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
    "pool, as many windows as elements": make_node(
        "AveragePool", ["x"], ["y"], kernel_shape=[3, 3], auto_pad="SAME_UPPER", count_include_pad=1
    ),
    "mirrored": make_node("Pad", ["x", "pads"], ["y"], mode="reflect"),
    "cropped": make_node("Pad", ["x", "crop"], ["y"]),
    "repeated": make_node("Resize", ["x", "", "twice"], ["y"], mode="nearest", nearest_mode="floor"),
    "cubic": make_node("Resize", ["x", "", "twice"], ["y"], mode="cubic"),
    "response of more channels than there are": make_node("LRN", ["x"], ["y"], size=5, alpha=0.3, bias=2.0),
}


@pytest.mark.parametrize("node", OPEN_BATCH.values(), ids=OPEN_BATCH)
def test_spatial_operators_over_any_batch(tmp_path, rng, node):
    constants = {
        "pads": np.array([0, 0, 2, 1, 0, 0, 1, 3]),
        "crop": np.array([0, 0, -1, 2, 0, 0, 1, -2]),
        "twice": np.array([1, 1, 2, 2], np.float32),
    }
    model = network(["n", 3, 8, 6], [node], {name: array for name, array in constants.items() if name in node.input})
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 5)})
    assert_agrees(model, package, [(1, 3, 8, 6), (4, 3, 8, 6)], rng)


OPEN_PICTURE = {
    "mirrored": (make_node("Pad", ["x", "pads"], ["y"], mode="reflect"), {"pads": np.array([0, 0, 2, 1, 0, 0, 1, 3])}),
    "edges": (make_node("Pad", ["x", "pads"], ["y"], mode="edge"), {"pads": np.array([0, 0, 2, 1, 0, 0, 1, 3])}),
    "cropped": (make_node("Pad", ["x", "pads"], ["y"]), {"pads": np.array([0, 0, -1, 2, 0, 0, 1, -2])}),
    "same": (make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], auto_pad="SAME_LOWER"), {}),
    "response": (make_node("LRN", ["x"], ["y"], size=3, alpha=0.3, beta=0.6, bias=1.5), {}),
    **{
        f"{operator}, {auto_pad}": (make_node(operator, ["x"], ["y"], auto_pad=auto_pad, strides=[2, 3], **more), {})
        for auto_pad in ("SAME_UPPER", "SAME_LOWER")
        for operator, more in {
            "MaxPool": {"kernel_shape": [3, 3]},
            "AveragePool": {"kernel_shape": [2, 3]},
        }.items()
    },
    **{
        f"Conv, {auto_pad}": (
            make_node("Conv", ["x", "w"], ["y"], auto_pad=auto_pad, strides=[2, 1]),
            {"w": np.linspace(-1, 1, 54, dtype=np.float32).reshape(2, 3, 3, 3)},
        )
        for auto_pad in ("SAME_UPPER", "SAME_LOWER")
    },
    "rounded up": (make_node("MaxPool", ["x"], ["y"], kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1), {}),
    "padded and rounded up": (
        make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1),
        {},
    ),
    "repeated": (
        make_node("Resize", ["x", "", "s"], ["y"], nearest_mode="floor", coordinate_transformation_mode="asymmetric"),
        {"s": np.array([1, 1, 2, 3], np.float32)},
    ),
    "repeated by half pixels": (make_node("Resize", ["x", "", "s"], ["y"]), {"s": np.array([1, 1, 2, 1], np.float32)}),
    "bilinear": (
        make_node("Resize", ["x", "", "s"], ["y"], mode="linear"),
        {"s": np.array([1, 1, 4, 2], np.float32)},
    ),
    "bilinear between corners": (
        make_node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="align_corners"),
        {"s": np.array([1, 1, 2, 2], np.float32)},
    ),
    **{
        f"resized by a filter, {attributes} by {factor}": (
            make_node("Resize", ["x", "", "s"], ["y"], **attributes),
            {"s": np.array([1, 1, factor, factor], np.float32)},
        )
        for attributes, factor in (
            ({"mode": "cubic"}, 2),
            ({"mode": "cubic", "cubic_coeff_a": -0.5}, 3),
            ({"mode": "cubic", "coordinate_transformation_mode": "asymmetric"}, 4),
            ({"mode": "linear", "coordinate_transformation_mode": "asymmetric"}, 2),
        )
    },
}


@pytest.mark.parametrize(("node", "constants"), OPEN_PICTURE.values(), ids=OPEN_PICTURE)
def test_spatial_operators_over_pictures_of_any_size(tmp_path, rng, node, constants):
    model = network([1, 3, "h", "w"], [node], constants)
    dimensions = {"h": range(4, 17), "w": range(4, 17)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 4, 4), (1, 3, 16, 9), (1, 3, 7, 16)], rng)


def test_norms_over_pictures_of_any_size_that_is_rounded_up(tmp_path, rng):
    node = make_node("LpPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[3, 2], ceil_mode=1)
    dimensions = {"h": range(4, 17), "w": range(4, 17)}
    model = network([1, 3, "h", "w"], [node], {}, opset=18)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 4, 4), (1, 3, 16, 9), (1, 3, 7, 16)], rng)


def test_resize_to_a_multiple_of_the_size_that_the_program_computes(tmp_path, rng):
    nodes = [
        make_node("Shape", ["x"], ["s"]),
        make_node("Mul", ["s", "factors"], ["sizes"]),
        make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear"),
    ]
    model = network(["n", 2, "h", 5], nodes, {"factors": np.array([1, 1, 2, 2])})
    dimensions = {"n": range(1, 4), "h": range(2, 9)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 2, 2, 5), (3, 2, 8, 5)], rng)


@pytest.mark.parametrize(
    ("channels", "mode", "scales"), [(3, "linear", [1, 1, 1.5, 1]), ("c", "nearest", [1, 2, 1, 1])]
)
def test_resizing_of_open_sizes_by_gathers(tmp_path, rng, channels, mode, scales):
    node = make_node("Resize", ["x", "", "s"], ["y"], mode=mode)
    model = network([1, channels, "h", "w"], [node], {"s": np.array(scales, np.float32)})
    dimensions = {name: range(2, 9) for name in ("c", "h", "w") if name in (channels, "h", "w")}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 2, 4), (1, 3, 7, 8)], rng)


@pytest.mark.parametrize(
    ("channels", "attributes", "scales"),
    [
        ("c", {"mode": "cubic"}, [1, 1, 2, 2]),
        (3, {"mode": "cubic"}, [1, 1, 2, 3]),
        (3, {"mode": "cubic", "exclude_outside": 1}, [1, 1, 2, 2]),
        (3, {"mode": "cubic", "coordinate_transformation_mode": "align_corners"}, [1, 1, 2, 2]),
    ],
)
def test_resizing_of_open_sizes_that_core_ml_lacks_is_written_out(tmp_path, rng, channels, attributes, scales):
    node = make_node("Resize", ["x", "", "s"], ["y"], name="grow", **attributes)
    model = network([1, channels, "h", "w"], [node], {"s": np.array(scales, np.float32)})
    dimensions = {name: range(2, 9) for name in ("c", "h", "w") if name in (channels, "h", "w")}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 3, 2, 4), (1, 3, 7, 8)], rng)


def test_smooth_resizing_of_open_sizes_is_refused(tmp_path):
    node = make_node("Resize", ["x", "", "s"], ["y"], name="grow", mode="cubic", antialias=1)
    model = network([1, 3, "h", "w"], [node], {"s": np.array([1, 1, 2, 0.3], np.float32)}, opset=18)
    with pytest.raises(UnsupportedOpsError, match=r"'grow'.*resizes open sizes"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"h": range(2, 9), "w": range(2, 9)})


@pytest.mark.parametrize(
    ("equation", "shape", "weight"),
    [
        ("btgi,gih->btgh", [1, "t", 4, 3], (4, 3, 5)),  # linear layers of groups, as in DeepFilterNet
        ("btgi,gih->btgh", ["b", "t", 4, 3], (4, 3, 5)),
        ("btgi,bih->tbgh", ["b", "t", 2, 3], (1, 3, 5)),
        ("...i,ih->...h", ["b", "t", 3], (3, 5)),
        ("bti->tb", ["b", "t", 3], None),
    ],
)
def test_einsum_over_open_sizes(tmp_path, rng, equation, shape, weight):
    weights = {} if weight is None else {"w": rng.standard_normal(weight).astype(np.float32)}
    model = network(shape, [make_node("Einsum", ["x", *weights], ["y"], equation=equation)], weights)
    dimensions = {size: range(1, 9) for size in shape if isinstance(size, str)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    sizes = [[5 + place if isinstance(size, str) else size for place, size in enumerate(shape)], shape]
    assert_agrees(model, package, [[1 if isinstance(size, str) else size for size in given] for given in sizes], rng)


def test_a_vector_of_open_length_is_mirrored(tmp_path, rng):
    """What a spectrogram's framing does."""
    node = make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    model = network([1, "t"], [node], {"pads": np.array([0, 3, 0, 2])})
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"t": range(4, 65)})
    assert_agrees(model, package, [(1, 4), (1, 64)], rng)


@pytest.mark.parametrize("operator", ["GRU", "LSTM"])
@pytest.mark.parametrize("own", [True, False], ids=["own layer", "step by step"])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_recurrences_over_any_batch_and_length(tmp_path, rng, operator, own, direction):
    """Clipped cells, which Core ML's layers lack, run step by step."""
    gates, passes = {"GRU": 3, "LSTM": 4}[operator], 2 if direction == "bidirectional" else 1
    attributes = {"hidden_size": 5, "direction": direction} | ({} if own else {"clip": 0.7})
    node = make_node(operator, ["x", "w", "r"], ["y"], **attributes)
    weights = {
        "w": rng.standard_normal((passes, gates * 5, 4)).astype(np.float32),
        "r": rng.standard_normal((passes, gates * 5, 5)).astype(np.float32),
    }
    model = network(["s", "n", 4], [node], weights)
    dimensions = {"s": range(1, 33), "n": range(1, 4)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 1, 4), (32, 3, 4), (7, 2, 4)], rng)


def two_inputs(first, second):
    graph = make_graph(
        [
            make_node("ReduceSum", ["x"], ["a"]),
            make_node("ReduceSum", ["z"], ["b"]),
            make_node("Add", ["a", "b"], ["y"]),
        ],
        "two",
        [make_tensor_value_info("x", FLOAT, first), make_tensor_value_info("z", FLOAT, second)],
        [make_tensor_value_info("y", FLOAT, None)],
    )
    return make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=10)


def test_a_loop_that_collects_a_row_for_each_step_of_an_open_length(tmp_path, rng):
    text = """<ir_version: 9, opset_import: ["": 17]>
    g (float[length, 1, 3] x) => (float[rows, 1, 3] y) <int64 axis = {0}, float[1, 3] start = {0, 0, 0}> {
        sizes = Shape (x)  count = Gather (sizes, axis)
        last, y = Loop <body = b (int64 turn, bool go, float[1, 3] h) => (bool on, float[1, 3] sum, float[1, 3] row) {
            on = Identity (go)  step = Gather (x, turn)  sum = Add (h, step)  row = Tanh (sum)
        }> (count, , start)
    }"""
    model = onnx.parser.parse_model(text)
    dimensions = {"length": range(2, 7)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(length, 1, 3) for length in (2, 3, 6)], rng)


def test_inputs_that_share_listed_sizes(tmp_path, rng):
    model = two_inputs([1, "w"], ["w", 2])
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"w": (8, 4)})
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for size in (8, 4):
        feeds = {"x": rng.standard_normal((1, size)).astype(np.float32), "z": np.ones((size, 2), np.float32)}
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-5)
    with pytest.raises(InputError, match="one input only"):
        edgekit_coreml.convert(model, tmp_path / "m", deployment_target="iOS17", dimensions={"w": (8, 4)})


def test_inputs_that_list_different_dimensions_are_refused(tmp_path):
    with pytest.raises(InputError, match="Core ML does not combine them") as caught:
        edgekit_coreml.convert(two_inputs([1, "w"], ["h", 2]), tmp_path / "m", dimensions={"w": (8, 4), "h": (2, 3)})
    assert "x: w; z: h" in str(caught.value)


def test_same_model_gives_the_same_bytes(tmp_path, rng):
    model = convolutional(["n", 3, 8, 6], rng)
    packages = [edgekit_coreml.convert(model, tmp_path / name, dimensions={"n": range(1, 9)}) for name in "ab"]
    first, second = ((package / "Data/com.apple.CoreML/model.mlmodel").read_bytes() for package in packages)
    assert first == second


def test_operator_that_needs_fixed_sizes_is_refused_by_name(tmp_path):
    model = network(["n", 3], [make_node("Det", ["x"], ["y"], name="det")], {})
    with pytest.raises(UnsupportedOpsError, match=r"'det'.*needs fixed sizes, found \?×3"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 4)})


@pytest.mark.parametrize("ceil_mode", [0, 1])
def test_windows_with_holes_over_an_open_size_are_refused(tmp_path, ceil_mode):
    settings = {"kernel_shape": [2], "dilations": [2], "strides": [2], "ceil_mode": ceil_mode}
    node = make_node("MaxPool", ["x"], ["y"], name="pool", **settings)
    with pytest.raises(UnsupportedOpsError, match=r"'pool'.*pools an open size by windows with holes"):
        edgekit_coreml.convert(network([1, 3, "l"], [node], {}), tmp_path / "m", dimensions={"l": range(4, 9)})


def test_range_and_list_in_one_shape_are_refused(tmp_path, rng):
    model = convolutional(["n", 3, "h", 6], rng)
    with pytest.raises(InputError, match="a range and others with a list"):
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"n": range(1, 4), "h": (8, 16)})


@pytest.mark.parametrize("sizes", [(), (0, 1), range(1, 9, 2)])
def test_impossible_sizes_are_refused(tmp_path, rng, sizes):
    with pytest.raises(InputError, match="not the sizes of a dimension"):
        edgekit_coreml.convert(convolutional(["n", 3, 8, 6], rng), tmp_path / "m", dimensions={"n": sizes})


@pytest.mark.parametrize("places", [[[0, 1]], [[-1, -2], [0, 0]]], ids=["from the front", "from the end"])
def test_elements_of_open_dimensions_by_their_places(tmp_path, rng, places):
    model = network(["n", "w", 2], [make_node("GatherND", ["x", "places"], ["y"])], {"places": np.array(places)})
    dimensions = {"n": range(1, 4), "w": range(2, 6)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    assert_agrees(model, package, [(1, 2, 2), (3, 5, 2)], rng)


def test_a_fixed_axis_is_gathered_from_beside_open_ones(tmp_path, rng):
    model = network(["n", 3], [make_node("Gather", ["x", "places"], ["y"], axis=1)], {"places": np.array([2, -3])})
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 4)})
    assert_agrees(model, package, [(1, 3), (3, 3)], rng)


def at_largest(axis, use):
    """Uses the places of the largest elements along an axis of [n, 4]."""
    return [make_node("ArgMax", ["x"], ["i"], axis=axis, keepdims=1), *use]


@pytest.mark.parametrize(
    "nodes",
    [
        at_largest(1, [make_node("GatherElements", ["x", "i"], ["y"], axis=1)]),
        at_largest(0, [make_node("GatherElements", ["x", "i"], ["y"], axis=0)]),
        at_largest(
            0,
            [
                make_node("Slice", ["i", "zero", "two", "one"], ["part"]),
                make_node("GatherElements", ["x", "part"], ["y"], axis=0),
            ],
        ),
        at_largest(
            1,
            [
                make_node("ReduceMax", ["x"], ["m"], axes=[1]),
                make_node("ScatterElements", ["x", "i", "m"], ["y"], axis=1, reduction="add"),
            ],
        ),
        at_largest(
            0,
            [
                make_node("ReduceMax", ["x"], ["m"], axes=[0]),
                make_node("ScatterElements", ["x", "i", "m"], ["y"], axis=0, reduction="add"),
            ],
        ),
    ],
    ids=["gather columns", "gather rows", "gather some rows", "scatter columns", "scatter rows"],
)
def test_elements_at_indices_of_any_number_of_rows(tmp_path, rng, nodes):
    numbers = {"zero": np.array([0]), "two": np.array([2]), "one": np.array([1])}
    used = {name: number for name, number in numbers.items() if any(name in node.input for node in nodes)}
    model = network(["n", 4], nodes, used)
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 9)})
    assert_agrees(model, package, [(2, 4), (8, 4), (5, 4)], rng)


def test_a_size_of_one_that_is_not_known_before_is_squeezed(tmp_path, rng):
    nodes = [
        make_node("Slice", ["x", "zero", "one", "zero"], ["first"]),
        make_node("Squeeze", ["first", "zero"], ["a"]),
        make_node("Softmax", ["a"], ["y"], axis=-1),
    ]
    model = network(["n", 3, 4], nodes, {"zero": np.array([0]), "one": np.array([1])})
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 5)})
    assert_agrees(model, package, [(1, 3, 4), (3, 3, 4)], rng)


@pytest.mark.parametrize("padding", ["zeros", "border"])
def test_places_in_pictures_of_any_number_and_size(tmp_path, rng, padding):
    """A spatial transformer: the grid is computed from the picture, which it has the size of."""
    nodes = [
        make_node("Conv", ["x", "w"], ["moved"], pads=[1, 1, 1, 1]),
        make_node("Tanh", ["moved"], ["bounded"]),
        make_node("Transpose", ["bounded"], ["grid"], perm=[0, 2, 3, 1]),
        make_node("GridSample", ["x", "grid"], ["y"], padding_mode=padding),
    ]
    weights = {"w": rng.standard_normal((2, 3, 3, 3)).astype(np.float32)}
    model = network(["n", 3, "h", "w"], nodes, weights)
    dimensions = {"n": range(1, 4), "h": range(4, 17), "w": range(4, 17)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    shapes = [(1, 3, 4, 4), (3, 3, 16, 9), (2, 3, 7, 16)]
    assert_agrees(model, package, shapes, rng, atol=1e-4)  # rounding of places that are up to 16 elements away


def test_probabilities_of_support_vectors_for_any_number_of_rows(tmp_path, rng):
    """Those of pairs of classes are brought together by a loop, whose states have a row for each sample."""
    members = [2, 3, 2]
    node = make_node(
        "SVMClassifier",
        ["x"],
        ["label", "y"],
        domain="ai.onnx.ml",
        classlabels_ints=[0, 1, 2],
        coefficients=rng.standard_normal(2 * sum(members)).tolist(),
        kernel_params=[0.3, 0.0, 3.0],
        kernel_type="RBF",
        prob_a=[-1.5, -1.0, -2.0],
        prob_b=rng.standard_normal(3).tolist(),
        rho=rng.standard_normal(3).tolist(),
        support_vectors=rng.standard_normal(4 * sum(members)).tolist(),
        vectors_per_class=members,
    )
    model = network(["n", 4], [node], {})
    model.opset_import.append(make_opsetid("ai.onnx.ml", 1))
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"n": range(1, 9)})
    assert_agrees(model, package, [(1, 4), (8, 4), (5, 4)], rng)
