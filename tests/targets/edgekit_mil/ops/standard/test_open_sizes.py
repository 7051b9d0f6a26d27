"""Operators of tensors with open sizes: one program for all of them, held against ONNX Runtime at several."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Arrays

RANDOM = np.random.default_rng(9)
SIZES = (5, 2)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def parsed(body: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}')


def held_against_onnx_runtime(model: onnx.ModelProto, all_feeds: list[Arrays], folder) -> None:
    package = edgekit_coreml.convert(model, folder / "m", precision="float32", dimensions={"N": range(2, 9)})
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for feeds in all_feeds:
        (expected,) = session.run(None, feeds)
        found = runner.run(feeds)["y"]
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


CASES: dict[str, tuple[str, int, list[tuple[int, ...]]]] = {
    "Hardmax": ("(float[3, N] x) => (float[3, N] y) { y = Hardmax <axis = 1> (x) }", 13, [(3, size) for size in SIZES]),
    "Softmax of a matrix": (
        "(float[2, N, 4] x) => (float[2, N, 4] y) { y = Softmax <axis = 1> (x) }",
        11,
        [(2, size, 4) for size in SIZES],
    ),
    "Hardmax of a matrix": (
        "(float[N, 4, N] x) => (float[N, 4, N] y) { y = Hardmax <axis = 1> (x) }",
        11,
        [(size, 4, size) for size in SIZES],
    ),
    "ArgMax, the last": (
        "(float[N, 3] x) => (int64[1, 3] y) { r = Round (x) y = ArgMax <select_last_index = 1> (r) }",
        13,
        [(size, 3) for size in SIZES],
    ),
    "the root of a divided size": (
        """(float[N, 3, 8] x) => (float[N, 3, 8] y) { s = Shape (x) two = Constant <value = int64 {2}> ()
            g = Gather (s, two) d = Div (g, two) f = Cast <to = 1> (d) r = Sqrt (f) y = Mul (x, r) }""",
        17,
        [(size, 3, 8) for size in SIZES],
    ),
    "the power of a divided size": (
        """(float[N, 3, 8] x) => (float[N, 3, 8] y) { s = Shape (x) two = Constant <value = int64 {2}> ()
            half = Constant <value = float {0.5}> () g = Gather (s, two) d = Div (g, two) f = Cast <to = 1> (d)
            a = Add (f, half) e = Exp (a) r = Pow (e, half) y = Mul (x, r) }""",
        17,
        [(size, 3, 8) for size in SIZES],
    ),
    "Flatten": (
        "(float[N, 2, N, 3] x) => (float[A, B] y) { y = Flatten <axis = 2> (x) }",
        13,
        [(size, 2, size, 3) for size in SIZES],
    ),
    "Flatten to a row": (
        "(float[N, 2, N] x) => (float[1, B] y) { y = Flatten <axis = 0> (x) }",
        13,
        [(size, 2, size) for size in SIZES],
    ),
    "Shape of what is known": (
        "(float[N, 6] x) => (float[N, 2] y) <int64[1] o = {2}, int64 a = {1}>"
        " { s = Shape <start = 1> (x) r = Sub (s, o) p = Concat <axis = 0> (o, r) y, z = Split <axis = 1> (x, p) }",
        19,
        [(size, 6) for size in SIZES],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_of_one_input(tmp_path, name):
    body, opset, shapes = CASES[name]
    held_against_onnx_runtime(parsed(body, opset), [{"x": floats(*shape)} for shape in shapes], tmp_path)


@pytest.mark.parametrize("shape", ["N, 4, 3, 2, 3", "2, 4, N, N, 3", "N, 4, 5"])
def test_normalized_instances_and_groups(tmp_path, shape):
    text = (
        f"(float[{shape}] x) => (float[{shape}] y)"
        " { a = InstanceNormalization (x, s, b) y = GroupNormalization <num_groups = 2> (a, s, b) }"
    )
    model = parsed(text, 21)
    for name in "sb":
        model.graph.initializer.append(onnx.numpy_helper.from_array(floats(4), name))
    feeds = [{"x": floats(*(size if each == "N" else int(each) for each in shape.split(", ")))} for size in SIZES]
    held_against_onnx_runtime(model, feeds, tmp_path)


@pytest.mark.parametrize("turned", [0, 2])
@pytest.mark.parametrize("interleaved", [0, 1])
def test_rotary_embeddings_of_any_number_of_tokens(tmp_path, turned, interleaved):
    half = (turned or 4) // 2
    text = (
        f"(float[2, N, 12] x, int64[2, N] p, float[8, {half}] c, float[8, {half}] s) => (float[2, N, 12] y)"
        f" {{ y = RotaryEmbedding <num_heads = 3, rotary_embedding_dim = {turned}, interleaved = {interleaved}>"
        " (x, c, s, p) }"
    )
    tables = {"c": floats(8, half), "s": floats(8, half)}
    feeds = [{"x": floats(2, size, 12), "p": RANDOM.integers(0, 8, (2, size)), **tables} for size in SIZES]
    held_against_onnx_runtime(parsed(text, 23), feeds, tmp_path)


@pytest.mark.parametrize("kind", ["int32", "uint8", "int64"])
@pytest.mark.parametrize("operator", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits_of_any_number_of_integers(tmp_path, operator, kind):
    """As tables of hashed places have them."""
    text = f"""({kind}[2, N] a, {kind}[N] b) => ({kind}[2, N] y) <{kind} c = {{21}}>
        {{ d = {operator} (b, c) y = {operator} (a, d) }}"""
    limits = np.iinfo("int32" if kind == "int64" else kind)
    feeds = [
        {name: RANDOM.integers(limits.min, limits.max, shape).astype(kind) for name, shape in shapes.items()}
        for shapes in ({"a": (2, size), "b": (size,)} for size in SIZES)
    ]
    held_against_onnx_runtime(parsed(text, 18), feeds, tmp_path)


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
@pytest.mark.parametrize("places", ["a", "c", "d"])
def test_shifts_of_any_number_of_integers(tmp_path, places, direction):
    """ONNX Runtime only shifts by fewer places than there are bits."""
    text = f"""(uint8[3, N] x, uint8[N] a) => (uint8[3, N] y) <uint8 c = {{3}}, uint8[3, 1] d = {{0, 1, 7}}>
        {{ y = BitShift <direction = "{direction}"> (x, {places}) }}"""
    feeds = [
        {"x": RANDOM.integers(0, 256, (3, size)).astype(np.uint8), "a": RANDOM.integers(0, 8, size).astype(np.uint8)}
        for size in SIZES
    ]
    model = parsed(text, 11)
    if places != "a":
        del model.graph.input[1]
        feeds = [{"x": each["x"]} for each in feeds]
    held_against_onnx_runtime(model, feeds, tmp_path)


def test_six_dimensions_of_which_one_is_open_are_refused_by_name(tmp_path):
    model = parsed("(float[N, 1, 2, 1, 2, 1] x) => (float[N, 1, 2, 1, 2, 1] y) { y = Relu (x) }", 14)
    with pytest.raises(
        UnsupportedOpsError,
        match="has rank 6 and the open sizes N: Core ML has 5 dimensions at most, and only fixed ones can be merged",
    ) as found:
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"N": range(1, 5)})
    assert "--dim N=SIZE" in str(found.value)


def test_windows_of_an_open_batch_whose_number_is_divided_out(tmp_path):
    """PyTorch's older exporter: six dimensions, of which the batch alone is open."""
    model = parsed(
        """(float[N, 4, 6, 2] x) => (float[M, 2, 2, 2] y)
        <int64[1] n = {2}, int64[1] c = {2}, int64 one = {1}, int64 two = {2}, int64 zero = {0}, int64[1] front = {0},
         int64[4] w = {-1, 2, 2, 2}> {
            s = Shape (x) b = Gather (s, zero) h = Gather (s, one) v = Gather (s, two)
            hs = Div (h, two) ws = Div (v, two)
            b1 = Unsqueeze (b, front) h1 = Unsqueeze (hs, front) w1 = Unsqueeze (ws, front)
            t = Concat <axis = 0> (b1, h1, n, w1, n, c)
            r = Reshape (x, t) q = Transpose <perm = [0, 1, 3, 2, 4, 5]> (r) y = Reshape (q, w)
        }""",
        17,
    )
    held_against_onnx_runtime(model, [{"x": floats(size, 4, 6, 2)} for size in SIZES], tmp_path)


