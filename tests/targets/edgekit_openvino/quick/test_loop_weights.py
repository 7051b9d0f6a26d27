from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino

WIDTH, ROUNDS = 64, 5
STORED = "w = DequantizeLinear <axis = 1> (q, scale)"
QUANTIZED = "hq = QuantizeLinear (h, step, middle) hd = DequantizeLinear (hq, step, middle)"
SCAN = """g (float[1, 64] first, float[5, 1, 64] x) => (float[5, 1, 64] y) {{
    last, y = Scan <num_scan_inputs = 1,
        body = b (float[1, 64] h, float[1, 64] part) => (float[1, 64] n, float[1, 64] o) {{
            {body} s = Add (m, part) n = Tanh (s) o = Identity (n)
        }}> (first, x)
}}"""
LOOP = """g (float[1, 64] first, float[5, 1, 64] x) => (float[1, 64] y) {{
    rounds = Constant <value = int64 {{5}}> () on = Constant <value = bool {{1}}> ()
    y = Loop <body = b (int64 number, bool go, float[1, 64] h) => (bool more, float[1, 64] n) {{
        more = Identity (go) part = Gather <axis = 0> (x, number)
        {body} s = Add (m, part) n = Tanh (s)
    }}> (rounds, on, first)
}}"""
NESTED = """g (float[1, 64] first, float[5, 1, 64] x) => (float[1, 64] y) {{
    rounds = Constant <value = int64 {{5}}> () on = Constant <value = bool {{1}}> ()
    y = Loop <body = outer (int64 number, bool go, float[1, 64] k) => (bool more, float[1, 64] last) {{
        more = Identity (go) part = Gather <axis = 0> (x, number)
        last = Loop <body = inner (int64 again, bool run, float[1, 64] h) => (bool still, float[1, 64] n) {{
            still = Identity (run)
            {body} s = Add (m, part) n = Tanh (s)
        }}> (rounds, on, k)
    }}> (rounds, on, first)
}}"""


def model_of(graph: str, body: str, width: int = WIDTH) -> onnx.ModelProto:
    """A recurrence whose body holds its weights: ``q`` and ``scale``, and ``f`` in floats."""
    graph = graph.format(body=body).replace(f", {WIDTH}]", f", {width}]")
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> {graph}')
    rng = np.random.default_rng(0)
    arrays = {
        "q": rng.integers(-127, 128, (width, width)).astype(np.int8),
        "scale": rng.uniform(0.001, 0.002, width).astype(np.float32),
        "f": rng.uniform(-0.2, 0.2, (width, width)).astype(np.float32),
        "step": np.array(1 / 127, np.float32),
        "middle": np.array(0, np.int8),
    }
    inner = model.graph
    while "m" not in {name for node in inner.node for name in node.output}:
        (inner,) = [a.g for node in inner.node for a in node.attribute if a.name == "body"]
    read = {name for node in inner.node for name in node.input}
    inner.initializer.extend(
        onnx.numpy_helper.from_array(array, name) for name, array in arrays.items() if name in read
    )
    return model


def converted(model: onnx.ModelProto, folder: Path, precision: str = "float32", width: int = WIDTH) -> Path:
    """Returns the IR of a model after asserting that it computes what ONNX Runtime does."""
    file = edgekit_openvino.convert(model, folder / "model", precision=precision)
    rng = np.random.default_rng(1)
    shapes = {"first": (1, width), "x": (ROUNDS, 1, width)}
    feeds = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    tolerance = 1e-4 if precision == "float32" else 5e-3
    got, want = edgekit_openvino.load(file).run(feeds)["y"], session.run(["y"], feeds)[0]
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return file


def bodies(file: Path) -> Iterator[list[Any]]:
    """The operations of each loop's body."""
    for operation in openvino.Core().read_model(file).get_ops():
        if operation.get_type_name() in {"Loop", "TensorIterator"}:
            yield operation.get_function().get_ops()


def types(operations: list[Any]) -> list[str]:
    return [operation.get_type_name() for operation in operations]


@pytest.mark.parametrize("graph", [SCAN, LOOP], ids=["scan", "loop"])
def test_weights_in_eight_bits_become_floats_ahead_of_the_loop(graph: str, tmp_path: Path) -> None:
    file = converted(model_of(graph, f"{STORED} m = MatMul (h, w)"), tmp_path)
    (body,) = bodies(file)
    assert "MatMul" in types(body)
    assert "Convert" not in types(body)
    assert 'element_type="i8"' in file.read_text()


@pytest.mark.parametrize("graph", [SCAN, LOOP], ids=["scan", "loop"])
def test_halved_weights_become_floats_ahead_of_the_loop(graph: str, tmp_path: Path) -> None:
    file = converted(model_of(graph, "m = MatMul (h, f)"), tmp_path, "float16")
    (body,) = bodies(file)
    assert "Convert" not in types(body)
    assert 'element_type="f16"' in file.read_text()


def test_weights_that_are_multiplied_as_integers_stay_in_the_body(tmp_path: Path) -> None:
    file = converted(model_of(SCAN, f"{STORED} {QUANTIZED} m = MatMul (hd, w)"), tmp_path)
    (body,) = bodies(file)
    assert "FakeQuantize" in types(body)
    assert "Convert" in types(body)


@pytest.mark.parametrize(("width", "stays"), [(256, False), (384, True)])
@pytest.mark.parametrize("graph", [SCAN, LOOP], ids=["scan", "loop"])
def test_a_large_matrix_stays_in_the_body_for_the_product_to_read_as_integers(
    graph: str, width: int, stays: bool, tmp_path: Path
) -> None:
    model = model_of(graph, f"{STORED} m = MatMul (h, w)", width)
    (body,) = bodies(converted(model, tmp_path, width=width))
    assert ("Convert" in types(body)) is stays


def test_a_large_matrix_that_is_added_becomes_floats_ahead_of_the_loop(tmp_path: Path) -> None:
    model = model_of(SCAN, f"{STORED} p = MatMul (h, w) k = ReduceMax <axes = [0]> (w) m = Add (p, k)", 384)
    (body,) = bodies(converted(model, tmp_path, width=384))
    assert "Convert" not in types(body)


def test_a_loop_in_a_loop_gets_its_weights_from_the_outermost(tmp_path: Path) -> None:
    file = converted(model_of(NESTED, f"{STORED} m = MatMul (h, w)"), tmp_path)
    (outer,) = bodies(file)
    assert "Loop" in types(outer)
    assert "Convert" not in types(outer)
    (inner,) = [operation.get_function().get_ops() for operation in outer if operation.get_type_name() == "Loop"]
    assert "Convert" not in types(inner)
