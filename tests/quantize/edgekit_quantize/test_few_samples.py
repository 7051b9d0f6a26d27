"""What integers that were calibrated on few samples keep of outputs for others."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import edgekit

SHAPES = ((57, 128), (128, 64), (64, 16))
NETWORK = """<ir_version: 8, opset_import: ["" : 17]> policy (float[1, 57] x) => (float[1, 16] y) {
    a = MatMul(x, w0)  b = Tanh(a)  c = MatMul(b, w1)  d = Tanh(c)  y = MatMul(d, w2)
}"""


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("spread", [0.3, 1.0])
def test_a_network_of_states_in_several_units(tmp_path: Path, spread: float, seed: int) -> None:
    """Where each input is divided by the largest of all its 16 numbers, 0.95 and less is explained."""
    rng = np.random.default_rng(seed)
    units = np.exp(rng.normal(0, spread, SHAPES[0][0]))
    proto = onnx.parser.parse_model(NETWORK)
    for number, shape in enumerate(SHAPES):
        weights = rng.standard_normal(shape) / shape[0] ** 0.5 / (units[:, None] if number == 0 else 1)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights.astype(np.float32), f"w{number}"))
    onnx.save(proto, tmp_path / "float.onnx")
    states = [(rng.standard_t(4, (1, 57)) * units).astype(np.float32) for _ in range(216)]
    folder = tmp_path / "data"
    folder.mkdir()
    for number, state in enumerate(states[:16]):
        np.savez(folder / f"{number}.npz", x=state)

    edgekit.quantize(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", data=folder, scheme="int8", target="intel-cpu", max_drop=0.1
    )

    expected, found = (
        np.concatenate([session.run(None, {"x": state})[0] for state in states[16:]])
        for session in (onnxruntime.InferenceSession(tmp_path / name) for name in ("float.onnx", "int8.onnx"))
    )
    lost = np.sum((found - expected) ** 2) / np.sum((expected - expected.mean(axis=0)) ** 2)
    assert lost < 0.02