WINDOWS = """(float[B, H, W, 2] x) => (float[B, P, Q, 2] y)
        <int64[1] n = {{2}}, int64 one = {{1}}, int64 two = {{2}}, int64 zero = {{0}}, int64[1] front = {{0}},
         int64[4] w = {{-1, 2, 2, 2}}> {{
            s = Shape (x) b = Gather (s, zero) h = Gather (s, one) v = Gather (s, two)
            hs = {count} (h, two) ws = {count} (v, two)
            b1 = Unsqueeze (b, front) h1 = Unsqueeze (h, front) w1 = Unsqueeze (v, front)
            h2 = Unsqueeze (hs, front) w2 = Unsqueeze (ws, front)
            t = Concat <axis = 0> (b1, h2, n, w2, n, n)
            r = Reshape (x, t) q = Transpose <perm = [0, 1, 3, 2, 4, 5]> (r) windows = Reshape (q, w)
            most = ReduceMax <axes = [1, 2]> (windows) less = Sub (windows, most)
            u = Concat <axis = 0> (b1, h2, w2, n, n, n)
            v1 = Reshape (less, u) v2 = Transpose <perm = [0, 1, 3, 2, 4, 5]> (v1)
            z = Concat <axis = 0> (b1, h1, w1, n) y = Reshape (v2, z)
        }}"""


