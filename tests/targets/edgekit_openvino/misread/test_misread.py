"""Nodes that OpenVINO converts into something else: that it still does, and that they are refused or put right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Arrays, Model
from edgekit_openvino.frontend import convert_model

RANDOM = np.random.default_rng(0)


def parsed(body: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\ng {body}')


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


REFUSED = {
    "BitShift": (
        '(int32[2] x, int32[2] s) => (int32[2] y) { y = BitShift <direction = "RIGHT"> (x, s) }',
        26,
        {"x": np.array([-7, 8], np.int32), "s": np.array([1, 1], np.int32)},
    ),
    "DFT axis": ("(float[1, 4, 6, 1] x) => (float[1, 4, 6, 2] y) { y = DFT(x) }", 20, {"x": floats(1, 4, 6, 1)}),
    "DFT onesided": (
        "(float[1, 4, 6, 1] x) => (float[1, 3, 6, 2] y) { y = DFT <axis = 1, onesided = 1> (x) }",
        17,
        {"x": floats(1, 4, 6, 1)},
    ),
    "GRU batch first": (
        "(float[3, 2, 4] x, float[1, 15, 4] w, float[1, 15, 5] r) => (float[3, 2, 1, 5] y)"
        " { y = GRU <hidden_size = 5, layout = 1> (x, w, r) }",
        14,
        {"x": floats(3, 2, 4), "w": floats(1, 15, 4), "r": floats(1, 15, 5)},
    ),
    "LSTM peepholes": (
        "(float[2, 1, 4] x, float[1, 12, 4] w, float[1, 12, 3] r, float[1, 24] b, int32[1] n, float[1, 1, 3] h,"
        " float[1, 1, 3] c, float[1, 9] p) => (float[2, 1, 1, 3] y)"
        " { y = LSTM <hidden_size = 3> (x, w, r, b, n, h, c, p) }",
        14,
        {
            "x": floats(2, 1, 4),
            "w": floats(1, 12, 4),
            "r": floats(1, 12, 3),
            "b": floats(1, 24),
            "n": np.array([2], np.int32),
            "h": floats(1, 1, 3),
            "c": floats(1, 1, 3),
            "p": floats(1, 9),
        },
    ),
    "MaxPool": (
        "(float[1, 1, 2, 2] x) => (float[1, 1, 1, 1] y)"
        " { y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x) }",
        12,
        {"x": floats(1, 1, 2, 2)},
    ),
    "ReduceL1": (
        "(float[2, 3] x) => (float[2, 1] y) { y = ReduceL1 <axes = [-1]> (x) }",
        15,
        {"x": floats(2, 3)},
    ),
    "ReduceLogSum": (
        "(float[2, 3] x) => (float[3] y) { y = ReduceLogSum <axes = [0], keepdims = 0> (x) }",
        13,
        {"x": np.abs(floats(2, 3))},
    ),
    "ReduceMax of nothing": (
        "(float[2, 0, 3] x) => (float[2, 1, 3] y) <int64[1] a = {1}> { y = ReduceMax(x, a) }",
        18,
        {"x": floats(2, 0, 3)},
    ),
    "Resize antialias": (
        "(float[1, 1, 8, 8] x) => (float[1, 1, 3, 3] y) <int64[4] s = {1, 1, 3, 3}>"
        ' { y = Resize <mode = "linear", antialias = 1> (x, , , s) }',
        18,
        {"x": floats(1, 1, 8, 8)},
    ),
    "Resize exclude_outside": (
        "(float[1, 1, 4, 4] x) => (float[1, 1, 8, 8] y) <float[4] s = {1, 1, 2, 2}>"
        ' { y = Resize <mode = "cubic", exclude_outside = 1> (x, , s) }',
        18,
        {"x": floats(1, 1, 4, 4)},
    ),
    "Trilu upper, by another number": (
        "(float[4, 4] x) => (float[4, 4] y) { y = Trilu <upper = -1> (x) }",
        18,
        {"x": floats(4, 4)},
    ),
    "Resize exclude_outside, by another number": (
        "(float[1, 1, 4, 4] x) => (float[1, 1, 8, 8] y) <float[4] s = {1, 1, 2, 2}>"
        ' { y = Resize <mode = "cubic", exclude_outside = 2> (x, , s) }',
        18,
        {"x": floats(1, 1, 4, 4)},
    ),
    "Resize aspect ratio": (
        "(float[1, 1, 2, 4] x) => (float[1, 1, 7, 7] y) <int64[2] s = {7, 8}>"
        ' { y = Resize <mode = "nearest", axes = [2, 3], keep_aspect_ratio_policy = "not_larger"> (x, , , s) }',
        18,
        {"x": floats(1, 1, 2, 4)},
    ),
    "Resize aligned corners": (
        "(float[1, 1, 2, 4] x) => (float[1, 1, 1, 2] y) <float[4] s = {1, 1, 0.6, 0.6}>"
        ' { y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s) }',
        18,
        {"x": floats(1, 1, 2, 4)},
    ),
    "Resize nearest to aligned corners": (
        "(float[1, 1, 5, 8] x) => (float[1, 1, 15, 24] y) <int64[4] s = {1, 1, 15, 24}> { y = Resize <mode = "
        '"nearest", nearest_mode = "floor", coordinate_transformation_mode = "align_corners"> (x, , , s) }',
        18,
        {"x": floats(1, 1, 5, 8)},
    ),
    "RoiAlign": (
        "(float[1, 1, 6, 6] x, float[1, 4] r, int64[1] b) => (float[1, 1, 2, 2] y)"
        ' { y = RoiAlign <mode = "max", output_height = 2, output_width = 2, sampling_ratio = 2> (x, r, b) }',
        16,
        {"x": floats(1, 1, 6, 6), "r": np.array([[0.3, 0.4, 4.6, 4.9]], np.float32), "b": np.array([0])},
    ),
}

LAYERS = {
    "RNN with other activations on the way back": (
        "(float[3, N, 4] x, float[2, 5, 4] w, float[2, 5, 5] r) => (float[3, 2, N, 5] y) { y = RNN <hidden_size = 5,"
        ' direction = "bidirectional", activations = ["Tanh", "Sigmoid"]> (x, w, r) }'
    ),
    "LSTM with other activations on the way back": (
        "(float[3, N, 4] x, float[2, 20, 4] w, float[2, 20, 5] r) => (float[3, 2, N, 5] y) { y = LSTM <hidden_size = 5,"
        ' direction = "bidirectional", activations = ["Sigmoid", "Tanh", "Tanh", "Sigmoid", "Relu", "Tanh"]>'
        " (x, w, r) }"
    ),
    "GRU with other activations on the way back": (
        "(float[3, N, 4] x, float[2, 15, 4] w, float[2, 15, 5] r) => (float[3, 2, N, 5] y) { y = GRU <hidden_size = 5,"
        ' direction = "bidirectional", activations = ["Sigmoid", "Tanh", "Sigmoid", "Relu"]> (x, w, r) }'
    ),
    "GRU with a hard sigmoid": (
        "(float[3, N, 4] x, float[1, 15, 4] w, float[1, 15, 5] r) => (float[3, 1, N, 5] y)"
        ' { y = GRU <hidden_size = 5, activations = ["HardSigmoid", "Tanh"]> (x, w, r) }'
    ),
    "LSTM that forgets what it does not take in": (
        "(float[3, N, 4] x, float[1, 20, 4] w, float[1, 20, 5] r) => (float[3, 1, N, 5] y)"
        " { y = LSTM <hidden_size = 5, input_forget = 1> (x, w, r) }"
    ),
    "RNN that adds up": (
        "(float[3, N, 4] x, float[1, 5, 4] w, float[1, 5, 5] r) => (float[3, 1, N, 5] y) { y = RNN <hidden_size = 5,"
        ' activations = ["Affine"], activation_alpha = [1.0], activation_beta = [0.0]> (x, w, r) }'
    ),
}

EXPANDED = {
    "Attention window": (
        "(float[1, 2, 6, 4] q, float[1, 2, 6, 4] k, float[1, 2, 6, 4] v) => (float[1, 2, 6, 4] y)"
        " { y = Attention <left_window_size = 1, right_window_size = 1> (q, k, v) }",
        28,
        {name: floats(1, 2, 6, 4) for name in "qkv"},
    ),
    "SpaceToDepth": (
        '(float[1, 2, 4, 4] x) => (float[1, 8, 2, 2] y) { y = SpaceToDepth <blocksize = 2, mode = "CRD"> (x) }',
        28,
        {"x": floats(1, 2, 4, 4)},
    ),
}


def as_openvino_reads_it(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    compiled = openvino.compile_model(
        openvino.Core().read_model(model.SerializeToString()), "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    known = {name: feeds[name] for port in compiled.inputs for name in port.names & set(feeds)}  # it drops some
    return np.array(compiled(known)[0])


def is_read_right(model: onnx.ModelProto, feeds: Arrays, expected: np.ndarray) -> bool:
    try:
        return near(as_openvino_reads_it(model, feeds), expected)
    except RuntimeError:  # the shapes do not fit
        return False


def right(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    return np.array(ReferenceEvaluator(model).run(None, feeds)[0])


def near(one: np.ndarray, other: np.ndarray) -> bool:
    return one.shape == other.shape and bool(np.allclose(one, other, rtol=1e-3, atol=1e-4))


@pytest.mark.parametrize(("body", "opset", "feeds"), [*REFUSED.values(), *EXPANDED.values()], ids=[*REFUSED, *EXPANDED])
def test_openvino_still_gets_it_wrong(body: str, opset: int, feeds: Arrays) -> None:
    """If this fails, OpenVINO has learned it, and the entry can be removed."""
    model = parsed(body, opset)
    assert not near(as_openvino_reads_it(model, feeds), right(model, feeds))


@pytest.mark.parametrize(("body", "opset", "feeds"), REFUSED.values(), ids=REFUSED)
def test_it_is_refused(body: str, opset: int, feeds: Arrays) -> None:
    with pytest.raises(UnsupportedOpsError, match="OpenVINO") as caught:
        convert_model(Model(ir.from_proto(parsed(body, opset))))
    assert {gap.node for gap in caught.value.gaps} == {"y"}


@pytest.mark.parametrize(
    "name",
    [
        "BitShift",
        "GRU batch first",
        "ReduceL1",
        "ReduceLogSum",
        "ReduceMax of nothing",
        "Resize nearest to aligned corners",
    ],
)
def test_a_rewrite_puts_it_right(name: str, tmp_path: Path) -> None:
    body, opset, feeds = REFUSED[name]
    model = parsed(body, opset)
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, right(model, feeds))


@pytest.mark.parametrize("body", LAYERS.values(), ids=LAYERS)
def test_options_of_recurrent_layers_that_it_lacks(body: str, tmp_path: Path) -> None:
    """It compiles no activations but its own, and forgets that an LSTM has one gate less. ONNX's reference does too."""
    model = parsed(body, 14)
    for place, value in enumerate(model.graph.input[1:]):
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        array = np.random.default_rng(place).standard_normal(shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.input[1:]
    with pytest.raises(UnsupportedOpsError, match="OpenVINO"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for batch in (1, 3):
        feeds = {"x": floats(3, batch, 4)}
        assert near(runner.run(feeds)["y"], session.run(None, feeds)[0])


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_lengths_of_sequences_of_open_sizes(direction: str, tmp_path: Path) -> None:
    """PyTorch's packed sequences. Lengths that follow from sizes are those of all steps, as tf2onnx writes them."""
    directions = 2 if direction == "bidirectional" else 1
    weights = {"w": floats(directions, 15, 4), "r": floats(directions, 15, 5), "b": floats(directions, 30)}
    body = (
        f"(float[T, N, 4] x, int32[N] n) => (float[T, {directions}, N, 5] y)"
        f' {{ y = GRU <hidden_size = 5, direction = "{direction}"> (x, w, r, b, n) }}'
    )
    model = parsed(body, 14)
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    feeds = {"x": floats(6, 3, 4), "n": np.array([6, 2, 4], np.int32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)[0]
    assert not near(as_openvino_reads_it(model, feeds), expected)
    with pytest.raises(UnsupportedOpsError, match="it ignores lengths of sequences of open sizes"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    assert near(runner.run(feeds)["y"], expected)


def test_a_branch_that_gives_open_sizes(tmp_path: Path) -> None:
    """What follows shares memory with the branch's result, and loses it where a batch is larger than those before."""
    body = (
        "(float[N, 13] x, bool c) => (float[N, 16] y) {"
        " h = If (c) <then_branch = a () => (float[N, 13] p) { p = Exp (x) },"
        " else_branch = b () => (float[N, 13] q) { q = Identity (x) }>"
        " m = MatMul (h, w) s = Sin (m) t = Cos (m) y = Add (s, t) }"
    )
    model = parsed(body, 17)
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(13, 16), "w"))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    samples = [{"x": floats(size, 13), "c": np.array(size % 2 == 0)} for size in range(1, 6)]
    expected = [session.run(None, feeds)[0] for feeds in samples]
    network = openvino.Core().read_model(model.SerializeToString())
    request = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    found = [request.infer(feeds)["y"].copy() for feeds in samples]
    assert not all(near(got, want) for got, want in zip(found, expected, strict=True))
    with pytest.raises(UnsupportedOpsError, match="it loses values behind the If when an open size grows"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for feeds, want in zip(samples, expected, strict=True):
        assert near(runner.run(feeds)["y"], want)


@pytest.mark.parametrize("shape", ["N, 4", "1, N, 4", "B, N, 4"])
def test_several_constant_matrices(shape: str, tmp_path: Path) -> None:
    """Experts, and stacks of graph convolutions."""
    model = parsed(f"(float[{shape}] x) => (float[C, N, 5] y) {{ m = MatMul (x, w) y = Relu (m) }}", 17)
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(2, 4, 5), "w"))
    feeds = {"x": floats(*(1,) * shape.count("B"), *(1,) * shape.count("1,"), 6, 4)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)[0]
    assert expected.shape == (2, 6, 5)
    with pytest.raises(RuntimeError, match=r"incompatible|ranks are not equal"):
        as_openvino_reads_it(model, feeds)
    with pytest.raises(UnsupportedOpsError, match="it loses the batch of several constant matrices"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    assert near(runner.run(feeds)["y"], expected)


@pytest.mark.parametrize("sizes", ["5, 2, 4", "L, B, 4"])
@pytest.mark.parametrize("first", [0, 1])
def test_products_whose_rows_come_before_the_batch(first: int, sizes: str, tmp_path: Path) -> None:
    """What ONNX Runtime's optimizer makes of torch's attention."""
    shape = sizes if first else "2, 5, 4"
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>'
        f"g (float[{shape}] a, float[{sizes}] b) => (float[M, N, K] y)"
        f"{{ y = com.microsoft.FusedMatMul <transBatchA = {first}, transBatchB = 1, transB = 1, alpha = 0.5> (a, b) }}"
    )
    feeds = {"a": floats(5, 2, 4) if first else floats(2, 5, 4), "b": floats(5, 2, 4)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)[0]
    assert expected.shape == (2, 5, 5)
    assert not is_read_right(model, feeds, expected)
    with pytest.raises(UnsupportedOpsError, match="it ignores that the rows come before the batch"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    assert near(runner.run(feeds)["y"], expected)


@pytest.mark.parametrize("axis", [1, -3])
@pytest.mark.parametrize("opset", [11, 12])
def test_softmax_over_all_axes_from_one_on(opset: int, axis: int, tmp_path: Path) -> None:
    """As operator sets below 13 define it; ONNX's own reference takes the axis alone, as OpenVINO does."""
    model = parsed(f"(float[2, 3, 4] x) => (float[2, 3, 4] y) {{ y = Softmax <axis = {axis}> (x) }}", opset)
    feeds = {"x": floats(2, 3, 4)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    assert not near(as_openvino_reads_it(model, feeds), expected)
    with pytest.raises(UnsupportedOpsError, match="normalizes over one axis, not over all axes from there on"):
        convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, expected)


@pytest.mark.parametrize("shape", ["8, 8", "8, 7", "7, 7"])
def test_a_transposed_convolution_of_an_output_shape(shape: str, tmp_path: Path) -> None:
    """As TensorFlow pads: one more behind where the number of pads is odd."""
    call = f'ConvTranspose <strides = [2, 2], auto_pad = "SAME_UPPER", output_shape = [{shape}]> (x, w)'
    model = parsed(f"(float[1, 2, 4, 4] x) => (float[1, 3, {shape}] y) {{ y = {call} }}", 11)
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(2, 3, 3, 3), "w"))
    feeds = {"x": floats(1, 2, 4, 4)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    assert near(as_openvino_reads_it(model, feeds), expected) == (shape == "7, 7")
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, expected)


