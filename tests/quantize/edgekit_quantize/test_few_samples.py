"""How accurate models that were calibrated on few samples are on other samples."""

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


HEAD = """<ir_version: 8, opset_import: ["" : 17]> classifier (float[1, 128, 4, 4] x) => (float[1, 4] y) {
    p = GlobalAveragePool(x)  f = Flatten(p)  a = Gemm(f, w0, b0)  b = Relu(a)  y = Gemm(b, w1, b1)
}"""


def test_a_head_behind_pooling(tmp_path: Path) -> None:
    """Each channel has one number a sample. Where ranges end with those of 32 samples, 200 others are at 21.7 dB."""
    rng = np.random.default_rng(1)
    proto = onnx.parser.parse_model(HEAD)
    parts = np.maximum(rng.standard_normal((6, 128)), 0)
    shapes = {"w0": (128, 128), "w1": (128, 4)}
    arrays = {name: rng.standard_normal(shape) / shape[0] ** 0.5 for name, shape in shapes.items()}
    arrays |= {name: 0.1 * rng.standard_normal(size) for name, size in (("b0", 128), ("b1", 4))}
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(a.astype(np.float32), name) for name, a in arrays.items()
    )
    onnx.save(proto, tmp_path / "float.onnx")
    samples = [_mixture(rng, parts) for _ in range(232)]
    folder = tmp_path / "data"
    folder.mkdir()
    for number, sample in enumerate(samples[:32]):
        np.savez(folder / f"{number}.npz", x=sample)

    edgekit.quantize(
        tmp_path / "float.onnx", tmp_path / "int8.onnx", data=folder, scheme="int8", target="intel-cpu", max_drop=0.4
    )

    expected, found = (
        np.concatenate([session.run(None, {"x": sample})[0] for sample in samples[32:]])
        for session in (onnxruntime.InferenceSession(tmp_path / name) for name in ("float.onnx", "int8.onnx"))
    )
    assert 10 * np.log10(np.sum(expected**2) / np.sum((found - expected) ** 2)) > 25


def _mixture(rng: np.random.Generator, parts: np.ndarray) -> np.ndarray:
    """Feature maps of a picture that shows each of some parts more or less."""
    loudness = rng.exponential(1, len(parts)) @ parts
    return (loudness[None, :, None, None] * rng.uniform(0.5, 1.5, (1, parts.shape[1], 4, 4))).astype(np.float32)