def test_windows_of_pictures_of_open_sizes(tmp_path):
    """Swin's windows: how many there are each way is an open size over the window's."""
    model = parsed(WINDOWS.format(count="Div"), 17)
    dimensions = {"B": (1, 2, 3), "H": (4, 6, 8), "W": (2, 6)}
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions=dimensions)
    runner = edgekit_coreml.load(package)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in ((1, 4, 6, 2), (3, 8, 2, 2), (2, 6, 6, 2)):
        feeds = {"x": floats(*shape)}
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-5)


def test_six_dimensions_of_which_nothing_is_known_are_refused_by_name(tmp_path):
    model = parsed(WINDOWS.format(count="Min"), 17)
    with pytest.raises(UnsupportedOpsError, match="makes a tensor of rank 6, Core ML has 5 dimensions") as found:
        edgekit_coreml.convert(model, tmp_path / "m", dimensions={"B": (1, 3), "H": (2, 4), "W": (2, 6)})
    assert "fix the dimension with --dim B=SIZE or --dim H=SIZE or --dim W=SIZE" in str(found.value)


def test_one_element_of_an_open_tensor_as_a_scalar(tmp_path):
    model = parsed(
        """(float[N] x, int64[1] i) => (float y) <int64[0] s = {}, int64[1] one = {1}> {
            e = Add (i, one) f = Slice (x, i, e) y = Reshape (f, s)
        }""",
        17,
    )
    held_against_onnx_runtime(model, [{"x": floats(size), "i": np.array([1])} for size in SIZES], tmp_path)


def test_a_range_up_to_a_size_in_a_vector_of_one_element(tmp_path):
    model = parsed(
        """(float[N, 3] x) => (int64[N] y) <int64 o = {0}, int64 i = {1}, int64[1] first = {0}, int64[1] end = {1}> {
            sizes = Shape (x) limit = Slice (sizes, first, end) y = Range (o, limit, i)
        }""",
        17,
    )
    held_against_onnx_runtime(model, [{"x": floats(size, 3)} for size in SIZES], tmp_path)