@pytest.mark.parametrize(("group", "padding"), [(1, "NOTSET"), (2, "NOTSET"), (2, "SAME_LOWER")])
def test_a_transposed_convolution_in_groups_of_an_output_shape(group: int, padding: str, tmp_path: Path) -> None:
    """Half of what is cut off is at the beginning, but OpenVINO cuts off groups at the end alone."""
    call = f'ConvTranspose <strides = [3], output_shape = [9], group = {group}, auto_pad = "{padding}"> (x, w)'
    model = parsed(f"(float[1, 2, 4] x) => (float[1, {2 * group}, 9] y) {{ y = {call} }}", 11)
    model.graph.initializer.append(onnx.numpy_helper.from_array(floats(2, 2, 3), "w"))
    feeds = {"x": floats(1, 2, 4)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, feeds)
    assert near(as_openvino_reads_it(model, feeds), expected) == (group == 1)
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, expected)


def test_lengths_that_follow_from_sizes_are_taken() -> None:
    """tf2onnx writes the number of steps for each sequence."""
    body = (
        "(float[T, N, 4] x) => (float[T, 1, N, 5] y) <int64[1] a = {0}, int64[1] b = {1}, int64[1] c = {2}>"
        " { s = Shape (x) t = Slice (s, a, b) k = Slice (s, b, c) m = Cast <to = 6> (t)"
        " n = Expand (m, k) y = RNN <hidden_size = 5> (x, w, r, , n) }"
    )
    model = parsed(body, 14)
    weights = {"w": floats(1, 5, 4), "r": floats(1, 5, 5)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in weights.items())
    convert_model(Model(ir.from_proto(model)))


