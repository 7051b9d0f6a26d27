"""What a network computes from its shapes is computed before it is written, and nothing else is."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import openvino
from openvino import opset13

from edgekit_openvino.ir.shape_folding import fold_shapes


def _flattened(shape: list[int]) -> Any:
    """``x`` as rows: all but its first axis as one, whose size is computed from the shape."""
    x = opset13.parameter(shape, np.float32, "x")
    first = opset13.gather(opset13.shape_of(x), np.array([0], np.int64), np.int64(0))
    rows = opset13.reshape(x, opset13.concat([first, np.array([-1], np.int64)], 0), special_zero=False)
    wide = opset13.convert(opset13.constant(np.arange(12, dtype=np.int8).reshape(12, 1)), "f32")
    return openvino.Model([opset13.matmul(rows, wide, transpose_a=False, transpose_b=False)], [x], "flattened")


def _kinds(network: Any) -> Counter[str]:
    return Counter(operation.get_type_name() for operation in network.get_ops())


def test_a_shape_that_is_fixed_becomes_a_constant_and_weights_stay_integers() -> None:
    network = _flattened([2, 3, 4])
    assert {"ShapeOf", "Gather", "Concat", "Convert"} <= set(_kinds(network))

    fold_shapes(network)

    assert _kinds(network) == {"Parameter": 1, "Constant": 2, "Reshape": 1, "Convert": 1, "MatMul": 1, "Result": 1}
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (found,) = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x]).values()
    np.testing.assert_array_equal(found, x.reshape(2, 12) @ np.arange(12, dtype=np.float32).reshape(12, 1))


def test_a_shape_that_is_open_is_computed_when_it_is_known() -> None:
    network = _flattened([-1, 3, 4])

    fold_shapes(network)

    assert _kinds(network)["ShapeOf"] == _kinds(network)["Gather"] == 1
    x = np.ones((5, 3, 4), np.float32)
    (found,) = openvino.Core().compile_model(network, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x]).values()
    np.testing.assert_array_equal(found, np.full((5, 1), 66, np.float32))  # 0 + 1 + … + 11


def test_what_is_divided_by_zero_is_left_as_it_is() -> None:
    x = opset13.parameter([2, 3], np.float32, "x")
    rest = opset13.mod(opset13.shape_of(x), np.array([0, 2], np.int64))
    network = openvino.Model([opset13.result(rest)], [x], "divided")

    fold_shapes(network)

    assert _kinds(network)["Mod"] == 1
    assert _kinds(network)["ShapeOf"] == 0
