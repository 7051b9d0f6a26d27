"""Operators on quantized tensors between float ones, against ONNX Runtime's own kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.execution.tolerance import are_steps_apart

RNG = np.random.default_rng(5)
MICROSOFT = "com.microsoft"


def unsigned(*shape: int) -> np.ndarray:
    return RNG.integers(0, 256, shape).astype(np.uint8)


def signed(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 128, shape).astype(np.int8)


def at(scale: float | list[float], zero_point: int = 0, dtype: type = np.uint8) -> tuple[np.ndarray, np.ndarray]:
    """A scale and as many zero points."""
    scales = np.array(scale, np.float32)
    return scales, np.full(scales.shape, zero_point, dtype)


BIAS = RNG.integers(-500, 500, 4).astype(np.int32)
CHANNELS = [0.0317, 0.0213, 0.0109, 0.0331]
X, OTHER = unsigned(1, 8, 6, 6), unsigned(1, 8, 6, 6)
IMAGE = (X, *at(0.0213, 120))
TO = at(0.0973, 110)
LAST = unsigned(1, 6, 6, 8)
CONVOLUTION = (*IMAGE, signed(4, 8, 3, 3), *at(CHANNELS, 0, np.int8), *TO, BIAS)
Case = tuple[str, str, tuple[np.ndarray, ...], Mapping[str, Any], int]
"""Operator, domain, inputs, attributes and opset."""
CASES: dict[str, Case] = {
    "convolution, a scale a channel": (
        "QLinearConv",
        "",
        (*IMAGE, signed(4, 8, 3, 3), *at(CHANNELS, 0, np.int8), *TO, BIAS),
        {"pads": [1, 1, 1, 1], "strides": [2, 2]},
        13,
    ),
    "convolution, a scale a channel, before opset 13": (
        "QLinearConv",
        "",
        (*IMAGE, signed(4, 4, 3, 3), *at(CHANNELS, 0, np.int8), *TO),
        {"group": 2},
        11,
    ),
    "convolution, unsigned weights": (
        "QLinearConv",
        "",
        (*IMAGE, unsigned(4, 8, 3, 3), *at(0.03, 128), *TO, BIAS),
        {"auto_pad": "SAME_UPPER"},
        13,
    ),
    "product, a scale a column": (
        "QLinearMatMul",
        "",
        (unsigned(5, 8), *at(0.0213, 120), signed(8, 4), *at(CHANNELS, 0, np.int8), *TO),
        {},
        13,
    ),
    "Gemm": (
        "QGemm",
        MICROSOFT,
        (unsigned(5, 8), *at(0.0213, 120), signed(4, 8), *at(CHANNELS, 0, np.int8), BIAS, *at(0.2, 128)),
        {"transB": 1, "alpha": 0.5},
        13,
    ),
    "Gemm to floats": (
        "QGemm",
        MICROSOFT,
        (unsigned(5, 8), *at(0.0213, 120), signed(8, 4), *at(0.03, 0, np.int8), BIAS),
        {},
        13,
    ),
    "sum": ("QLinearAdd", MICROSOFT, (*IMAGE, OTHER, *at(0.0317, 100), *at(0.0411, 110)), {}, 13),
    "product with one a channel": (
        "QLinearMul",
        MICROSOFT,
        (*IMAGE, unsigned(1, 8, 1, 1), *at(0.0317, 100), *at(0.0519, 110)),
        {},
        13,
    ),
    "sigmoid": ("QLinearSigmoid", MICROSOFT, (*IMAGE, *at(1 / 256)), {}, 13),
    "leaky": ("QLinearLeakyRelu", MICROSOFT, (*IMAGE, *at(0.0209, 60)), {"alpha": 0.2}, 13),
    "softmax": ("QLinearSoftmax", MICROSOFT, (unsigned(2, 10), *at(0.1, 120), *at(1 / 256)), {"opset": 13}, 13),
    "average": (
        "QLinearAveragePool",
        MICROSOFT,
        (*IMAGE, *at(0.02, 110)),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        13,
    ),
    "average of all": ("QLinearGlobalAveragePool", MICROSOFT, (*IMAGE, *at(0.01, 110)), {}, 13),
    "convolution, ONNX Runtime's": ("QLinearConv", MICROSOFT, CONVOLUTION, {"pads": [1, 1, 1, 1]}, 13),
    "convolution, channels last": (
        "QLinearConv",
        MICROSOFT,
        (LAST, *CONVOLUTION[1:]),
        {"strides": [2, 2], "channels_last": 1},
        13,
    ),
    "average, channels last": (
        "QLinearAveragePool",
        MICROSOFT,
        (LAST, *at(0.0213, 120), *at(0.02, 110)),
        {"kernel_shape": [2, 2], "strides": [2, 2], "channels_last": 1},
        13,
    ),
    "average of all, channels last": (
        "QLinearGlobalAveragePool",
        MICROSOFT,
        (LAST, *at(0.0213, 120), *at(0.01, 110)),
        {"channels_last": 1},
        13,
    ),
    "greatest, channels last": (
        "NhwcMaxPool",
        MICROSOFT,
        (LAST,),
        {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1], "ceil_mode": 1},
        13,
    ),
    "greatest of a row, channels last": ("NhwcMaxPool", MICROSOFT, (unsigned(1, 7, 8),), {"kernel_shape": [2]}, 12),
    "one after the other": (
        "QLinearConcat",
        MICROSOFT,
        (*at(0.03, 110), *IMAGE, unsigned(1, 4, 6, 6), *at(0.0317, 100)),
        {"axis": 1},
        13,
    ),
    "one of two": (
        "QLinearWhere",
        MICROSOFT,
        (RNG.integers(0, 2, X.shape).astype(bool), *IMAGE, OTHER, *at(0.0317, 100), *at(0.03, 110)),
        {},
        13,
    ),
}


def one_node(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model whose tensors of pictures and rows are fed, and what is fed."""
    op_type, domain, arrays, attributes, opset = case
    names = [f"i{number}" for number in range(len(arrays))]
    feeds = {
        name: array
        for name, array in zip(names, arrays, strict=True)
        if array.dtype in (np.uint8, np.bool_) and array.ndim > 1 and array.shape[1:] != (8, 3, 3)
    }
    result = TensorProto.FLOAT if op_type == "QGemm" and len(arrays) < 9 else TensorProto.UINT8
    graph = helper.make_graph(
        [helper.make_node(op_type, names, ["y"], "node", domain=domain, **attributes)],
        "quantized",
        [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in feeds.items()
        ],
        [helper.make_tensor_value_info("y", result, None)],
        [numpy_helper.from_array(a, name) for name, a in zip(names, arrays, strict=True) if name not in feeds],
    )
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8), feeds


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_quantized_operators(case: Case, assert_rewritten: Callable[..., Any]) -> None:
    model, feeds = one_node(case)
    result = assert_rewritten(model, feeds, atol=1e-4, steps=1)
    assert case[0] not in {node.op_type for node in result.model.graph}


@pytest.mark.parametrize(
    ("changed", "holds"),
    [
        (lambda a: a, True),
        (lambda a: np.where(np.arange(a.size) == 3, a + 1, a), True),
        (lambda a: np.where(np.arange(a.size) == 3, a + 2, a), False),
        (lambda a: np.where(np.arange(a.size) % 2 == 1, a + 1, a), True),
        (lambda a: np.where(np.arange(a.size) % 3 != 1, a + 1, a), False),
        (lambda a: a.astype(np.int16), False),
        (lambda a: a[:-1], False),
    ],
    ids=["the same", "one by a step", "one by two", "half", "two of three", "another type", "another shape"],
)
def test_steps_of_a_quantization(changed: Callable[[np.ndarray], np.ndarray], holds: bool) -> None:
    numbers = (np.arange(1000) % 200).astype(np.uint8)
    found = changed(numbers)
    assert are_steps_apart(numbers, found.astype(np.uint8) if found.dtype == np.int64 else found) is holds


def test_integers_of_other_widths_are_no_steps() -> None:
    assert not are_steps_apart(np.zeros(1000, np.int64), np.eye(1, 1000, dtype=np.int64)[0])