@pytest.mark.parametrize(("body", "opset", "feeds"), EXPANDED.values(), ids=EXPANDED)
def test_it_is_put_right_by_its_definition(body: str, opset: int, feeds: Arrays, tmp_path: Path) -> None:
    model = parsed(body, opset)
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, right(model, feeds))


@pytest.mark.parametrize(
    ("body", "opset", "feeds"),
    [
        ("(float[1, 4, 6, 1] x) => (float[1, 4, 6, 2] y) { y = DFT <axis = 2> (x) }", 17, {"x": floats(1, 4, 6, 1)}),
        (
            "(float[1, 1, 3, 3] x) => (float[1, 1, 6, 6] y) <float[4] s = {1, 1, 2, 2}>"
            ' { y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s) }',
            18,
            {"x": floats(1, 1, 3, 3)},
        ),
        (
            "(float[1, 1, 3, 3] x) => (float[1, 1, 7, 5] y) <float[0] s = {}, int64[4] z = {1, 1, 7, 5}>"
            ' { y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, s, s, z) }',
            11,
            {"x": floats(1, 1, 3, 3)},
        ),
        ("(float[2, 3, 4] x) => (float[2, 3, 4] y) { y = Softmax <axis = -1> (x) }", 11, {"x": floats(2, 3, 4)}),
        (
            "(float[1, 1, 6, 6] x) => (float[1, 1, 3, 3] y)"
            " { y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x) }",
            12,
            {"x": floats(1, 1, 6, 6)},
        ),
    ],
    ids=["DFT", "Resize", "Resize without scales", "Softmax", "MaxPool"],
)
def test_their_siblings_are_taken(body: str, opset: int, feeds: Arrays, tmp_path: Path) -> None:
    model = parsed(body, opset)
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, right(model, feeds))


