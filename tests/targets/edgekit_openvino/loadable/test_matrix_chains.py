"""Chains of matrix products end where OpenVINO would end the process, or compute zeros."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit.instruction_sets import WITHOUT_VNNI, own_set
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


INTEGERS = """q = QuantizeLinear (x, s, z) f = DequantizeLinear (q, s, z)
    v = DequantizeLinear <axis = 1> (i1, c, n) p = MatMul (f, v) """
INTEGERS_BEHIND = """r = QuantizeLinear (k, t, z) g = DequantizeLinear (r, t, z)
    w = DequantizeLinear <axis = 1> (i2, c, n) y = MatMul (g, w)"""


def integer_model(between: str, folder: Path, zero: np.generic, rows: int) -> Path:
    """Two products of 8-bit integers whose weights have a scale a channel, small enough for sums in 16 bits."""
    path = model(f"{INTEGERS} {between} {INTEGERS_BEHIND}", folder, rows)
    proto = onnx.load(path)
    held = integer_weights(zero)
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in held.items())
    onnx.save(proto, path)
    return path


def integer_weights(zero: np.generic) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {
        "s": np.float32(0.02),
        "t": np.float32(0.2),
        "z": zero,
        "c": rng.uniform(0.01, 0.03, 64).astype(np.float32),
        "n": np.zeros(64, np.int8),
        "i1": rng.integers(-60, 61, (64, 64)).astype(np.int8),
        "i2": rng.integers(-60, 61, (64, 64)).astype(np.int8),
    }


@pytest.mark.parametrize(
    "between",
    ["k = Relu (p)", "k = LeakyRelu (p)", "j = Add (p, b1) k = Relu (j)", "j = Add (p, b1) k = Mul (j, b2)"],
)
@pytest.mark.parametrize("zero", [np.uint8(0), np.int8(0)])
@pytest.mark.parametrize("rows", [1, 3])
def test_products_of_integers_with_a_scale_a_channel(tmp_path: Path, between: str, zero: np.generic, rows: int) -> None:
    """OpenVINO's kernel of both gives zeros, of signed integers 1e9, with VNNI where nothing is added to the first."""
    path = integer_model(between, tmp_path, zero, rows)
    feeds = {"x": np.abs(np.random.default_rng(2).standard_normal((rows, 64))).astype(np.float32)}
    (expected,) = ReferenceEvaluator(str(path)).run(None, feeds)

    found = edgekit_openvino.load(edgekit_openvino.convert(onnx.load(path), tmp_path / "built")).run(feeds)["y"]

    np.testing.assert_allclose(found, expected, atol=0.01 * float(np.abs(expected).max()))


THREE = f"""{INTEGERS} k = Relu (p) {INTEGERS_BEHIND.replace("y =", "o =")}
    l = Relu (o) u = QuantizeLinear (l, h, z) e = DequantizeLinear (u, h, z) y = MatMul (e, v)"""


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(3), np.int8(0)])
def test_three_products_of_integers_in_a_row(tmp_path: Path, zero: np.generic) -> None:
    """If only the first product is kept apart, OpenVINO makes one kernel of the second and the third."""
    proto = onnx.load(model(THREE, tmp_path, 2))
    held = integer_weights(zero) | {"h": np.float32(2.0)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in held.items())
    feeds = {"x": np.abs(np.random.default_rng(2).standard_normal((2, 64))).astype(np.float32)}
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)

    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "built")).run(feeds)["y"]

    np.testing.assert_allclose(found, expected, atol=0.01 * float(np.abs(expected).max()))


@pytest.mark.parametrize("rows", [1, 3])
def test_a_quantized_bias_behind_products_of_integers(tmp_path: Path, rows: int) -> None:
    """As ONNX Runtime's quantizer writes it. It is a constant, and the Add behind the chain stays as it is."""
    between = f"k = Relu (p) {INTEGERS_BEHIND.replace('y =', 'o =')}"
    added = "u = QuantizeLinear (o, h, z) e = DequantizeLinear (u, h, z) d = DequantizeLinear (i3, s, z) y = Add (e, d)"
    proto = onnx.load(model(f"{INTEGERS} {between} {added}", tmp_path, rows))
    held = integer_weights(np.uint8(3)) | {"h": np.float32(2.0), "i3": RANDOM.integers(0, 90, 64).astype(np.uint8)}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(np.asarray(each), name) for name, each in held.items())
    feeds = {"x": np.abs(np.random.default_rng(2).standard_normal((rows, 64))).astype(np.float32)}
    (expected,) = ReferenceEvaluator(proto).run(None, feeds)

    built = edgekit_openvino.convert(proto, tmp_path / "built")
    code = f"import edgekit_openvino; edgekit_openvino.load({str(built)!r})"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    found = edgekit_openvino.load(built).run(feeds)["y"]
    np.testing.assert_allclose(found, expected, atol=2.01)  # one step


def test_each_rounding_between_products_is_changed_once(tmp_path: Path) -> None:
    network = openvino.Core().read_model(integer_model("k = Relu (p)", tmp_path, np.uint8(0), 1))
    assert len(end_chains(network)) == 1
    assert network.output(0).get_partial_shape().to_shape() == [1, 64]


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


@pytest.mark.skipif(own_set() in WITHOUT_VNNI, reason="this processor has no VNNI")
def test_openvino_still_multiplies_chains_of_integers_wrong(tmp_path: Path) -> None:
    """On one thread; if this fails, OpenVINO has fixed it."""
    path = integer_model("k = Relu (p)", tmp_path, np.uint8(0), 1)
    feeds = {"x": np.abs(np.random.default_rng(2).standard_normal((1, 64))).astype(np.float32)}
    (expected,) = ReferenceEvaluator(str(path)).run(None, feeds)
    found = openvino.Core().compile_model(path, "CPU", {**SETTINGS, "INFERENCE_NUM_THREADS": 1})(feeds)["y"]
    assert not np.allclose(found, expected, atol=0.1 * float(np.abs(expected).max()))
