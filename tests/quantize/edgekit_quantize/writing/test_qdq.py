from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.graph.nodes import Names, add_initializer
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.writing.qdq import QDQWriter


@pytest.mark.parametrize(
    ("steps", "fits"), [(2.0**31 - 128, True), (2.0**31, False), (-(2.0**31) + 128, True), (-(2.0**31) - 256, False)]
)
def test_a_bias_that_int32_does_not_hold_stays_float(steps: float, fits: bool) -> None:
    node = ir.node("Identity", [], num_outputs=1)
    graph = ir.Graph([], [], nodes=[node], name="g")
    bias = add_initializer(graph, "b", np.array([0.25, steps * 0.5], np.float32))

    made = QDQWriter(Names(graph)).bias(bias, graph, np.array(0.5, np.float32))

    assert (made is not None) == fits
    if fits:
        assert graph.initializers["b_int32"].const_value.numpy().tolist() == [0, int(steps)]


@pytest.mark.parametrize(("dtype", "zero", "inputs"), [("int8", 0, 2), ("int8", 3, 3), ("uint8", 0, 3)])
def test_a_zero_point_of_int8_that_takes_nothing_off_is_left_out(dtype: str, zero: int, inputs: int) -> None:
    """ONNX Runtime refuses one in DequantizeLinear, from opset 21 on, where a Reshape or a product follows."""
    graph = ir.Graph([ir.Value(name="x")], [], nodes=[ir.node("Identity", [], num_outputs=1)], name="g")
    params = QParams(np.array(0.5, np.float32), np.array(zero), TYPES[dtype])

    made = QDQWriter(Names(graph)).activation(graph.inputs[0], graph, params)

    assert len(made.producer().inputs) == inputs
    assert made.producer().inputs[0].producer().inputs[2].const_value.numpy() == zero
