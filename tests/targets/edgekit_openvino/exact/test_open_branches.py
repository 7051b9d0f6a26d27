"""What an If of an open size gives, beside a Softmax times constants, in runs of one request."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import openvino
import pytest

import edgekit_openvino

SHARED = "g = Softmax (f) h = Mul (g, w)"
SIZES = [(3, 3), (5, 5), (2, 2), (6, 1), (8, 7)]


def model_of(body: str, dtype: str) -> onnx.ModelProto:
    """A model in which ``c`` chooses the branch; ``x`` has the given type, and the first two sizes of ``f``."""
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[N, M, 4] f, {dtype}[N, M] x, bool c) => '
        f"({dtype}[A, B] y, float[N, M, 4] h) <float[4] w = {{0.9, 0.7, -0.1, -0.5}}> "
        f"{{ {SHARED} s = Shape (x) {body} }}"
    )


def choice(dtype: str, name: str, size: str = "N, M") -> str:
    """An If with a Reshape in its branches, so that they are not both computed."""
    return (
        f"{name} = If (c) <then_branch = a () => ({dtype}[{size}] p) {{ r = Reshape (x, s) p = Identity (r) }},"
        f" else_branch = b () => ({dtype}[{size}] q) {{ t = Reshape (x, s) q = Neg (t) }}>"
    )


def runs(model: onnx.ModelProto) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(4)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(model.graph.input[1].type.tensor_type.elem_type)
    return [
        {
            "f": rng.standard_normal((*size, 4)).astype(np.float32),
            "x": rng.integers(-9, 9, size).astype(dtype),
            "c": np.array(place % 3 == 0),
        }
        for place, size in enumerate(SIZES)
    ]


def right(found: Any, expected: Any) -> bool:
    return found.shape == expected.shape and bool(np.allclose(found, expected, atol=1e-5))


READ = choice("float", "z") + " y = Neg (z)"
STEPS = f"""
k = Constant <value_int = 2> ()
y = Loop (k, , x) <body = d (int64 i, bool b, float[N, M] u) => (bool o, float[N, M] v) {{
  o = Identity (b) {choice("float", "z")} n = Exp (z) v = Sub (u, n) }}>
"""


@pytest.mark.parametrize(
    ("body", "dtype"),
    [
        (READ, "float"),
        (choice("int64", "z") + " y = Neg (z)", "int64"),
        (choice("int64", "y"), "int64"),
        (choice("float16", "y"), "float16"),
    ],
    ids=["read", "integers read", "integers given", "half floats given"],
)
def test_openvino_itself_still_loses_it(body: str, dtype: str, tmp_path: Path) -> None:
    model = model_of(body, dtype)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    network = openvino.Core().read_model(model.SerializeToString())
    request = openvino.compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    itself = []
    for feeds in runs(model):
        expected = session.run(["y"], feeds)[0]
        itself.append(right(request.infer(feeds)["y"], expected))
        assert right(runner.run(feeds)["y"], expected)
    assert not all(itself)


@pytest.mark.parametrize("body", [STEPS, choice("float", "y")], ids=["in a loop", "given as it is"])
def test_others_are_right(body: str, tmp_path: Path) -> None:
    model = model_of(body, "float")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for feeds in runs(model):
        assert right(runner.run(feeds)["y"], session.run(["y"], feeds)[0])


def test_only_open_sizes_that_share_memory_become_loops(tmp_path: Path) -> None:
    def kinds(model: onnx.ModelProto, name: str) -> list[str]:
        path = edgekit_openvino.convert(model, tmp_path / name)
        return [operation.get_type_name() for operation in openvino.Core().read_model(path).get_ops()]

    assert "Loop" in kinds(model_of(READ, "float"), "read")
    assert "Loop" not in kinds(model_of(choice("float", "y"), "float"), "given")
    fixed = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[3] x, bool c) => (float[3] y) { z = If (c)'
        " <then_branch = a () => (float[3] p) { p = Exp (x) }, else_branch = b () => (float[3] q) { q = Neg (x) }>"
        " y = Neg (z) }"
    )
    assert "Loop" not in kinds(fixed, "fixed")
