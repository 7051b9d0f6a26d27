"""Layers take up the factors that their outputs are multiplied by, and compute what they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import edgekit
from edgekit_quantize.graph.nodes import Names
from edgekit_quantize.smoothing.folding import fold_factors

Parse = Callable[..., ir.Model]
Execute = Callable[..., list[np.ndarray]]

MATRIX = """<ir_version: 10, opset_import: ["" : 21]> g (float[3, 6] x) => (float[3, 8] y) {{ {body}  y = Tanh (m) }}"""
PICTURE = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1, 6, 5, 5] x) => (float[1, {size}, 5, 5] y) {{ {body}  y = Tanh (m) }}"""
FOLDED = {
    "Gemm": (MATRIX, "v = Gemm <transB = 1> (x, wt, b)  m = Mul (v, f)", 8),
    "Gemm, the matrix as it is": (MATRIX, "v = Gemm (x, w, b)  m = Mul (v, f)", 8),
    "ReLU between": (MATRIX, "g = Gemm (x, w, b)  v = Relu (g)  m = Mul (v, f)", 8),
    "LeakyReLU between": (MATRIX, "g = Gemm (x, w)  v = LeakyRelu <alpha = 0.2> (g)  m = Mul (v, f)", 8),
    "a product and a bias": (MATRIX, "g = MatMul (x, w)  v = Add (b, g)  m = Mul (v, f)", 8),
    "a product and a number": (MATRIX, "g = MatMul (x, w)  v = Sub (g, one)  m = Mul (v, f)", 8),
    "integers": (MATRIX, "d = DequantizeLinear <axis = 1> (q, b)  g = MatMul (x, d)  v = Relu (g)  m = Mul (v, f)", 8),
    "an integer bias": (
        MATRIX,
        "d = DequantizeLinear <axis = 0> (qt, b)  c = DequantizeLinear <axis = 0> (qb, b)"
        "  v = Gemm <transB = 1> (x, d, c)  m = Mul (v, f)",
        8,
    ),
    "a normalization": (MATRIX, "g = Tile (x, twos)  v = LayerNormalization (g, b, b2)  m = Mul (v, f)", 8),
    "a convolution": (PICTURE, "g = Conv <pads = [1, 1, 1, 1]> (x, k, b)  v = Relu (g)  m = Mul (v, fc)", 8),
    "a depthwise one": (PICTURE, "v = Conv <pads = [1, 1, 1, 1], group = 6> (x, k6)  m = Mul (v, fc6)", 6),
    "a batch normalization": (PICTURE, "v = BatchNormalization (x, u6, u6, u6, u6)  m = Mul (v, fc6)", 6),
}
LEFT = {
    "ReLU6 between": (MATRIX, "g = Gemm (x, w, b)  v = Clip (g, zero, one)  m = Mul (v, f)", 8),
    "a second reader": (MATRIX, "v = Gemm (x, w, b)  n = Mul (v, f)  m = Add (n, v)", 8),
    "a second reader before": (MATRIX, "g = Gemm (x, w, b)  v = Relu (g)  n = Mul (v, f)  m = Add (n, g)", 8),
    "factors below zero": (MATRIX, "g = Gemm (x, w, b)  v = Relu (g)  m = Mul (v, negative)", 8),
    "weights that others read": (MATRIX, "v = Gemm (x, w, b)  n = Mul (v, f)  o = MatMul (x, w)  m = Add (n, o)", 8),
    "one scale for all": (
        MATRIX,
        "d = DequantizeLinear (q, one)  v = MatMul (x, d)  m = Mul (v, f)",
        8,
    ),
    "factors along another axis": (PICTURE, "v = Conv <pads = [1, 1, 1, 1]> (x, k6w)  m = Mul (v, f5)", 6),
    "a bias along another axis": (
        PICTURE,
        "g = Conv <pads = [1, 1, 1, 1]> (x, k6w)  v = Add (g, f5)  m = Mul (v, fc6)",
        6,
    ),
}


