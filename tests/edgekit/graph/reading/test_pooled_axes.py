"""Pools over four axes and more, against sums and maxima by hand: ONNX Runtime has no such kernels."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.reading.pooled_axes import pool_fewer_axes

X = np.random.default_rng(3).standard_normal((1, 2, 3, 4, 6, 5)).astype(np.float32)
WINDOWS = X.reshape(1, 2, 3, 2, 2, 3, 2, 5)
"""Height and width in windows of two."""


def model_of(node: str, shape: str = "1, 2, batch, 4, 6, 5") -> ir.Model:
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[{shape}] x) => (float[a, b, c, d, e, f] y) {{ {node} }}'
    return ir.from_proto(onnx.parser.parse_model(text))


def run(model: ir.Model) -> np.ndarray:
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString())
    return np.asarray(session.run(None, {"x": X})[0])


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (
            "y = MaxPool <kernel_shape = [1, 2, 2, 1], strides = [1, 2, 2, 1]> (x)",
            WINDOWS.max((4, 6)),
        ),
        (
            'y = MaxPool <kernel_shape = [1, 2, 2, 1], strides = [1, 2, 2, 1], auto_pad = "VALID"> (x)',
            WINDOWS.max((4, 6)),
        ),
        (
            "y = AveragePool <kernel_shape = [1, 2, 2, 1], strides = [1, 2, 2, 1], count_include_pad = 1> (x)",
            WINDOWS.mean((4, 6)),
        ),
        (
            "y = LpPool <kernel_shape = [1, 2, 2, 1], strides = [1, 2, 2, 1], p = 1> (x)",
            np.abs(WINDOWS).sum((4, 6)),
        ),
        (
            "y = MaxPool <kernel_shape = [1, 1, 3, 1], pads = [0, 0, 1, 0, 0, 0, 1, 0]> (x)",
            np.maximum.reduce(
                [
                    X,
                    np.pad(X, [(0, 0)] * 4 + [(1, 0), (0, 0)], constant_values=-np.inf)[..., :-1, :],
                    np.pad(X, [(0, 0)] * 4 + [(0, 1), (0, 0)], constant_values=-np.inf)[..., 1:, :],
                ]
            ),
        ),
    ],
)
def test_it_computes_what_the_standard_says(node: str, expected: np.ndarray) -> None:
    model = model_of(node)
    assert pool_fewer_axes(model.graph, 17) == 1
    np.testing.assert_allclose(run(model), expected, rtol=1e-5)


@pytest.mark.parametrize(
    "node",
    [
        "y = MaxPool <kernel_shape = [2, 2, 2, 2]> (x)",
        "y, i = MaxPool <kernel_shape = [1, 2, 2, 1]> (x)",
        "z = Squeeze (x, axes) y = MaxPool <kernel_shape = [1, 2, 2]> (z)",
    ],
)
def test_others_stay(node: str) -> None:
    model = model_of(node.replace("(x, axes)", "(x)"))
    assert pool_fewer_axes(model.graph, 17) == 0
