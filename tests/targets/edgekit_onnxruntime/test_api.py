from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_onnxruntime
from edgekit.errors import InputError, UnsupportedOpsError


def parsed(body: str, opset: int = 18) -> onnx.ModelProto:
    """Returns the model of a text in ONNX's textual syntax."""
    return onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "my.domain" : 1]>\n{body}')


AFFINE = parsed(
    "g (float[N, 3] x, float[3] b) => (float[N, 2] y, bool p) <float[3, 2] w = {1, 2, 3, 4, 5, 6}> {\n"
    "  s = Add(x, b)\n  y = MatMul(s, w)\n  t = ReduceSum <keepdims = 0> (y)\n  z = Sub(t, t)\n  p = Less(z, t)\n}"
)
FEEDS = {"x": np.array([[1, 2, 3], [4, 5, 6]], np.float32), "b": np.array([1, 0, -1], np.float32)}


def test_what_is_converted_computes_what_the_model_computes(tmp_path: Path) -> None:
    file = edgekit_onnxruntime.convert(AFFINE, tmp_path / "model")
    assert file == tmp_path / "model.ort"
    got = edgekit_onnxruntime.load(file).run(FEEDS)
    want = dict(zip(["y", "p"], ReferenceEvaluator(AFFINE).run(None, FEEDS), strict=True))
    assert list(got) == ["y", "p"]
    for name, array in want.items():
        assert got[name].dtype == array.dtype
        assert got[name].shape == array.shape
        np.testing.assert_allclose(got[name], array)


def test_a_model_is_converted_from_its_file_too(tmp_path: Path) -> None:
    onnx.save(AFFINE, tmp_path / "in.onnx")
    file = edgekit_onnxruntime.convert(tmp_path / "in.onnx", tmp_path / "out.ort")
    assert edgekit_onnxruntime.load(file).run(FEEDS)["y"].shape == (2, 2)


def test_the_runner_says_what_executes(tmp_path: Path) -> None:
    onnx.save(AFFINE, tmp_path / "model.onnx")
    runner = edgekit_onnxruntime.load(tmp_path / "model.onnx", threads=2)
    assert runner.executed_by.startswith("ONNX Runtime 1.")
    assert runner.executed_by.endswith(", CPU, onnx, 2 threads")


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({"x": FEEDS["x"]}, "names"),
        ({**FEEDS, "more": FEEDS["b"]}, "names"),
        ({**FEEDS, "b": np.zeros(4, np.float32)}, "invalid dimensions"),
        ({**FEEDS, "b": np.zeros(3, np.float64)}, "data type"),
    ],
)
def test_inputs_that_are_not_the_models_are_refused(feeds: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    runner = edgekit_onnxruntime.load(edgekit_onnxruntime.convert(AFFINE, tmp_path / "model"))
    with pytest.raises(InputError, match=message):
        runner.run(feeds)


def test_all_gaps_are_told_with_their_nodes(tmp_path: Path) -> None:
    model = parsed(
        "g (double[1, 1, 4, 4] x) => (double[1, 1, 2, 2] y, double[1, 1] d, double[1, 1, 4, 4] z) {\n"
        "  [pool] y = LpPool <kernel_shape = [2, 2], strides = [2, 2]> (x)\n"
        "  [volume] d = Det(x)\n"
        "  [odd] z = my.domain.Odd(x)\n}"
    )
    with pytest.raises(UnsupportedOpsError) as caught:
        edgekit_onnxruntime.convert(model, tmp_path / "model")
    assert caught.value.ops == ["Det", "LpPool", "my.domain.Odd"]
    assert [gap.node for gap in caught.value.gaps] == ["pool", "volume", "odd"]
    assert "DOUBLE" in caught.value.gaps[1].reason
    assert not list(tmp_path.iterdir())


def test_a_gap_inside_a_branch_is_told(tmp_path: Path) -> None:
    model = parsed(
        "g (bool c, double[1, 1, 4, 4] x) => (double[1, 1, 4, 4] y) { y = If (c) <\n"
        "  then_branch = t () => (double[1, 1, 4, 4] a) { [inner] a = LpPool <kernel_shape = [1, 1]> (x) },\n"
        "  else_branch = e () => (double[1, 1, 4, 4] b) { b = Identity(x) }> }"
    )
    with pytest.raises(UnsupportedOpsError) as caught:
        edgekit_onnxruntime.convert(model, tmp_path / "model")
    assert [gap.node for gap in caught.value.gaps] == ["inner"]


def test_a_model_marked_by_a_newer_onnx_is_taken(tmp_path: Path) -> None:
    model = onnx.ModelProto.FromString(AFFINE.SerializeToString())
    model.ir_version = 40
    with pytest.raises(Exception, match="IR version"):
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    file = edgekit_onnxruntime.convert(model, tmp_path / "model")
    assert edgekit_onnxruntime.load(file).run(FEEDS)["y"].shape == (2, 2)
    assert model.ir_version == 40


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    for name in ("model.onnx", "model.ort"):
        (tmp_path / name).write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match=name):
            edgekit_onnxruntime.load(tmp_path / name)


def test_another_precision_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="float16"):
        edgekit_onnxruntime.convert(AFFINE, tmp_path / "model", precision="float16")


def test_scales_of_one_element_load(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 4] y)
        <float[1] e = {0.5}, uint8[1] z = {8}>
        { q = QuantizeLinear (x, e, z) d = DequantizeLinear (q, e, z) a = Add (d, d)
          r = QuantizeLinear (a, e, z) y = DequantizeLinear (r, e, z) }"""
    )
    file = edgekit_onnxruntime.convert(model, tmp_path / "model")
    x = np.array([[-1, 0.5, 2, 3.1]], np.float32)
    expected = np.array([[-2, 1, 4, 6]], np.float32)
    np.testing.assert_array_equal(edgekit_onnxruntime.load(file).run({"x": x})["y"], expected)
