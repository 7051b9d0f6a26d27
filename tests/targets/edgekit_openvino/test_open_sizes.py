"""Nodes of which OpenVINO makes other numbers where a size is open: it still does, and they are put right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Arrays, Model
from edgekit_openvino.frontend import convert_model

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 250, (7, 3)).astype(np.uint8)


def floats(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape).astype(np.float32)


KERNEL = {"w": floats(2, 3, 3, 3)}
LAYER = {
    "w": floats(1, 12, 3),
    "r": floats(1, 12, 4),
    "b": floats(1, 24),
    "n": np.array([2, 3], np.int32),
}


def transposed(attributes: str, sizes: str = "N, 2, 4, 5") -> str:
    return (
        f"(float[{sizes}] x) => (float[A, 3, B, C] y) {{ y = ConvTranspose <strides = [2, 2], {attributes}> (x, w) }}"
    )


WRONG: dict[str, tuple[str, int, Mapping[str, np.ndarray], str, list[Arrays]]] = {
    **{
        f"ConvTranspose, {name}": (
            transposed(attributes, sizes),
            11,
            KERNEL,
            "ignores the padding|pads more at the beginning",
            feeds,
        )
        for name, attributes, sizes, feeds in (
            ("same", 'auto_pad = "SAME_UPPER"', "N, 2, 4, 5", [{"x": floats(3, 2, 4, 5)}, {"x": floats(1, 2, 4, 5)}]),
            ("lower", 'auto_pad = "SAME_LOWER"', "1, 2, H, 5", [{"x": floats(1, 2, 4, 5)}, {"x": floats(1, 2, 6, 5)}]),
            ("shape", "output_shape = [8, 9]", "N, 2, 4, 5", [{"x": floats(3, 2, 4, 5)}, {"x": floats(1, 2, 4, 5)}]),
            ("upper", 'auto_pad = "SAME_UPPER", output_shape = [8, 10]', "N, 2, 4, 5", [{"x": floats(2, 2, 4, 5)}]),
        )
    },
    "ConvTranspose, steps longer than the kernel": (
        transposed('auto_pad = "SAME_UPPER"').replace("[2, 2]", "[2, 4]"),
        11,
        KERNEL,
        "ignores the padding",
        [{"x": floats(2, 2, 4, 5)}],
    ),
    "Split": (
        "(float[N, 2] x) => (float[M, 2] y, float[K, 2] z) { y, z = Split <num_outputs = 2> (x) }",
        18,
        {},
        "makes the first parts too small",
        [{"x": floats(size, 2)} for size in (7, 6, 5)],
    ),
    "BitShift": (
        '(uint8[N, 3] x) => (uint8[N, 3] y) <uint8[3] k = {0, 1, 9}> { y = BitShift <direction = "RIGHT"> (x, k) }',
        11,
        {},
        "rounds shifted 8-bit integers",
        [{"x": BYTES}, {"x": BYTES[:2]}],
    ),
    "constant lengths": (
        "(float[T, 2, 3] x) => (float[T, 1, 2, 4] y) { y = GRU <hidden_size = 4> (x, w, r, b, n) }",
        14,
        LAYER,
        "ignores lengths of sequences of open sizes",
        [{"x": floats(size, 2, 3)} for size in (5, 3)],
    ),
}


def built(name: str) -> tuple[onnx.ModelProto, str, list[Arrays]]:
    body, opset, constants, reason, feeds = WRONG[name]
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, each) for each, array in constants.items())
    return model, reason, feeds


def right(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, feeds)[0])


def by_openvino(model: onnx.ModelProto, feeds: Arrays) -> np.ndarray:
    network = openvino.Core().read_model(model.SerializeToString())
    compiled = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    try:
        return np.array(compiled(feeds)[0])
    except RuntimeError:  # it does not run on such sizes
        return np.zeros(0)


@pytest.mark.parametrize("name", WRONG)
def test_they_are_put_right(name: str, tmp_path: Path) -> None:
    model, reason, all_feeds = built(name)
    plain, expected = by_openvino(model, all_feeds[0]), right(model, all_feeds[0])
    assert plain.shape != expected.shape or not np.allclose(plain, expected), "OpenVINO has learned it: drop the entry"
    with pytest.raises(UnsupportedOpsError, match=reason):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for feeds in all_feeds:
        np.testing.assert_allclose(runner.run(feeds)["y"], right(model, feeds), rtol=1e-4, atol=1e-5)


AS_FIXED = {
    "LpPool": (
        "(float[N, 2, 7, 9] x) => (float[N, 2, 3, 5] y)"
        " { y = LpPool <kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1> (x) }",
        18,
        (2, 7, 9),
    ),
    "AveragePool": (
        "(float[N, 2, 6, 6] x) => (float[N, 2, 4, 4] y) { y = AveragePool <kernel_shape = [3, 3], strides = [2, 2],"
        " pads = [1, 1, 1, 1], ceil_mode = 1, count_include_pad = 1> (x) }",
        19,
        (2, 6, 6),
    ),
    "DFT": (
        "(float[N, 3, 8, 1] x) => (float[N, 3, 5, 2] y) <int64 a = {2}> { y = DFT <onesided = 1> (x, , a) }",
        20,
        (3, 8, 1),
    ),
}


@pytest.mark.parametrize(("body", "opset", "sizes"), AS_FIXED.values(), ids=AS_FIXED)
def test_what_is_put_right_at_fixed_sizes_is_so_with_an_open_batch(
    body: str, opset: int, sizes: tuple[int, ...], tmp_path: Path
) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]>\ng {body}')
    with pytest.raises(UnsupportedOpsError, match="OpenVINO computes it wrong"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for batch in (3, 1):
        feeds = {"x": 3 + floats(batch, *sizes)}
        np.testing.assert_allclose(runner.run(feeds)["y"], right(model, feeds), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "body",
    [
        "(float[N, 2, H, W] x) => (float[N, 2, A, B] y) <float[4] s = {1, 1, 2, 3}> { y = Upsample (x, s) }",
        "(float[N, 2, 4, 5] x) => (float[N, 2, 6, 5] y) <float[4] s = {1, 1, 1.5, 1}> { y = Upsample (x, s) }",
    ],
    ids=["whole factors", "a size that its factor makes whole"],
)
def test_elements_repeated_in_pictures_of_open_sizes_are_taken(body: str, tmp_path: Path) -> None:
    """Feature pyramids that PyTorch exported before opset 10."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 9]>\ng {body}')
    convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for batch in (3, 1):
        feeds = {"x": floats(batch, 2, 4, 5)}
        np.testing.assert_array_equal(runner.run(feeds)["y"], right(model, feeds))


