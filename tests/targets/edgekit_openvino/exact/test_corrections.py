"""What OpenVINO computes otherwise than ONNX, and nodes that its frontend does not know: put right at conversion."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino

INFINITE = np.float32(np.inf)


def parsed(body: str, opset: int = 18) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\ng {body}')


def as_read(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], folder) -> list[np.ndarray]:
    """Returns what OpenVINO computes of a model that its own frontend reads, without EdgeKit's corrections."""
    onnx.save(proto, folder / "plain.onnx")
    compiled = openvino.Core().compile_model(folder / "plain.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return list(compiled(list(feeds.values())).values())


def converted(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], folder) -> list[np.ndarray]:
    return list(edgekit_openvino.load(edgekit_openvino.convert(proto, folder / "model")).run(feeds).values())


@pytest.mark.parametrize(("op_type", "extreme"), [("ReduceMax", -INFINITE), ("ReduceMin", INFINITE)])
def test_reductions_of_nothing_but_infinite_numbers(tmp_path, op_type, extreme):
    proto = parsed(f"(float[2, 3] x) => (float[2, 1] y) <int64[1] a = {{1}}> {{ y = {op_type}(x, a) }}")
    feeds = {"x": np.array([[extreme] * 3, [1, extreme, 2]], np.float32)}
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    assert np.isfinite(as_read(proto, feeds, tmp_path)[0][0, 0])  # OpenVINO still gives a finite number
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path)[0], expected)


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize(("op_type", "extreme"), [("ReduceMax", -INFINITE), ("ReduceMin", INFINITE)])
def test_such_reductions_along_axes_that_are_computed(tmp_path, op_type, extreme, keepdims):
    text = f"(float[2, 3] x, int64[1] a) => (float[n, m] y) {{ y = {op_type} <keepdims = {keepdims}> (x, a) }}"
    proto = parsed(text if keepdims else text.replace("[n, m]", "[n]"))
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    runner = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model"))
    for axis in (0, -1):
        feeds = {"x": np.array([[extreme] * 3, [1, extreme, 2]], np.float32), "a": np.array([axis])}
        np.testing.assert_array_equal(runner.run(feeds)["y"], session.run(None, feeds)[0])


def test_a_reduction_behind_an_activation_is_left_as_it_is(tmp_path):
    proto = parsed("(float[2, 3] x) => (float[2, 1] y) <int64[1] a = {1}> { s = Sigmoid(x) y = ReduceMax(s, a) }")
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    assert 'type="Select"' not in path.read_text()


@pytest.mark.parametrize("op_type", ["Greater", "GreaterOrEqual"])
@pytest.mark.parametrize("second", [[1, 2, np.nan, 1, np.nan], [1]], ids=["each", "one for all"])
def test_comparisons_with_nan_are_false(tmp_path, op_type, second):
    proto = parsed(f"(float[5] a, float[{len(second)}] b) => (bool[5] y) {{ y = {op_type}(a, b) }}")
    feeds = {"a": np.array([np.nan, 3, 0, 1, np.nan], np.float32), "b": np.array(second, np.float32)}
    with_nan = np.isnan(feeds["a"] + feeds["b"])
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    assert not expected[with_nan].any()
    assert as_read(proto, feeds, tmp_path)[0][with_nan].all()  # OpenVINO still gives true
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path)[0], expected)


