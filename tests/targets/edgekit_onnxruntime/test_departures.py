"""Nodes that ONNX Runtime computes otherwise than the standard: that it still does, and that ``convert`` does not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import Fail, InvalidArgument, RuntimeException

import edgekit_onnxruntime
from edgekit.errors import UnsupportedOpsError
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.target import Support
from edgekit_onnxruntime.check import cpu_verdicts
from edgekit_onnxruntime.departures import departing_nodes

RNG = np.random.default_rng(2)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def parsed(body: str, opset: int) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}]>\ng {body}')


HEADS = {"q": floats(1, 2, 4, 8), "k": floats(1, 2, 6, 8), "v": floats(1, 2, 6, 8)}
CASES = {
    "Attention, masked scores": (
        "(float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v, float[4,9] m, float[1,2,3,8] pk, float[1,2,3,8] pv) =>"
        " (float[1,2,4,8] y, float[1,2,9,8] a, float[1,2,9,8] b, float[1,2,4,9] s)"
        " { y, a, b, s = Attention <is_causal = 1, qk_matmul_output_mode = 2> (q, k, v, m, pk, pv) }",
        23,
        HEADS | {"m": floats(4, 9), "pk": floats(1, 2, 3, 8), "pv": floats(1, 2, 3, 8)},
    ),
    "Attention, short mask": (
        "(float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v, bool[1,1,4,5] m, int64[1] n) => (float[1,2,4,8] y)"
        ' { y = Attention (q, k, v, m, "", "", n) }',
        24,
        HEADS | {"m": np.ones((1, 1, 4, 5), bool), "n": np.array([5])},
    ),
    "Attention, short mask behind a past": (
        "(float[1,2,4,8] q, float[1,2,6,8] k, float[1,2,6,8] v, float[4,7] m, float[1,2,3,8] pk, float[1,2,3,8] pv) =>"
        " (float[1,2,4,8] y, float[1,2,9,8] a, float[1,2,9,8] b) { y, a, b = Attention (q, k, v, m, pk, pv) }",
        24,
        HEADS | {"m": floats(4, 7), "pk": floats(1, 2, 3, 8), "pv": floats(1, 2, 3, 8)},
    ),
    "DFT": ("(float[1,10,1] x) => (float[1,10,2] y) { y = DFT(x) }", 20, {"x": 1e3 * floats(1, 10, 1)}),
    "MaxUnpool": (
        "(float[1,1,2,2] x, int64[1,1,2,2] i) => (float[1,1,5,5] y) <int64[4] s = {1, 1, 5, 5}>"
        " { y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i, s) }",
        11,
        {"x": floats(1, 1, 2, 2), "i": np.array([[[[5, 7], [13, 15]]]])},
    ),
    "Mod": ("(float[3] x, float[3] d) => (float[3] y) { y = Mod(x, d) }", 13, {"x": floats(3), "d": floats(3)}),
    "ReduceMax": (
        "(bool[2,0,3] x) => (bool[2,1,3] y) <int64[1] a = {1}> { y = ReduceMax(x, a) }",
        20,
        {"x": np.zeros((2, 0, 3), bool)},
    ),
    "Resize": (
        "(float[1,1,4,4] x) => (float[1,1,2,2] y) <float[4] s = {1.0, 1.0, 0.6, 0.6}> { y = Resize"
        ' <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, "", s) }',
        19,
        {"x": floats(1, 1, 4, 4)},
    ),
}


STOPS = ("Attention, short mask", "Attention, short mask behind a past", "Mod", "ReduceMax")


@pytest.mark.parametrize("case", CASES)
def test_the_standard_counts(tmp_path, case):
    body, opset, feeds = CASES[case]
    proto = parsed(body, opset)
    model = infer_shapes(Model(ir.from_proto(proto)), strict=False)
    assert [gap.op_type for gap in departing_nodes(model)] == [case.split(",")[0]]
    expected = ReferenceEvaluator(proto).run(None, feeds)
    runner = edgekit_onnxruntime.load(edgekit_onnxruntime.convert(proto, tmp_path / "model"))
    found = list(runner.run(feeds).values())
    scale = max(1.0, max(float(np.abs(np.where(np.isfinite(e), e, 0)).max(initial=0)) for e in expected))
    for want, got in zip(expected, found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.parametrize("case", [case for case in CASES if case != "DFT"])
def test_onnx_runtime_still_departs(case):
    body, opset, feeds = CASES[case]
    proto = parsed(body, opset)
    expected = ReferenceEvaluator(proto).run(None, feeds)
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    if case in STOPS:
        with pytest.raises((Fail, InvalidArgument, RuntimeException)):
            session.run(None, feeds)
        return
    found = session.run(None, feeds)
    assert not all(
        want.shape == got.shape and np.allclose(want, got, rtol=1e-3, atol=1e-4, equal_nan=True)
        for want, got in zip(expected, found, strict=True)
    )


def test_short_transforms_lose_digits_in_onnx_runtime():
    body, opset, feeds = CASES["DFT"]
    proto = parsed(body, opset)
    found = onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)[0]
    exact = np.fft.fft(feeds["x"][..., 0].astype(np.float64))
    direct = (feeds["x"][..., 0] @ np.fft.fft(np.eye(10)).astype(np.complex64))[..., None].view(np.float32)
    errors = [np.abs(each - np.stack([exact.real, exact.imag], -1)).max() for each in (found, direct)]
    assert errors[0] > 2 * errors[1]


@pytest.mark.parametrize("training", ["", "<bool t = {1}>"])
def test_dropout_in_training_is_refused(tmp_path, training):
    inputs = "float[8] x" if training else "float[8] x, bool t"
    body = f"({inputs}) => (float[8] y) {training} {{ y = Dropout(x, , t) }}".replace("x, , t", 'x, "", t')
    with pytest.raises(UnsupportedOpsError, match="drawn at random"):
        edgekit_onnxruntime.convert(parsed(body, 13), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_draws_numbers_leaves_no_file_and_keeps_an_older_one(tmp_path):
    older = tmp_path / "model.ort"
    older.write_text("older")
    with pytest.raises(UnsupportedOpsError, match="drawn at random"):
        edgekit_onnxruntime.convert(parsed("(float[8] x) => (float[8] y) { y = RandomNormalLike(x) }", 13), older)
    assert [file.read_text() for file in tmp_path.iterdir()] == ["older"]


@pytest.mark.parametrize("between", ["", "Relu"])
def test_a_cubic_resize_behind_a_transposition(between: str, tmp_path: Path) -> None:
    """Keras exports ``Resizing(interpolation="bicubic")`` so: a session refuses it in its default settings."""
    moved = f"m = {between} (t)" if between else "m = Identity (t)"
    proto = parsed(
        "(float[1, 6, 5, 3] x) => (float[1, 4, 6, 3] y) <float[4] f = {1, 1, 0.7, 1.2}> {"
        f' t = Transpose <perm = [0, 3, 1, 2]> (x) {moved} r = Resize <mode = "cubic"> (m, , f)'
        " y = Transpose <perm = [0, 2, 3, 1]> (r) }",
        18,
    )
    with pytest.raises(Fail, match="'Cubic' mode only supports"):
        onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feeds = {"x": floats(1, 6, 5, 3)}
    got = edgekit_onnxruntime.load(edgekit_onnxruntime.convert(proto, tmp_path / "model.ort")).run(feeds)["y"]
    np.testing.assert_allclose(got, session.run(None, feeds)[0], rtol=1e-5, atol=1e-5)
    verdicts = {each.op_type: each for each in cpu_verdicts(infer_shapes(Model(ir.from_proto(proto)), strict=False))}
    assert verdicts["Resize"].support is Support.UNSUPPORTED
    assert "moves a Transpose behind it, and then refuses the result" in verdicts["Resize"].detail
    assert verdicts["Transpose"].support is Support.SUPPORTED
