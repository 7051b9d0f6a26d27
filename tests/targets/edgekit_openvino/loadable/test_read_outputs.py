"""Outputs that bodies read, against ONNX Runtime."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino

X = np.random.default_rng(4).standard_normal((2, 3)).astype(np.float32)
BRANCH = """If (d) <then_branch = a () => (float[2, 3] e) { e = Exp (q) },
    else_branch = b () => (float[2, 3] f) { f = Sub (STATE, q) }>"""
BODIES = {
    "branches in a branch": f"""y = If (c) <then_branch = m () => (float[2, 3] o) {{ o = Neg (x) }},
        else_branch = n () => (float[2, 3] p) {{
            v = Relu (q) one = Constant <value = int64 {{1}}> () d = Equal (k, one)
            p = {BRANCH.replace("STATE", "v")} }}>""",
    "branches in a loop": f"""y = Loop (three, always, x) <body = m (int64 i, bool on, float[2, 3] s) =>
        (bool goes, float[2, 3] r) {{
            goes = Identity (on) d = Equal (i, k) r = {BRANCH.replace("STATE", "s")} }}>""",
}


@pytest.mark.parametrize("name", BODIES)
def test_they_are_loaded(tmp_path, name):
    model = onnx.parser.parse_model(
        f"""<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x, int64 k) => (float[2, 3] q, float[2, 3] y)
            <int64 zero = {{0}}, int64 three = {{3}}, bool always = {{1}}>
            {{ q = Tanh (x) c = Equal (k, zero) {BODIES[name]} }}"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    with pytest.raises(RuntimeError, match="then_results"):  # else OpenVINO has learned it: drop the module
        openvino.Core().read_model(tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    for number in range(3):
        feeds = {"x": X, "k": np.array(number)}
        found = runner.run(feeds)
        for output, expected in zip("qy", session.run(None, feeds), strict=True):
            np.testing.assert_allclose(found[output], expected, rtol=1e-5, atol=1e-6)


def test_a_branch_that_reads_one_returns_its_own_result(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 3] x, int64 k) => (float[2, 3] q, float[2, 3] y)
            <int64 zero = {0}> {
            q = Tanh (x)
            c = Equal (k, zero)
            y = If (c) <then_branch = a () => (float[2, 3] e) { e = Exp (q) },
                else_branch = b () => (float[2, 3] f) { f = Neg (x) }>
        }"""
    )
    onnx.save(model, tmp_path / "model.onnx")
    misread = openvino.Core().compile_model(tmp_path / "model.onnx", "CPU")({"x": X, "k": np.array(0)})
    np.testing.assert_allclose(misread["y"], np.tanh(X), rtol=1e-5)  # else OpenVINO has learned it

    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))

    for number, expected in enumerate((np.exp(np.tanh(X)), -X)):
        np.testing.assert_allclose(runner.run({"x": X, "k": np.array(number)})["y"], expected, rtol=1e-5)
