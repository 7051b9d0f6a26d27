"""Ranges of logits where samples showed one answer alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

import edgekit
from edgekit_quantize.calibration.answers import logits_of_answers, with_both_answers

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4, 6, 6] x) => (float[N] y)'


@pytest.mark.parametrize(
    ("seen", "covered"),
    [
        ((-12.0, -0.5), (-12.0, 4.0)),
        ((1.0, 30.0), (-4.0, 30.0)),
        ((-1.5, -0.5), (-1.5, 1.5)),
        ((-2.0, 1.0), (-2.0, 2.0)),
        ((-6.0, 9.0), (-6.0, 9.0)),
        ((0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_the_other_side_of_zero_up_to_a_sure_answer(seen: tuple[float, float], covered: tuple[float, float]) -> None:
    assert with_both_answers(*seen) == covered


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("h = Conv (x, k) y = Sigmoid (h)", {"h"}),
        ("h = Conv (x, k) r = Reshape (h, list) l = Conv (x, k) q = Reshape (l, list) c = Concat <axis = 1> (r, q) "
         "a, b = Split <axis = 1> (c, halves) s = Sigmoid (b) y = Concat <axis = 1> (a, s)",
         {"b", "c", "h", "l", "q", "r"}),
        ("h = Conv (x, k) s = Sigmoid (h) m = Mul (h, s) y = Conv (m, k)", set()),
        ("p = GlobalAveragePool (x) h = Conv (p, k) s = Sigmoid (h) m = Mul (x, s) y = Conv (m, k)", set()),
        ("h = Conv (x, k) y = Tanh (h)", set()),
    ],
    ids=["a map", "a detector's grids", "SiLU", "squeeze and excitation", "Tanh"],
)  # fmt: skip
def test_which_tensors_tell_answers(body: str, expected: set[str]) -> None:
    proto = onnx.parser.parse_model(f"{HEAD} {{ {body} }}")
    for name, array in (
        ("k", np.ones((4, 4, 1, 1), np.float32)),
        ("list", np.array([1, -1])),
        ("halves", np.array([144, 144])),
    ):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    assert logits_of_answers(ir.from_proto(proto).graph) == expected


def test_a_grid_in_which_no_sample_had_anything(tmp_path: Path, rng: np.random.Generator) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> grids (float[1, 64, 16, 16] x) => (float[1, 16384] y)
        <int64[2] list = {1, -1}> {
            f = Conv (x, w)  a = Relu (f)  h = Conv (a, k, b)  r = Reshape (h, list)  y = Sigmoid (r)
        }"""
    proto = onnx.parser.parse_model(text)
    counted = np.diag(np.array([-1, -1, *[1] * 62], np.float32))
    for name, array in (("w", np.eye(64, dtype=np.float32)), ("k", counted)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array[:, :, None, None], name))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.full(64, -4, np.float32), "b"))
    onnx.save(proto, tmp_path / "float.onnx")
    (tmp_path / "data").mkdir()
    for number in range(16):
        picture = rng.uniform(0, 3.5, (1, 64, 16, 16)).astype(np.float32)
        picture[:, :2] *= 2  # which are counted against what they are of
        np.savez(tmp_path / "data" / f"{number}.npz", x=picture)
    edgekit.quantize(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", data=tmp_path / "data", scheme="int8", target="onnxruntime"
    )
    unlike_others = np.zeros((1, 64, 16, 16), np.float32)
    unlike_others[:, 2:] = 6.0
    session = onnxruntime.InferenceSession(tmp_path / "int8.onnx")
    (found,) = session.run(None, {"x": unlike_others})
    np.testing.assert_allclose(found.reshape(64, -1)[2:], 1 / (1 + np.exp(-2)), atol=0.02)  # of 6 - 4
