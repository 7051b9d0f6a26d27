"""Versions of the standard operators that ONNX Runtime accepts, and has no kernels for (ONNX Runtime 1.32)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.execution.kernels import operator_without_kernel
from edgekit.execution.reference import Reference
from edgekit.graph.reading.ir_version import newest_opset
from edgekit.model import Model
from edgekit.stages.load import Load

OnnxFile = Callable[..., Path]
X = np.random.default_rng(5).standard_normal((2, 6), np.float32)
ROUNDED = "q = QuantizeLinear (x, step, zero) d = DequantizeLinear (q, step, zero)"


def loaded(onnx_file: OnnxFile, text: str, opset: int) -> Model:
    if opset > newest_opset():
        pytest.skip(f"the installed ONNX Runtime takes opset {newest_opset()} at most")
    file = onnx_file(text, opset=opset, ir_version=13, step=np.float32(0.05), zero=np.uint8(128))
    with pytest.raises(Exception, match="Could not find an implementation"):
        onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    result = Load()(file)
    assert operator_without_kernel(result.model) is None
    (expected,) = ReferenceEvaluator(onnx.load(file)).run(None, {"x": X})
    np.testing.assert_allclose(Reference(result.model).run({"x": X})["y"], expected, rtol=1e-6, atol=1e-6)
    return result.model


def test_operators_of_which_element_types_alone_are_new_are_moved_to_the_version_before(onnx_file: OnnxFile) -> None:
    model = loaded(onnx_file, f"g (float[2, 6] x) => (float[2, 6] y) {{ {ROUNDED} y = Relu (d) }}", 28)
    assert model.opset == 27


def test_an_operator_whose_definition_has_changed_since_is_moved_to_its_own_version(onnx_file: OnnxFile) -> None:
    """Swish is of opset 24 and reads CastLike, which changed in 25: ONNX Runtime takes Swish in opset 24 only."""
    file = onnx_file("g (float[2, 6] x) => (float[2, 6] y) { y = Swish <alpha = 1.5> (x) }", opset=25, ir_version=13)
    if newest_opset() < 25:
        pytest.skip(f"the installed ONNX Runtime takes opset {newest_opset()} at most")
    model = Load()(file).model
    assert model.opset == 24
    expected = X / (1 + np.exp(-1.5 * X))
    np.testing.assert_allclose(Reference(model).run({"x": X})["y"], expected, rtol=1e-6, atol=1e-6)


def test_what_cannot_be_moved_is_replaced_by_its_definition(onnx_file: OnnxFile) -> None:
    """SwiGLU came with opset 28, so the model cannot be moved before it. Its definition has a Swish, of opset 24."""
    text = f"g (float[2, 6] x) => (float[2, 6] y) {{ {ROUNDED} y = SwiGLU (x, d) }}"
    model = loaded(onnx_file, text, 28)
    assert model.opset == 24
    assert "SwiGLU" not in {node.op_type for node in model.graph}


def test_regions_of_a_detector(onnx_file: OnnxFile) -> None:
    """RoiAlign has no kernel from opset 22 on (a kernel for opset 16 alone)."""
    file = onnx_file(
        """g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y) <float[1, 4] r = {0, 0, 4, 4}, int64[1] b = {0}> {
            y = RoiAlign <output_height = 2, output_width = 2, sampling_ratio = 2,
                          coordinate_transformation_mode = "output_half_pixel"> (x, r, b)
        }""",
        opset=22,
        ir_version=10,
    )
    model = Load()(file).model
    assert model.opset == 21
    x = np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)
    # samples at 0.5, 1.5, 2.5 and (beyond the border, held to it) 3.5 -> 3 of rows and columns: y = 4 r + c
    expected = [[[[4 * 1 + 1, 4 * 1 + 2.75], [4 * 2.75 + 1, 4 * 2.75 + 2.75]]]]
    np.testing.assert_allclose(Reference(model).run({"x": x})["y"], expected, rtol=1e-6)


def test_attention_is_not_moved(onnx_file: OnnxFile) -> None:
    """Its older versions compute something else: it is replaced by its definition, and then the others are moved."""
    text = f"""g (float[2, 6] x) => (float[1, 1, 2, 6] y) <int64[4] four = {{1, 1, 2, 6}}> {{
        {ROUNDED} h = Reshape (d, four) y = Attention (h, h, h)
    }}"""
    model = loaded(onnx_file, text, 28)
    assert model.opset == 27
    assert "Attention" not in {node.op_type for node in model.graph}
