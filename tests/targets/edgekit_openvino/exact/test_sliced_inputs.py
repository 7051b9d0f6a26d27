"""Loops whose states lie in the memory of what a step reads, held against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino
import pytest

import edgekit_openvino

STEPS, WIDTH = 5, 8
ROW, ROWS = f"float[1, {WIDTH}]", f"float[{STEPS}, 1, {WIDTH}]"
SCAN = f"""g ({ROW} first, {ROWS} x) => ({ROWS} y) {{{{
    last, y = Scan <num_scan_inputs = 1, scan_input_directions = [{{direction}}],
        body = b ({ROW} h, {ROW} part) => ({ROW} n, {ROW} o) {{{{ {{body}} }}}}> (first, x)
}}}}"""
SUMS = {
    "running sum": "n = Add (part, h) o = Identity (n)",
    "delay": "n = Identity (part) o = Add (h, part)",
    "running maximum": "n = Max (part, h) o = Identity (n)",
    "mean with the state": "n = Mean (part, h) o = Identity (n)",
    "recurrent layer": "m = MatMul (h, w) s = Add (part, m) n = Tanh (s) o = Identity (n)",
    "slope by the state": "n = PRelu (part, h) o = Identity (n)",
    "first half": "s = Constant <value = int64[2] {4, 4}> () u, v = Split <axis = 1> (part, s) "
    "n = Concat <axis = 1> (u, u) o = Mul (n, h)",
}
SHAPES = {
    "scan, states in another shape": f"""g ({ROW} first, float[{WIDTH}] second, {ROWS} x) => ({ROWS} y) {{
        a, b, y = Scan <num_scan_inputs = 1, body = b ({ROW} h, float[{WIDTH}] k, {ROW} part) =>
            ({ROW} n, float[{WIDTH}] l, {ROW} o) {{
            axes = Constant <value = int64[1] {{0}}> () n = Add (part, h) l = Squeeze (h, axes) o = Add (part, k)
        }}> (first, second, x) }}""",
    "loop, states that change places": f"""g ({ROW} first, float[{WIDTH}] second) => ({ROW} y, float[{WIDTH}] z) {{
        rounds = Constant <value = int64 {{5}}> () on = Constant <value = bool {{1}}> ()
        y, z = Loop <body = b (int64 number, bool go, {ROW} h, float[{WIDTH}] k) =>
            (bool more, {ROW} n, float[{WIDTH}] l) {{
            axes = Constant <value = int64[1] {{0}}> () more = Identity (go)
            l = Squeeze (h, axes) n = Unsqueeze (k, axes)
        }}> (rounds, on, first, second) }}""",
}


def model_of(graph: str) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["": 17]> {graph}')
    weights = np.random.default_rng(0).normal(0, 0.3, (WIDTH, WIDTH)).astype(np.float32)
    for attribute in model.graph.node[0].attribute:
        if any("w" in node.input for node in attribute.g.node):
            attribute.g.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def check(model: onnx.ModelProto, path: Path) -> bool:
    """Compares with ONNX Runtime; returns whether OpenVINO without corrections is right, too."""
    rng = np.random.default_rng(1)
    feeds = {
        value.name: rng.uniform(-1, 1, [dim.dim_value for dim in value.type.tensor_type.shape.dim]).astype(np.float32)
        for value in model.graph.input
    }
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in model.graph.output]
    expected = dict(zip(names, session.run(names, feeds), strict=True))
    got = edgekit_openvino.load(edgekit_openvino.convert(model, path)).run(feeds)
    for name, array in expected.items():
        np.testing.assert_allclose(got[name], array, rtol=1e-5, atol=1e-6)
    plain = openvino.compile_model(openvino.Core().read_model(model.SerializeToString()), "CPU")(feeds)
    return all(np.allclose(plain[name], array, atol=1e-3) for name, array in expected.items())


@pytest.mark.parametrize("direction", [0, 1])
@pytest.mark.parametrize("name", SUMS)
def test_a_state_is_not_overwritten_by_the_next_part(name: str, direction: int, tmp_path: Path) -> None:
    model = model_of(SCAN.format(body=SUMS[name], direction=direction))
    is_right = check(model, tmp_path / "model")
    assert name == "first half" or not is_right, "OpenVINO has learned it"


@pytest.mark.parametrize("name", SHAPES)
def test_a_state_is_not_overwritten_by_another_one(name: str, tmp_path: Path) -> None:
    assert not check(model_of(SHAPES[name]), tmp_path / "model"), "OpenVINO has learned it"


@pytest.mark.parametrize(("kind", "operator"), [("int32", "Add"), ("bool", "Xor")])
def test_numbers_of_other_types(kind: str, operator: str, tmp_path: Path) -> None:
    graph = f"""g (float[1, 8] first, float[5, 1, 8] x) => (float[5, 1, 8] y) {{
        zero = Constant <value = float {{0}}> () ten = Constant <value = float {{10}}> ()
        tens = Mul (x, ten) more = Greater (x, zero) start = Greater (first, zero)
        parts = Cast <to = {onnx.TensorProto.INT32 if kind == "int32" else onnx.TensorProto.BOOL}>
            ({"tens" if kind == "int32" else "more"})
        from = Cast <to = {onnx.TensorProto.INT32 if kind == "int32" else onnx.TensorProto.BOOL}> (start)
        last, found = Scan <num_scan_inputs = 1, body = b ({kind}[1, 8] h, {kind}[1, 8] part) =>
            ({kind}[1, 8] n, {kind}[1, 8] o) {{ n = {operator} (part, h) o = Identity (n) }}> (from, parts)
        y = Cast <to = 1> (found) }}"""
    check(model_of(graph), tmp_path / "model")


@pytest.mark.parametrize("kind", ["RNN", "GRU", "LSTM"])
def test_recurrent_layers_with_activations_that_openvino_lacks(kind: str, tmp_path: Path) -> None:
    """They are computed step by step."""
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind]
    activations = {"RNN": ["Softsign"], "GRU": ["Sigmoid", "Softsign"], "LSTM": ["Sigmoid", "Softsign", "Tanh"]}[kind]
    rng = np.random.default_rng(0)
    arrays = {"w": (1, gates * 6, WIDTH), "r": (1, gates * 6, 6)}
    model = onnx.helper.make_model(
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, ["x", "w", "r"], ["y"], hidden_size=6, activations=activations)],
            "g",
            [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [STEPS, 1, WIDTH])],
            [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [STEPS, 1, 1, 6])],
            [onnx.numpy_helper.from_array(rng.normal(0, 0.4, s).astype(np.float32), n) for n, s in arrays.items()],
        ),
        opset_imports=[onnx.helper.make_opsetid("", 17)],
        ir_version=9,
    )
    feeds = {"x": rng.uniform(-1, 1, (STEPS, 1, WIDTH)).astype(np.float32)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    got = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model")).run(feeds)
    np.testing.assert_allclose(got["y"], session.run(["y"], feeds)[0], rtol=1e-5, atol=1e-6)