def _arrays(rng: np.random.Generator) -> dict[str, np.ndarray]:
    shapes = {"w": (6, 8), "wt": (8, 6), "b": (8,), "b2": (8,), "k": (8, 6, 3, 3), "k6": (6, 1, 3, 3)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["k6w"] = rng.normal(size=(6, 6, 3, 3)).astype(np.float32)
    for name, shape in {"f": (8,), "fc": (1, 8, 1, 1), "fc6": (1, 6, 1, 1), "u6": (6,), "f5": (5,)}.items():
        arrays[name] = rng.uniform(0.2, 5, shape).astype(np.float32)
    arrays |= {
        name: rng.integers(-99, 99, shape).astype(np.int8) for name, shape in {"q": (6, 8), "qt": (8, 6)}.items()
    }
    arrays["qb"] = rng.integers(-99, 99, 8).astype(np.int32)
    arrays |= {"one": np.float32(1), "zero": np.float32(0), "negative": -arrays["f"]}
    return arrays | {"twos": np.array([1, 2])}


def _model(parse: Parse, rng: np.random.Generator, text: str, body: str, size: int) -> ir.Model:
    if "Tile" in body:  # of which six columns become twelve
        text, arrays = text.replace("[3, 6]", "[3, 4]"), _arrays(rng)
    else:
        arrays = _arrays(rng)
    text = text.format(body=body, size=size)
    used = {
        name: array
        for name, array in arrays.items()
        if any(f"{before}{name}{after}" in text for before in "( " for after in ",)")
    }
    proto = onnx.shape_inference.infer_shapes(ir.to_proto(parse(text, **used)))
    return ir.from_proto(proto)


def _folded(model: ir.Model) -> tuple[ir.Model, int]:
    copy = model.clone()
    divisions = [node for node in copy.graph if node.op_type == "Mul"]
    return copy, fold_factors(divisions, Names(copy.graph))


@pytest.mark.parametrize("name", FOLDED)
def test_factors_are_taken_up(parse: Parse, execute: Execute, rng: np.random.Generator, name: str) -> None:
    model = _model(parse, rng, *FOLDED[name])
    folded, count = _folded(model)

    assert count == 1
    assert "Mul" not in [node.op_type for node in folded.graph]
    onnx.checker.check_model(ir.to_proto(folded), full_check=True)
    shape = [int(size) for size in model.graph.inputs[0].shape or ()]
    feeds = {"x": rng.normal(size=shape).astype(np.float32)}
    np.testing.assert_allclose(execute(folded, feeds)[0], execute(model, feeds)[0], atol=1e-5)
    # a value with other numbers does not keep its name
    named = {value.name for node in folded.graph for value in node.outputs}
    assert not named & {"v", "g"} - ({"g"} if "Tile" in FOLDED[name][1] else set())


@pytest.mark.parametrize("name", LEFT)
def test_factors_stay_where_nothing_can_take_them_up(parse: Parse, rng: np.random.Generator, name: str) -> None:
    model = _model(parse, rng, *LEFT[name])
    folded, count = _folded(model)
    assert count == 0
    assert ir.to_proto(folded) == ir.to_proto(model)


NETWORK = """<ir_version: 8, opset_import: ["" : 17]> net (float[1, 10] x) => (float[1, 1] y) {
    a = Gemm <transB = 1> (x, w0, b0)  b = Relu (a)  c = Gemm <transB = 1> (b, w1, b1)  d = Relu (c)
    y = Gemm <transB = 1> (d, w2, b2)
}"""


@pytest.mark.parametrize("threads", [1, 2])
def test_layers_of_one_row_compute_with_integers_on_openvino(
    parse: Parse, rng: np.random.Generator, tmp_path: Path, threads: int
) -> None:
    """If their inputs were multiplied by factors in between, OpenVINO would compute them wrong on one thread."""
    import openvino

    sizes = [(32, 10), (16, 32), (1, 16)]
    weights = {f"w{place}": rng.normal(0, size[1] ** -0.5, size) for place, size in enumerate(sizes)}
    weights |= {f"b{place}": rng.normal(size=size[0]) for place, size in enumerate(sizes)}
    proto = ir.to_proto(parse(NETWORK, **{name: array.astype(np.float32) for name, array in weights.items()}))
    onnx.save(proto, tmp_path / "float.onnx")
    spread = np.exp(rng.normal(0, 1, 10))
    rows = [(rng.normal(size=(1, 10)) * spread).astype(np.float32) for _ in range(96)]
    (tmp_path / "data").mkdir()
    for number, row in enumerate(rows[:64]):
        np.savez(tmp_path / "data" / f"{number}.npz", x=row)

    asked = {"data": tmp_path / "data", "scheme": "int8", "target": "intel-cpu", "max_drop": 0.1}
    edgekit.quantize(tmp_path / "float.onnx", tmp_path / "int8.onnx", **asked)

    core, config = openvino.Core(), {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": threads}
    compiled = core.compile_model(core.read_model(tmp_path / "int8.onnx"), "CPU", config)
    found = np.array([compiled({"x": row})[0].item() for row in rows[64:]])
    hidden = [row.astype(float) for row in rows[64:]]
    for place in range(3):
        hidden = [each @ weights[f"w{place}"].T + weights[f"b{place}"] for each in hidden]
        hidden = [np.maximum(each, 0) for each in hidden] if place < 2 else hidden
    wanted = np.array([each.item() for each in hidden])
    assert np.mean((found - wanted) ** 2) < 0.02 * np.var(wanted)
