"""Rounding behind a Concat goes ahead of it where OpenVINO would end the process."""

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
from edgekit_openvino.loadable.concatenations import round_ahead_of_concats

FEEDS = {"x": np.random.default_rng(0).standard_normal((1, 4, 8, 8)).astype(np.float32)}
CONSTANTS = {
    "s1": np.array(0.05, np.float32),
    "z1": np.array(128, np.uint8),
    "s2": np.array(0.03, np.float32),
    "z2": np.array(100, np.uint8),
    "factor": np.array(0.7391, np.float32),  # nothing then lies halfway between two steps
    "many": np.full(8, 0.05, np.float32),
    "zeros": np.full(8, 128, np.uint8),
    "w": np.linspace(0.5, 1.5, 8, dtype=np.float32),
    "b": np.linspace(-1, 1, 8, dtype=np.float32),
}
JOINED = "a = Relu (x) n = Neg (x) c = Concat <axis = 1> (a, n)"
FIRST = "q = QuantizeLinear (c, s1, z1) d = DequantizeLinear (q, s1, z1)"
SECOND = "r = QuantizeLinear (e, s2, z2) y = DequantizeLinear (r, s2, z2)"
NORMALIZED = "e = BatchNormalization (d, w, b, b, w)"


def model(nodes: str, folder: Path) -> Path:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 19]>\ng (float[1, 4, 8, 8] x) => (float[1, 8, 8, 8] y) {{ {nodes} }}'
    )
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in CONSTANTS.items() if name in nodes
    )
    path = folder / "model.onnx"
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize(
    "between", [NORMALIZED, "e = Identity (d)", "e = Mul (d, factor)", "m = Add (d, s2) e = Mul (m, factor)"]
)
def test_two_roundings_behind_a_concat(tmp_path: Path, between: str) -> None:
    path = model(f"{JOINED} {FIRST} {between} {SECOND}", tmp_path)
    (expected,) = ReferenceEvaluator(str(path)).run(None, FEEDS)

    built = edgekit_openvino.convert(onnx.load(path), tmp_path / "built")

    found = edgekit_openvino.load(built).run(FEEDS)["y"]
    step = CONSTANTS["s2"]
    assert (np.abs(found - expected) < 1.01 * step).all()
    assert np.isclose(found, expected, atol=1e-6).mean() > 0.99


@pytest.mark.parametrize(
    ("nodes", "moved"),
    [
        (f"{JOINED} {FIRST} {NORMALIZED} {SECOND}", ["c"]),
        (f"{JOINED} {FIRST} e = Relu (d) {SECOND}", []),
        (f"{JOINED} q = QuantizeLinear (c, s1, z1) y = DequantizeLinear (q, s1, z1)", []),
        (
            f"{JOINED} q = QuantizeLinear <axis = 1> (c, many, zeros) d = DequantizeLinear <axis = 1> (q, many, zeros) "
            f"{NORMALIZED} {SECOND}",
            [],
        ),
    ],
)
def test_only_such_are_moved(tmp_path: Path, nodes: str, moved: list[str]) -> None:
    network = openvino.Core().read_model(model(nodes, tmp_path))
    assert round_ahead_of_concats(network) == moved


def test_openvino_still_ends_the_process_without_that(tmp_path: Path) -> None:
    path = model(f"{JOINED} {FIRST} {NORMALIZED} {SECOND}", tmp_path)
    code = f"import openvino; openvino.Core().compile_model({str(path)!r}, 'CPU')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode < 0, "OpenVINO compiles it: round_ahead_of_concats is needed no more"