QUANTIZED = {
    "QLinearAdd": "(a, s, z, b, s, z, s, z)",
    "QLinearMul": "(a, s, z, b, s, z, s, z)",
    "QLinearLeakyRelu <alpha = 0.2>": "(a, s, z, s, z)",
    "QLinearSigmoid": "(a, s, z, s, zero)",
    "QLinearAveragePool <kernel_shape = [2, 2]>": "(a, s, z, s, z)",
    "QLinearConcat <axis = 1>": "(s, z, a, s, z, b, t, z)",
    "QLinearWhere": "(c, a, s, z, b, t, z, s, z)",
}
"""ONNX Runtime's operators on quantized tensors that OpenVINO's frontend has conversions for."""


def of_quantized(operator: str) -> onnx.ModelProto:
    head, *attributes = operator.split(" ", 1)
    call = " ".join(["com.microsoft." + head, *attributes, QUANTIZED[operator]])
    return onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>'
        "g (uint8[1, 4, 5, 5] a, uint8[1, 4, 5, 5] b, bool[1, 4, 5, 5] c) => (uint8[N, C, H, W] y)"
        f"<float s = {{0.0213}}, float t = {{0.0317}}, uint8 z = {{120}}, uint8 zero = {{0}}> {{ y = {call} }}"
    )


