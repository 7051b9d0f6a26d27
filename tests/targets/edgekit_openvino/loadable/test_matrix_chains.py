"""Chains of matrix products end where OpenVINO would end the process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit_openvino.loadable.matrix_chains import end_chains
from edgekit_openvino.runner import SETTINGS

RANDOM = np.random.default_rng(0)
WEIGHTS = {name: RANDOM.normal(0, 0.2, (64, 64)).astype(np.float32) for name in ("w1", "w2", "w3", "w4")}
BIASES = {name: RANDOM.normal(0, 0.2, 64).astype(np.float32) for name in ("b1", "b2")}
PERCEPTRON = "p = MatMul (x, w1) q = Add (p, b1) r = Relu (q) s = MatMul (r, w2) m = Add (s, b2)"
SECOND = "k = MatMul (a, w3) l = Relu (k) n = MatMul (l, w4) z = Add (n, b1)"
RESIDUAL = f"{PERCEPTRON} y = Sub (m, x)"


def model(nodes: str, folder: Path, rows: int | str = 1) -> Path:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 19]>\ng (float[{rows}, 64] x) => (float[{rows}, 64] y) {{ {nodes} }}'
    )
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name)
        for name, array in {**WEIGHTS, **BIASES}.items()
        if f"{name})" in nodes
    )
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize(
    "nodes",
    [
        RESIDUAL,
        f"{PERCEPTRON} t = Sigmoid (x) y = Mul (m, t)",
        f"{PERCEPTRON} t = Sigmoid (m) g = Tanh (x) y = Mul (g, t)",
        f"{PERCEPTRON} t = Tanh (x) c = Greater (t, b1) y = Where (c, m, t)",
        f"{PERCEPTRON} a = Add (m, x) {SECOND} y = Add (z, a)",
    ],
)
@pytest.mark.parametrize("rows", [1, "N"])
def test_residuals_and_gates_behind_a_perceptron(tmp_path: Path, nodes: str, rows: int | str) -> None:
    path = model(nodes, tmp_path, rows)
    feeds = {"x": RANDOM.standard_normal((1 if rows == 1 else 3, 64)).astype(np.float32)}
    (expected,) = ReferenceEvaluator(str(path)).run(None, feeds)

    built = edgekit_openvino.convert(onnx.load(path), tmp_path / "built")

    np.testing.assert_allclose(edgekit_openvino.load(built).run(feeds)["y"], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "ended"),
    [
        (RESIDUAL, 1),
        (f"{PERCEPTRON} y = Add (m, x)", 0),  # an input as it is
        (f"{PERCEPTRON} y = Sub (m, b1)", 0),
        ("s = MatMul (x, w1) t = Sigmoid (x) y = Mul (s, t)", 0),  # a single product
    ],
)
def test_only_such_are_changed(tmp_path: Path, nodes: str, ended: int) -> None:
    network = openvino.Core().read_model(model(nodes, tmp_path))
    assert len(end_chains(network)) == ended
    assert network.output(0).get_names() == {"y"}
    assert network.output(0).get_partial_shape().to_shape() == [1, 64]


def test_openvino_still_ends_the_process_without_that(tmp_path: Path) -> None:
    path = model(RESIDUAL, tmp_path)
    config = {**SETTINGS, "INFERENCE_NUM_THREADS": 1}
    code = f"import openvino; openvino.Core().compile_model({str(path)!r}, 'CPU', {config!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode < 0, "OpenVINO compiles it: end_chains is needed no more"