def test_boxes_that_overlap_by_just_the_threshold_stay(tmp_path):
    proto = parsed(
        "(float[1, 3, 4] boxes, float[1, 1, 3] scores) => (int64[n, 3] y)"
        " <int64 most = {3}, float overlap = {0.5}> { y = NonMaxSuppression(boxes, scores, most, overlap) }",
        11,
    )
    boxes = np.array([[[0, 0, 2, 2], [0, 0, 1, 2], [0, 0, 1.5, 2]]], np.float32)  # overlap with the first: 1/2 and 3/4
    feeds = {"boxes": boxes, "scores": np.array([[[0.9, 0.8, 0.7]]], np.float32)}
    assert len(as_read(proto, feeds, tmp_path)[0]) == 1  # OpenVINO still drops the second
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path)[0], [[0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize(
    ("inputs", "attributes"),
    [
        ("x, w, o", ""),
        ("x, w, o, b, m", "<pads = [1, 0, 1, 2], strides = [2, 1]>"),
        ('x, w, o, "", m', "<dilations = [2, 1]>"),
    ],
)
def test_deformable_convolution(tmp_path, inputs, attributes):
    pads, strides, dilations = [0] * 4, [1, 1], [1, 1]
    if "pads" in attributes:
        pads, strides = [1, 0, 1, 2], [2, 1]
    if "dilations" in attributes:
        dilations = [2, 1]
    outs = [
        (6 + pads[axis] + pads[axis + 2] - dilations[axis] * (kernel - 1) - 1) // strides[axis] + 1
        for axis, kernel in enumerate((3, 2))
    ]
    rng = np.random.default_rng(5)
    shapes = {"x": (1, 4, 6, 6), "w": (2, 4, 3, 2), "o": (1, 2 * 2 * 6, *outs), "b": (2,), "m": (1, 2 * 6, *outs)}
    feeds = {
        name: rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
        if name in inputs.split(", ")
    }
    node = onnx.helper.make_node(
        "DeformConv",
        [name.strip('"') for name in inputs.split(", ")],
        ["y"],
        pads=pads,
        strides=strides,
        dilations=dilations,
        offset_group=2,
    )
    values = [onnx.helper.make_tensor_value_info(name, 1, array.shape) for name, array in feeds.items()]
    result = onnx.helper.make_tensor_value_info("y", 1, (1, 2, *outs))
    graph = onnx.helper.make_graph([node], "g", values, [result])
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    expected = ReferenceEvaluator(proto).run(None, feeds)[0]
    np.testing.assert_allclose(converted(proto, feeds, tmp_path)[0], expected, rtol=1e-4, atol=1e-5)


def test_doubles_keep_infinite_numbers(tmp_path):
    proto = parsed("(double[4] x) => (double[4] y, float[4] z) { y = Neg(x) z = Cast <to = 1> (x) }")
    feeds = {"x": np.array([np.inf, -np.inf, np.nan, 1.5])}
    assert np.isfinite(as_read(proto, feeds, tmp_path)[0][0])  # OpenVINO still gives the greatest float32
    y, z = converted(proto, feeds, tmp_path)
    assert (y.dtype, z.dtype) == (np.float64, np.float32)
    np.testing.assert_array_equal(y, -feeds["x"])
    np.testing.assert_array_equal(z, feeds["x"].astype(np.float32))


def test_a_body_whose_inputs_have_no_types(tmp_path):
    body = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["s", "x"], ["t"]), onnx.helper.make_node("Cast", ["t"], ["u"], to=1)],
        "body",
        [onnx.ValueInfoProto(name="s"), onnx.ValueInfoProto(name="x")],
        [onnx.ValueInfoProto(name="t"), onnx.ValueInfoProto(name="u")],
    )
    node = onnx.helper.make_node("Scan", ["s0", "xs"], ["last", "ys"], body=body, num_scan_inputs=1)
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [node], "g", [info("s0", 1, [2]), info("xs", 1, [3, 2])], [info("last", 1, [2]), info("ys", 1, [3, 2])]
    )
    proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    feeds = {"s0": np.zeros(2, np.float32), "xs": np.arange(6, dtype=np.float32).reshape(3, 2)}
    last, ys = converted(proto, feeds, tmp_path)
    np.testing.assert_array_equal(ys, np.cumsum(feeds["xs"], axis=0))
    np.testing.assert_array_equal(last, ys[-1])