@pytest.fixture
def quantized_feeds() -> Arrays:
    a, b = (RANDOM.integers(0, 256, (1, 4, 5, 5)).astype(np.uint8) for _ in range(2))
    return {"a": a, "b": b, "c": RANDOM.integers(0, 2, (1, 4, 5, 5)).astype(np.bool_)}


@pytest.mark.parametrize("operator", QUANTIZED)
def test_operators_on_quantized_tensors_are_put_right(operator: str, quantized_feeds: Arrays, tmp_path: Path) -> None:
    model = of_quantized(operator)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    feeds = {value.name: quantized_feeds[value.name] for value in session.get_inputs()}
    expected = session.run(None, feeds)[0].astype(int)
    assert np.any(as_openvino_reads_it(model, feeds) != expected), "OpenVINO has learned it, and the entry can go"
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert np.abs(got.astype(int) - expected).max() <= 1


CONTRIBUTED = {
    "scale of an attention": (
        "(float[2, 5, 8] x, float[8, 24] w, float[24] b) => (float[2, 5, 8] y)"
        " { y = com.microsoft.Attention <num_heads = 2, scale = 0.3> (x, w, b) }",
        {"x": floats(2, 5, 8), "w": floats(8, 24), "b": floats(24)},
    ),
    "activation of a product": (
        "(float[2, 4] x, float[4, 5] w, float[5] b) => (float[2, 5] y)"
        ' { y = com.microsoft.FusedGemm <activation = "Tanh"> (x, w, b) }',
        {"x": floats(2, 4), "w": floats(4, 5), "b": floats(5)},
    ),
    "first of several positions": (
        "(float[2, 5, 8] x, int64[1] p, float[9, 4] c, float[9, 4] s) => (float[2, 5, 8] y)"
        " { y = com.microsoft.RotaryEmbedding <interleaved = 0> (x, p, c, s) }",
        {"x": floats(2, 5, 8), "p": np.array([3]), "c": floats(9, 4), "s": floats(9, 4)},
    ),
    "part of a head that is turned": (
        "(float[2, 2, 5, 8] x, int64[2, 5] p, float[9, 2] c, float[9, 2] s) => (float[2, 2, 5, 8] y)"
        " { y = com.microsoft.RotaryEmbedding"
        " <interleaved = 0, num_heads = 2, rotary_embedding_dim = 4> (x, p, c, s) }",
        {"x": floats(2, 2, 5, 8), "p": np.arange(10).reshape(2, 5) % 9, "c": floats(9, 2), "s": floats(9, 2)},
    ),
}


