"""Weights of integer products stay in 8 bits as OpenVINO loads them, and the products are those of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino
from edgekit_openvino.quick.integer_products import keep_weights_of_integer_products

DRAWN = np.random.default_rng(0)
FEEDS = {"x": DRAWN.standard_normal((3, 64)).astype(np.float32)}
GRAPH = "g (float[3, 64] x) => ({output}[3, 48] y) {{ q, t, z = DynamicQuantizeLinear (x) {nodes} }}"
CONSTANTS = {
    "signed": DRAWN.integers(-127, 128, (64, 48), dtype=np.int8),
    "zero": np.array(0, np.int8),
    "unsigned": DRAWN.integers(0, 256, (64, 48), dtype=np.uint8),
    "middle": np.array(119, np.uint8),
    "zeros": DRAWN.integers(100, 140, 48, dtype=np.uint8),
    "scale": np.array(0.013, np.float32),
    "scales": np.linspace(0.01, 0.02, 48, dtype=np.float32),
}
FLOATS = "f = Cast <to = 1> (p) s = Mul ({scale}, t) y = Mul (f, s)"


def weights_as_loaded(network: openvino.Model) -> set[str]:
    """Element types of the matrices that the plugin holds once it has compiled a network."""
    compiled = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return {
        node.get_output_element_type(0).get_type_name()
        for node in compiled.get_runtime_model().get_ops()
        if node.get_rt_info()["layerType"] in ("Const", "Constant") and sorted(node.get_output_shape(0)) == [48, 64]
    }


@pytest.mark.parametrize(
    ("product", "scale"),
    [
        ("p = MatMulInteger (q, signed, z, zero)", "scale"),
        ("p = MatMulInteger (q, signed, z)", "scales"),
        ("p = MatMulInteger (q, unsigned, z, middle)", "scale"),
        ("p = MatMulInteger (q, unsigned, z, zeros)", "scales"),
    ],
)
def test_products_that_stay_in_8_bits(product: str, scale: str, tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    path = onnx_file(GRAPH.format(output="float", nodes=f"{product} {FLOATS.format(scale=scale)}"), **CONSTANTS)
    (expected,) = ReferenceEvaluator(str(path)).run(None, FEEDS)

    built = edgekit_openvino.convert(path, tmp_path / "built")

    np.testing.assert_allclose(edgekit_openvino.load(built).run(FEEDS)["y"], expected, rtol=1e-5, atol=1e-5)
    stored = openvino.Core().read_model(built)
    assert stored.has_rt_info(["runtime_options", "DYNAMIC_QUANTIZATION_GROUP_SIZE"])  # it rounds by itself
    assert weights_as_loaded(stored) <= {"i8", "u8"}
    assert not weights_as_loaded(openvino.Core().read_model(path)) & {"i8", "u8"}, "OpenVINO keeps 8 bits by itself now"


def test_sums_that_are_an_output(tmp_path: Path, onnx_file: Callable[..., Path]) -> None:
    path = onnx_file(GRAPH.format(output="int32", nodes="y = MatMulInteger (q, signed, z)"), **CONSTANTS)
    (expected,) = ReferenceEvaluator(str(path)).run(None, FEEDS)

    built = edgekit_openvino.convert(path, tmp_path / "built")

    np.testing.assert_array_equal(edgekit_openvino.load(built).run(FEEDS)["y"], expected)


def test_what_is_left_as_it_is(onnx_file: Callable[..., Path]) -> None:
    nodes = "w = Cast <to = 3> (x) v = Transpose (w) i = MatMulInteger (q, v) k = Cast <to = 1> (i) y = MatMul (k, m)"
    path = onnx_file(GRAPH.format(output="float", nodes=nodes), m=np.ones((3, 48), np.float32))

    assert keep_weights_of_integer_products(openvino.Core().read_model(path)) == []