@pytest.mark.parametrize(
    "body",
    [
        "(float[4, 3, 5] x) => (float[4, 3] y) <float[3] c = {1, 2, 3}, int64[1] a = {2}>"
        " { r = ReduceSum <keepdims = 0> (x, a) y = Sub (c, r) }",
        "(float[4, 3, 5] x) => (float[1, 3, 5] y) <float[1, 3, 1] c = {1, 2, 3}, int64[1] a = {0}>"
        " { r = ReduceMean (x, a) y = Mul (r, c) }",
        "(float[4, 3, 5] x) => (float[4, 3, 1] y) <float[1, 3, 1] c = {1, 2, 3}, int64[1] a = {-1}, float h = {0.5}>"
        " { r = ReduceSum (x, a) s = Mul (r, h) y = Add (s, c) }",
    ],
)
def test_constants_behind_a_reduction_of_three_axes(tmp_path, body):
    proto = parsed(body)
    feeds = {"x": np.random.default_rng(7).standard_normal((4, 3, 5)).astype(np.float32)}
    expected = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    assert np.abs(as_read(proto, feeds, tmp_path)[0] - expected).max() > 0.1  # OpenVINO still uses a wrong axis
    np.testing.assert_allclose(converted(proto, feeds, tmp_path)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("size", "keepdims", "axis", "constant"),
    [
        ("N, 3, 5", 0, 2, "float[3] c = {1, 2, 3}"),
        ("N, 3, 5", 1, 0, "float[1, 3, 1] c = {1, 2, 3}"),
        ("4, 3, N", 0, 2, "float[1, 3] c = {1, 2, 3}"),
        ("4, 3, N", 1, -1, "float[1, 3, 1] c = {1, 2, 3}"),
        ("N, 3, M", 0, 2, "float[1, 3] c = {1, 2, 3}"),
        ("N, 3, M", 0, 0, "float[3, 1] c = {1, 2, 3}"),
    ],
)
def test_constants_behind_a_reduction_of_three_axes_of_open_sizes(tmp_path, size, keepdims, axis, constant):
    kept = size.split(", ")
    kept[axis : axis % 3 + 1] = ["1"] * keepdims
    proto = parsed(
        f"(float[{size}] x) => (float[{', '.join(kept)}] y) <{constant}, int64[1] a = {{{axis}}}, float h = {{0.5}}>"
        f" {{ r = ReduceSum <keepdims = {keepdims}> (x, a) s = Mul (r, h) y = Sub (s, c) }}"
    )
    added = onnx.numpy_helper.to_array(proto.graph.initializer[0])
    runner = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model"))
    onnx.save(proto, tmp_path / "plain.onnx")
    plain = openvino.Core().compile_model(tmp_path / "plain.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    differences = []
    for first, last in ((4, 5), (1, 5), (3, 2), (2, 0)):
        sizes = {"N": last if size.endswith("N") else first, "M": last}
        shape = [int(sizes.get(dim, dim)) for dim in size.split(", ")]
        x = np.random.default_rng(7).standard_normal(shape).astype(np.float32)
        expected = x.sum(axis=axis, keepdims=bool(keepdims)) / 2 - added
        differences.append(np.abs(plain([x])[0] - expected).max(initial=0))
        np.testing.assert_allclose(runner.run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)
    assert max(differences) > 0.1  # OpenVINO still uses a wrong axis


@pytest.mark.parametrize("op_type", ["ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1"])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("behind", ["Add (s, k)", "Mul (s, k)", "Sub (k, s)"])
@pytest.mark.parametrize("kind", [6, 7], ids=["int32", "int64"])
def test_constants_behind_a_reduction_of_small_integers_of_three_axes(tmp_path, op_type, keepdims, behind, kind):
    """The number of ones in a mask, minus one."""
    name, sizes = {6: "int32", 7: "int64"}[kind], "1, 1, 1" if keepdims else "1, 1"
    proto = parsed(
        f"(uint8[2, 40, 3] x) => ({name}[] y) <{name}[{sizes}] k = {{7}}, int64[1] a = {{1}}>"
        f" {{ c = Cast <to = {kind}> (x) s = {op_type} <keepdims = {keepdims}> (c, a) y = {behind} }}"
    )
    x = np.random.default_rng(7).integers(1, 5, (2, 40, 3), np.uint8)
    x[:, 4:] = 1
    numbers = x.astype(name)
    reduced = numbers.prod(1) if op_type == "ReduceProd" else numbers.sum(1)
    if op_type == "ReduceMean":
        reduced //= 40
    expected = {"Add": reduced + 7, "Mul": reduced * 7, "Sub": 7 - reduced}[behind[:3]]
    assert not np.array_equal(as_read(proto, {"x": x}, tmp_path)[0].reshape(2, 3), expected)  # OpenVINO is still wrong
    np.testing.assert_array_equal(converted(proto, {"x": x}, tmp_path)[0].reshape(2, 3), expected)


def test_a_reduction_that_meets_no_constants_is_left_as_it_is(tmp_path):
    """OpenVINO fuses a written-out normalization into one operation, which a Reshape would prevent."""
    proto = parsed(
        "(float[N, 3, 5] x) => (float[N, 3, 5] y) <float[5] g = {1, 2, 3, 4, 5}, int64[1] a = {-1}, float e = {0.1}> {"
        " m = ReduceMean (x, a) d = Sub (x, m) q = Mul (d, d) v = ReduceMean (q, a)"
        " w = Add (v, e) s = Sqrt (w) n = Div (d, s) y = Mul (n, g) }"
    )
    path = edgekit_openvino.convert(proto, tmp_path / "model")
    assert 'type="Reshape"' not in path.read_text()
    x = np.random.default_rng(7).standard_normal((2, 3, 5)).astype(np.float32)
    centered = x - x.mean(axis=-1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + 0.1) * np.arange(1, 6)
    np.testing.assert_allclose(edgekit_openvino.load(path).run({"x": x})["y"], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("counts", [[2, 3, 2, 3], [1, 2, 2, 2], [1, 1, 1, 1]], ids=str)
def test_repetitions_along_several_axes_by_computed_numbers(tmp_path, counts):
    proto = parsed("(float[2, 3, 4, 5] x, int64[4] n) => (float[A, B, C, D] y) { y = Tile(x, n) }")
    x = np.random.default_rng(0).standard_normal((2, 3, 4, 5)).astype(np.float32)
    feeds = {"x": x, "n": np.array(counts)}
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path)[0], np.tile(x, counts))


