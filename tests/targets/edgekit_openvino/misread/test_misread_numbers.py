"""Nodes of which OpenVINO makes other numbers: it still does, and they are put right as ONNX Runtime has it."""

from __future__ import annotations

import math
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
BYTES = np.arange(0, 250, 25)
BITS = np.array([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


def integers(name: str) -> dict[str, str]:
    """Sums, differences and products that leave the range of an 8-bit type."""
    return {f"{op} of {name}": f"({name}[10] a, {name}[10] b) => ({name}[10] y) {{ y = {op} (a, b) }}" for op in SUMS}


SUMS = ("Add", "Sub", "Mul")
NUMBERS: dict[str, tuple[str, int, Arrays]] = {
    **{
        name: (body, 14, {"a": BYTES.astype(dtype), "b": np.flip(BYTES * 3).astype(dtype)})
        for dtype, kind in ((np.uint8, "uint8"), (np.int8, "int8"))
        for name, body in integers(kind).items()
    },
    "BitShift of uint8": (
        '(uint8[10] a, uint8[10] b) => (uint8[10] y) { y = BitShift <direction = "LEFT"> (a, b) }',
        11,
        {"a": BYTES.astype(np.uint8), "b": BITS.astype(np.uint8)},
    ),
    **{
        f"{op} of the least int8": (
            f"(int8[4] x) => (int8[4] y) {{ y = {op} (x) }}",
            13,
            {"x": np.array([-128, -127, 0, 127], np.int8)},
        )
        for op in ("Abs", "Neg")
    },
    **{
        f"LpNormalization of short vectors, p={p}": (
            f"(float[3, 2] x) => (float[3, 2] y) {{ y = LpNormalization <axis = 1, p = {p}> (x) }}",
            17,
            {"x": np.array([[3e-3, -4e-3], [0, 0], [1e-6, 0]], np.float32)},
        )
        for p in (1, 2)
    },
    **{
        f"{op} of infinite numbers": (
            f"(float[6] x) => (float[6] y) {{ y = {op} (x) }}",
            10,
            {"x": np.array([-np.inf, np.inf, 0.25, -3, 3, 3e38], np.float32)},
        )
        for op in ("Shrink", "ThresholdedRelu")
    },
    "LRN": (
        "(float[2, 6, 2, 3] x) => (float[2, 6, 2, 3] y)"
        " { y = LRN <size = 3, alpha = 0.3, beta = 0.6, bias = 1.5> (x) }",
        13,
        {"x": floats(2, 6, 2, 3)},
    ),
    "LpPool": (
        "(float[1, 2, 7, 9] x) => (float[1, 2, 3, 5] y)"
        " { y = LpPool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (x) }",
        18,
        {"x": floats(1, 2, 7, 9)},
    ),
    **{
        f"AveragePool padded by {pads}": (
            f"(float[1, 2, 6, 6] x) => (float[1, 2, {sizes}] y)"
            " { y = AveragePool <kernel_shape = [3, 3], strides = [2, 2],"
            f" pads = [{pads}], ceil_mode = 1, count_include_pad = 1> (x) }}",
            13,
            {"x": 3 + floats(1, 2, 6, 6)},
        )
        for pads, sizes in (("1, 1, 1, 1", "4, 4"), ("1, 0, 1, 1", "4, 3"))
    },
    "Pad": (
        "(float[2, 3] x, float v) => (float[5, 3] y) <int64[4] p = {2, -1, 1, 1}> { y = Pad (x, p, v) }",
        13,
        {"x": floats(2, 3), "v": np.array(3, np.float32)},
    ),
    "Pad along an axis": (
        "(int32[2, 3] x, int32[1] v) => (int32[2, 6] y) <int64[2] p = {1, 2}, int64[1] a = {-1}>"
        " { y = Pad (x, p, v, a) }",
        21,
        {"x": np.arange(6, dtype=np.int32).reshape(2, 3), "v": np.array([-9], np.int32)},
    ),
    **{
        f"{op} without axes": (
            f"(float[2, 3] x) => (float[2, 3] y) <int64[0] a = {{}}> {{ y = {op} <noop_with_empty_axes = 1> (x, a) }}",
            18,
            {"x": np.abs(floats(2, 3)) + 1 if op == "ReduceLogSum" else floats(2, 3)},
        )
        for op in ("ReduceL1", "ReduceL2", "ReduceLogSum")
    },
    "Upsample": (
        "(float[1, 2, 3, 13] x) => (float[1, 2, 4, 25] y) <float[4] f = {1, 1, 1.5, 1.9231}>"
        ' { y = Upsample <mode = "nearest"> (x, f) }',
        9,
        {"x": floats(1, 2, 3, 13)},
    ),
    "Dropout 7": ("(float[2, 3] x) => (float[2, 3] y) { z, y = Dropout (x) }", 7, {"x": floats(2, 3)}),
    "Dropout 10": ("(float[2, 3] x) => (bool[2, 3] y) { z, y = Dropout (x) }", 10, {"x": floats(2, 3)}),
    "Attention": (
        "(float[1, 2, 3, 8] q, float[1, 2, 5, 8] k, float[1, 2, 5, 8] v, float[1, 2, 4, 8] pk, float[1, 2, 4, 8] pv)"
        " => (float[1, 2, 3, 8] y, float[1, 2, 9, 8] nk, float[1, 2, 9, 8] nv)"
        " { y, nk, nv = Attention <is_causal = 1> (q, k, v, , pk, pv) }",
        23,
        {
            "q": floats(1, 2, 3, 8),
            **{name: floats(1, 2, 5, 8) for name in "kv"},
            **{name: floats(1, 2, 4, 8) for name in ("pk", "pv")},
        },
    ),
}


def parsed(body: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}')


def by_openvino(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    network = openvino.Core().read_model(model.SerializeToString())
    compiled = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    known = {name: feeds[name] for port in compiled.inputs for name in port.names & set(feeds)}  # it drops some
    return np.array(compiled(known)[0])


def right(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


@pytest.mark.parametrize(("body", "opset", "feeds"), NUMBERS.values(), ids=NUMBERS)
def test_they_are_put_right(body: str, opset: int, feeds: Arrays, tmp_path: Path) -> None:
    model = parsed(body, opset)
    expected = right(model, feeds)
    assert not np.allclose(by_openvino(model, feeds), expected, rtol=1e-3), "OpenVINO has learned it: drop the entry"
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


def test_padding_of_a_quantized_average_is_a_zero(tmp_path: Path) -> None:
    """It is the number 0, not the integer 0, which represents another number."""
    body = """(float[1, 2, 6, 6] x) => (float[1, 2, 6, 6] y) <float s = {0.05}, uint8 z = {60}> {
        q = QuantizeLinear (x, s, z) d = DequantizeLinear (q, s, z) r = MaxPool <kernel_shape = [1, 1]> (d)
        p = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1> (r)
        k = QuantizeLinear (p, s, z) y = DequantizeLinear (k, s, z) }"""
    model, feeds = parsed(body, 13), {"x": 3 + 2 * floats(1, 2, 6, 6)}
    expected = right(model, feeds)
    assert np.abs(by_openvino(model, feeds) - expected).max() > 0.5
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    assert np.abs(got - expected).max() < 0.051


def test_the_standard_has_the_same_causal_mask_behind_a_past() -> None:
    body, opset, feeds = NUMBERS["Attention"]
    model = parsed(body, opset)
    expected = ReferenceEvaluator(model).run(None, feeds)[0]
    np.testing.assert_allclose(right(model, feeds), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("body", "opset", "feeds"),
    [
        (
            "(float[1, 2, 6, 5] x) => (float[1, 2, 7, 3] y) { y = AveragePool <kernel_shape = [2, 2], strides = [1, 2],"
            " pads = [1, 1, 1, 1], ceil_mode = 1, count_include_pad = 1> (x) }",
            12,
            {"x": 3 + floats(1, 2, 6, 5)},
        ),
        (
            '(uint8[10] a, uint8[10] b) => (uint8[10] y) { y = BitShift <direction = "RIGHT"> (a, b) }',
            11,
            {"a": BYTES.astype(np.uint8), "b": np.minimum(BITS, 7).astype(np.uint8)},
        ),
        (
            "(float[1, 6, 2, 3] x) => (float[1, 6, 2, 3] y) { y = LRN <size = 3, alpha = 0.3, bias = 2.0> (x) }",
            13,
            {"x": floats(1, 6, 2, 3)},
        ),
        (
            "(float[2, 3] x) => (float[2, 3] y) <int64[0] a = {}> { y = ReduceSum <noop_with_empty_axes = 1> (x, a) }",
            18,
            {"x": floats(2, 3)},
        ),
    ],
    ids=["AveragePool", "BitShift", "LRN", "ReduceSum"],
)
def test_their_siblings_are_taken_as_they_are(body: str, opset: int, feeds: Arrays) -> None:
    model = parsed(body, opset)
    convert_model(Model(ir.from_proto(model)))
    np.testing.assert_allclose(by_openvino(model, feeds), right(model, feeds), rtol=1e-4)


@pytest.mark.parametrize("factor", ["alpha", "beta"])
def test_integers_times_a_fraction_are_refused(factor: str) -> None:
    body = f"(int32[1, 2] a, int32[2, 1] b, int32[1] c) => (int32[1, 1] y) {{ y = Gemm <{factor} = 0.5> (a, b, c) }}"
    with pytest.raises(UnsupportedOpsError, match="it cuts off the fractions of factors"):
        convert_model(Model(ir.from_proto(parsed(body, 13))))


def test_a_gather_without_indices_is_refused() -> None:
    """It ends the process when OpenVINO compiles it."""
    model = parsed("(float[3, 2] x) => (float[0, 2] y) <int64[0] i = {}> { y = Gather (x, i) }", 13)
    with pytest.raises(UnsupportedOpsError, match="it ends the process where there are no indices"):
        convert_model(Model(ir.from_proto(model)))


@pytest.mark.parametrize("op", ["Add", "BitwiseAnd", "Mul"])
def test_integers_beyond_32_bits_are_refused(op: str) -> None:
    """Hashes of coordinates multiply with 2654435761; OpenVINO's plugin has no integers of 64 bits."""
    model = parsed(f"(int64[2] x) => (int64[2] y) <int64 p = {{2654435761}}> {{ y = {op} (x, p) }}", 18)
    feeds = {"x": np.array([-3, 5])}
    assert np.any(by_openvino(model, feeds) != right(model, feeds))
    with pytest.raises(UnsupportedOpsError, match="it computes in 32 bits, and a constant needs more"):
        convert_model(Model(ir.from_proto(model)))


BEYOND = {
    "Concat": "(int64[2] x) => (int64[3] y) <int64[1] p = {1099511627776}> { y = Concat <axis = 0> (x, p) }",
    "Gather": "(int64[2] x) => (int64[2] y) <int64[6] p = {1099511627776, 2, 3, 4, 5, 6}> { y = Gather (p, x) }",
    "Max": "(int64[2] x) => (int64[2] y) <int64 p = {1099511627776}> { y = Max (x, p) }",
    "Min": "(int64[2] x) => (int64[2] y) <int64 p = {-1099511627776}> { y = Min (x, p) }",
    "Pad": "(int64[2] x) => (int64[3] y) <int64[2] n = {1, 0}, int64 p = {1099511627776}> { y = Pad (x, n, p) }",
    "Where": (
        "(int64[2] x) => (int64[2] y) <int64 o = {1}, int64 p = {1099511627776}> "
        "{ c = Equal (x, o) y = Where (c, x, p) }"
    ),
}


@pytest.mark.parametrize("op", BEYOND)
def test_integers_beyond_32_bits_that_are_handed_on_are_refused(op: str) -> None:
    model = parsed(BEYOND[op], 18)
    feeds = {"x": np.array([0, 1])}
    assert np.any(by_openvino(model, feeds) != right(model, feeds))
    with pytest.raises(UnsupportedOpsError, match="it computes in 32 bits, and a constant needs more"):
        convert_model(Model(ir.from_proto(model)))


def test_unsigned_integers_of_32_bits_beyond_the_signed_ones_are_refused() -> None:
    model = parsed("(uint32[2] x) => (uint32[2] y) <uint32 p = {4294967291}> { y = Add (x, p) }", 18)
    feeds = {"x": np.array([1, 2], np.uint32)}
    assert np.any(by_openvino(model, feeds) != right(model, feeds))
    with pytest.raises(UnsupportedOpsError, match="it computes in 32 bits, and a constant needs more"):
        convert_model(Model(ir.from_proto(model)))


@pytest.mark.parametrize(("op", "limit"), [("Max", -(2**40)), ("Min", 2**40)])
def test_a_limit_that_no_integer_of_32_bits_reaches_limits_nothing(op: str, limit: int) -> None:
    model = parsed(f"(int64[2] x) => (int64[2] y) <int64 p = {{{limit}}}> {{ y = {op} (x, p) }}", 18)
    feeds = {"x": np.array([-3, 5])}
    convert_model(Model(ir.from_proto(model)))
    np.testing.assert_array_equal(by_openvino(model, feeds), feeds["x"])


def test_the_greatest_integer_stands_for_infinity() -> None:
    model = parsed("(int64[2] x) => (int64[2] y) <int64 p = {9223372036854775807}> { y = Add (x, p) }", 18)
    convert_model(Model(ir.from_proto(model)))


@pytest.mark.parametrize("end", [2**31 - 1, 2**63 - 1])
def test_a_slice_backwards_without_an_end(end: int, tmp_path: Path) -> None:
    body = f"(float[3, 4] x) => (float[3, 4] y) <int64[1] s = {{-1}}, int64[1] e = {{{end}}}, int64[1] a = {{1}}>"
    model = parsed(f"{body} {{ y = Slice (x, s, e, a, s) }}", 13)
    feeds = {"x": floats(3, 4)}
    with pytest.raises(UnsupportedOpsError, match="makes its output 'y' 3×0 instead of 3×4"):
        convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_array_equal(got, np.flip(feeds["x"], 1))
    np.testing.assert_array_equal(got, right(model, feeds))


def test_indices_for_a_part_of_the_data(tmp_path: Path) -> None:
    """ONNX allows fewer indices than elements of the data along the other axes; OpenVINO refuses fewer indices."""
    body = "(float[3, 4, 2] x, int64[2, 3, 1] i) => (float[2, 3, 1] y) { y = GatherElements <axis = 0> (x, i) }"
    model = parsed(body, 13)
    feeds = {"x": floats(3, 4, 2), "i": RANDOM.integers(-3, 3, (2, 3, 1))}
    with pytest.raises(UnsupportedOpsError, match="not consistent"):
        convert_model(Model(ir.from_proto(model)))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["y"]
    np.testing.assert_array_equal(got, right(model, feeds))


@pytest.mark.parametrize("opset", [13, 17, 18, 21])
@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ((1000, 1, 2), 1000),
        ((-300, -310, -320), -300 + math.log1p(math.exp(-10) + math.exp(-20))),
        ((-800, -900, -1000), -800),
        ((-math.inf, -math.inf, -math.inf), -math.inf),
        ((math.inf, 0, 0), math.inf),
    ],
)
def test_exponentials_of_any_size_are_added(
    opset: int, row: tuple[float, ...], expected: float, tmp_path: Path
) -> None:
    axes = "<axes = [1]> (x)" if opset < 18 else "(x, a)"
    body = f"(float[1, 3] x) => (float[1, 1] y) <int64[1] a = {{1}}> {{ y = ReduceLogSumExp {axes} }}"
    body = body if opset >= 18 else body.replace(" <int64[1] a = {1}>", "")
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]> g {body}')
    built = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    np.testing.assert_allclose(built.run({"x": np.array([row], np.float32)})["y"], [[expected]], rtol=1e-6)