@pytest.mark.parametrize(("body", "feeds"), CONTRIBUTED.values(), ids=CONTRIBUTED)
def test_operators_that_onnx_runtime_adds_are_put_right(body: str, feeds: Arrays, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>\ng {body}')
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, dict(feeds))[0]
    try:
        is_right = near(as_openvino_reads_it(model, feeds), expected)
    except RuntimeError:  # it refuses the node
        is_right = False
    assert not is_right, "OpenVINO has learned it, and the entry can go"
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, expected)


PRODUCTS = {
    "a convolution of as many channels as it has": (
        "(uint8[1, 4, 6, 6] a, int8[4, 4, 1, 1] w) => (uint8[1, 4, 6, 6] y)",
        "QLinearConv",
        {"a": (1, 4, 6, 6), "w": (4, 4, 1, 1)},
    ),
    "a matrix product": (
        "(uint8[5, 8] a, int8[8, 4] w) => (uint8[5, 4] y)",
        "QLinearMatMul",
        {"a": (5, 8), "w": (8, 4)},
    ),
}


@pytest.mark.parametrize(("signature", "op_type", "shapes"), PRODUCTS.values(), ids=PRODUCTS)
def test_products_with_a_scale_a_channel_are_put_right(
    signature: str, op_type: str, shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    model = parsed(
        f"{signature} "
        "<float s = {0.0213}, uint8 z = {120}, float[4] t = {0.001, 0.03, 0.002, 0.01},"
        " int8[4] zeros = {0, 0, 0, 0}, float r = {0.0973}, uint8 to = {128}>"
        f"{{ y = {op_type} (a, s, z, w, t, zeros, r, to) }}",
        13,
    )
    weights = RANDOM.integers(-127, 128, shapes["w"]).astype(np.int8)
    feeds = {"a": RANDOM.integers(0, 256, shapes["a"]).astype(np.uint8)}
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    del model.graph.input[1]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, feeds)[0].astype(int)
    try:
        is_right = bool(np.abs(as_openvino_reads_it(model, feeds).astype(int) - expected).max() <= 1)
    except RuntimeError:  # it refuses the product
        is_right = False
    assert not is_right, "OpenVINO has learned it, and the entry can go"
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert np.abs(got.astype(int) - expected).max() <= 1


