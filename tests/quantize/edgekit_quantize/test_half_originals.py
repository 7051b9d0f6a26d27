"""Models in half precision are quantized as those in single precision are, and keep their inputs and outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit

NETWORK = """<ir_version: 8, opset_import: ["" : 17]> net (float16[1, 3, 16, 16] x) => (float16[1, 10] y) {
    a = Conv <pads = [1, 1, 1, 1]> (x, w0)  b = Relu (a)  c = Conv <pads = [1, 1, 1, 1], strides = [2, 2]> (b, w1)
    d = Relu (c)  p = GlobalAveragePool (d)  f = Flatten (p)  s = MatMul (f, w2)  y = Add (s, bias)
}"""
SHAPES = {"w0": (32, 3, 3, 3), "w1": (64, 32, 3, 3), "w2": (64, 10), "bias": (10,)}


@pytest.fixture
def arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    scaled = {name: rng.normal(0, np.prod(shape[1:] or (1,)) ** -0.5, shape) for name, shape in SHAPES.items()}
    scaled["w2"] *= 2
    return {name: array.astype(np.float16) for name, array in scaled.items()}


def _saved(path: Path, arrays: dict[str, np.ndarray], dtype: type) -> Path:
    proto = onnx.parser.parse_model(NETWORK if dtype is np.float16 else NETWORK.replace("float16", "float"))
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array.astype(dtype), name))
    onnx.save(proto, path)
    return path


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18"])
def test_integers_in_place_of_half_precision(
    target: str, arrays: dict[str, np.ndarray], rng: np.random.Generator, tmp_path: Path
) -> None:
    half = _saved(tmp_path / "half.onnx", arrays, np.float16)
    single = onnxruntime.InferenceSession(_saved(tmp_path / "single.onnx", arrays, np.float32))
    pictures = [rng.normal(size=(1, 3, 16, 16)).astype(np.float16) for _ in range(48)]
    (tmp_path / "data").mkdir()
    for number, picture in enumerate(pictures[:16]):
        np.savez(tmp_path / "data" / f"{number}.npz", x=picture)

    scheme = "int8-weights" if target == "ios18" else "int8"
    edgekit.quantize(half, tmp_path / "int8.onnx", data=tmp_path / "data", scheme=scheme, target=target, max_drop=0.1)

    quantized = onnxruntime.InferenceSession(tmp_path / "int8.onnx")
    borders = (*quantized.get_inputs(), *quantized.get_outputs())
    assert [(border.name, border.type) for border in borders] == [("x", "tensor(float16)"), ("y", "tensor(float16)")]
    wanted, found = (
        np.concatenate([session.run(None, {"x": picture.astype(dtype)})[0] for picture in pictures[16:]]).astype(float)
        for session, dtype in ((single, np.float32), (quantized, np.float16))
    )
    assert np.mean((found - wanted) ** 2) < 0.02 * np.var(wanted, axis=0).mean()
    kinds = {node.op_type for node in onnx.load(tmp_path / "int8.onnx").graph.node}
    assert ("QuantizeLinear" in kinds) == (target != "ios18")
    assert (tmp_path / "int8.onnx").stat().st_size < 0.75 * half.stat().st_size


def test_what_stays_float_is_no_larger_than_it_was(
    arrays: dict[str, np.ndarray], rng: np.random.Generator, tmp_path: Path
) -> None:
    """OpenVINO's files have float weights in single precision where the original has."""
    half = _saved(tmp_path / "half.onnx", arrays, np.float16)
    (tmp_path / "data").mkdir()
    for number in range(16):
        np.savez(tmp_path / "data" / f"{number}.npz", x=rng.normal(size=(1, 3, 16, 16)).astype(np.float16))

    result = edgekit.quantize(half, tmp_path / "out.onnx", data=tmp_path / "data", target="intel-cpu")

    assert (tmp_path / "out.onnx").stat().st_size <= half.stat().st_size, result