@pytest.mark.parametrize("kind", ["int32", "int64", "uint8"])
def test_the_first_of_equal_integers_comes_first(kind: str, tmp_path: Path) -> None:
    body = f"({kind}[N, 9] x) => ({kind}[N, 6] y, int64[N, 6] i) <int64[1] k = {{6}}> {{ y, i = TopK (x, k) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 11]>\ng {body}')
    feeds = {"x": RANDOM.integers(0, 3, (4, 9)).astype(kind)}
    expected = np.argsort(-feeds["x"].astype(np.int64), 1, kind="stable")[:, :6]
    network = openvino.Core().read_model(model.SerializeToString())
    assert not np.array_equal(openvino.compile_model(network, "CPU")(feeds)[1], expected), "OpenVINO has learned it"
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)["i"]
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    ("data", "indices", "sizes"),
    [
        ("N, 5, 6", "2, 4, 6", lambda n: (n, 2)),
        ("8, 5, 6", "N, 4, 6", lambda n: (8, n)),
        ("N, 5, 6", "M, 4, 6", lambda n: (n, n - 1)),
    ],
)
def test_indices_for_a_part_of_an_open_size(data: str, indices: str, sizes: Any, tmp_path: Path) -> None:
    body = f"""(float[{data}] x, int64[{indices}] i) => (float[{indices}] y)
        {{ a = Relu (x) y = GatherElements <axis = 1> (a, i) }}"""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 13]>\ng {body}')
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for size in (5, 3, 2):
        whole, asked = sizes(size)
        feeds = {"x": floats(whole, 5, 6), "i": RANDOM.integers(-5, 5, (asked, 4, 6))}
        np.testing.assert_array_equal(runner.run(feeds)["y"], right(model, feeds))


def test_indices_for_a_part_of_data_with_an_open_batch(tmp_path: Path) -> None:
    body = "(float[N, 5, 6] x, int64[N, 4, 3] i) => (float[N, 4, 3] y) { y = GatherElements <axis = 1> (x, i) }"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 13]>\ng {body}')
    with pytest.raises(UnsupportedOpsError, match="not consistent"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for batch in (3, 1):
        feeds = {"x": floats(batch, 5, 6), "i": RANDOM.integers(-5, 5, (batch, 4, 3))}
        np.testing.assert_array_equal(runner.run(feeds)["y"], right(model, feeds))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_quotients_of_8_bit_integers_of_open_sizes(dtype: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["": 18]> g ({dtype}[N, 4] x, {dtype}[N, 4] by) => ({dtype}[N, 4] y)'
        " { y = Div (x, by) }"
    )
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    x, by = RANDOM.integers(0, 100, (3, 4)).astype(dtype), RANDOM.integers(1, 20, (3, 4)).astype(dtype)
    np.testing.assert_array_equal(runner.run({"x": x, "by": by})["y"], x // by)


@pytest.mark.parametrize(
    ("body", "opset", "x"),
    [
        ("(float[N, 3, 4] x) => (float[N, 3, 1] y) { y = GlobalLpPool (x) }", 17, floats(2, 3, 4)),
        ("(float[N, 3, L] x) => (float[N, 3, 1] y) { y = GlobalLpPool <p = 1> (x) }", 17, floats(2, 3, 4)),
        ("(uint8[N, 3] x) => (uint8[N, 1] y) { y = ReduceMax <axes = [1]> (x) }", 12, BYTES),
        ("(uint8[N, 3] x) => (uint8[N] y) { y = ReduceMin <axes = [1], keepdims = 0> (x) }", 12, BYTES),
        (
            "(float[1, 2, L] x) => (float[1, 2, M] y) { y = AveragePool <kernel_shape = [3], pads = [1, 1],"
            " ceil_mode = 1, count_include_pad = 1> (x) }",
            17,
            floats(1, 2, 5),
        ),
    ],
    ids=["norm", "sum", "greatest byte", "least byte", "average"],
)
def test_reductions_that_were_refused(body: str, opset: int, x: np.ndarray, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : {opset}]>\ng {body}')
    right = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, {"x": x})[0]
    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "model")).run({"x": x})["y"]
    np.testing.assert_allclose(found, right, rtol=1e-5)