EQUAL_CHANNELS = """(float[1, 64, 13, 13] x) => (float[1, 1004, 1, 1] y) <int64[4] s = {1004, 64, 1, 1}> {
    w = ConstantOfShape <value = float[1] {1}> (s)
    c = Conv (x, w)
    r = Relu (c)
    [pool] a = GlobalAveragePool (r)
    y = Softmax <axis = 1> (a)
}"""


def test_equals_stay_equal_in_an_average_of_channels_behind_the_last_whole_vector(tmp_path: Path) -> None:
    model = parsed(EQUAL_CHANNELS, 13)
    feeds = {"x": np.linspace(1e7, 1e8, 64 * 13 * 13, dtype=np.float32).reshape(1, 64, 13, 13)}
    assert not near(as_openvino_reads_it(model, feeds), np.full((1, 1004, 1, 1), 1 / 1004))
    with pytest.raises(UnsupportedOpsError, match="gives equal channels averages that differ by rounding") as caught:
        convert_model(Model(ir.from_proto(model)))
    assert [gap.node for gap in caught.value.gaps] == ["pool"]
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert near(got, np.full((1, 1004, 1, 1), 1 / 1004))


@pytest.mark.parametrize("shape", ["3", "4, 3"])
def test_rows_over_their_greatest_number(shape: str, tmp_path: Path) -> None:
    """The number counts with its sign in ONNX: rows of negative numbers become positive."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 1]>'
        f'g (float[{shape}] x) => (float[{shape}] y) {{ y = ai.onnx.ml.Normalizer <norm = "MAX"> (x) }}'
    )
    rows = np.array([[-1, -2, -3], [1, -4, 2], [0, 0, 0], [3, 2, 1]], np.float32)
    x = rows if shape == "4, 3" else rows[0]
    greatest = x.max(axis=-1, keepdims=True)
    expected = x / np.where(greatest == 0, 1, greatest)
    assert not near(as_openvino_reads_it(model, {"x": x}), expected)
    with pytest.raises(UnsupportedOpsError, match="divides by the greatest magnitude"):
        convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run({"x": x})["y"]
    assert near(got, expected)