def test_openvino_itself_leaves_parts_of_what_is_repeated_unwritten(tmp_path):
    proto = parsed("(float[2, 3, 4, 5] x, int64[4] n) => (float[A, B, C, D] y) { y = Tile(x, n) }")
    x = np.ones((2, 3, 4, 5), np.float32)
    found = as_read(proto, {"x": x, "n": np.array([2, 3, 2, 3])}, tmp_path)[0]
    assert np.any(found != 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quotients_of_8_bits_in_a_branch_are_cut_off(tmp_path, dtype):
    proto = parsed(
        f"(bool c, {dtype}[4] x, {dtype}[4] d) => ({dtype}[4] y) {{ y = If (c) <"
        f" then_branch = t () => ({dtype}[4] q) {{ q = Div(x, d) }},"
        f" else_branch = e () => ({dtype}[4] k) {{ k = Identity(x) }}> }}"
    )
    feeds = {"c": np.array(True), "x": np.array([7, 5, 3, 100], dtype), "d": np.array([2, 7, 5, 3], dtype)}
    assert as_read(proto, feeds, tmp_path)[0].tolist() != [3, 0, 0, 33]  # OpenVINO still rounds them
    assert converted(proto, feeds, tmp_path)[0].tolist() == [3, 0, 0, 33]


def test_a_pool_in_a_branch_that_is_rounded_up(tmp_path):
    pool = "MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1>"
    proto = parsed(
        "(bool c, float[1, 1, 2, 2] x) => (float[1, 1, 1, 1] y) { y = If (c) <"
        f" then_branch = t () => (float[1, 1, 1, 1] p) {{ p = {pool}(x) }},"
        " else_branch = e () => (float[1, 1, 1, 1] g) { g = GlobalAveragePool(x) }> }"
    )
    feeds = {"c": np.array(True), "x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)}
    assert as_read(proto, feeds, tmp_path)[0].shape == (1, 1, 2, 2)  # OpenVINO still has the window behind
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path)[0], [[[[0]]]])


def test_what_a_scan_takes_has_an_axis_more_inside(tmp_path):
    proto = parsed(
        "(float[2] s, float[3, 2] x) => (float[2] t, float[3, 2] y) { t, y = Scan <num_scan_inputs = 1,"
        " body = b (float[2] u, float[2] v) => (float[2] w, float[2] z) { w = Add(u, v) z = Identity(w) }> (s, x) }"
    )
    feeds = {"s": np.zeros(2, np.float32), "x": np.arange(6, dtype=np.float32).reshape(3, 2)}
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path)[1], np.cumsum(feeds["x"], 0))
