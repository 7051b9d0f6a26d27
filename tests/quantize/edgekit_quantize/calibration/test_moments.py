from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.moments import Moments, rows_each, rows_of
from edgekit_quantize.graph.layers import layers

CONV = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 9, 8] x) => (float[N, M, H, W] y) {{ y = Conv<{attributes}>(x, w) }}"""


@pytest.mark.parametrize(
    "attributes",
    [
        "strides = [1, 1]",
        "pads = [1, 0, 2, 1]",
        "strides = [2, 3], pads = [1, 1, 1, 1]",
        "dilations = [2, 1]",
        'auto_pad = "SAME_UPPER", strides = [2, 2]',
        'auto_pad = "SAME_LOWER"',
        'auto_pad = "VALID"',
    ],
)
def test_rows_are_what_a_convolution_multiplies(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, attributes: str
) -> None:
    weights = rng.normal(size=(5, 3, 3, 2)).astype(np.float32)
    model = parse(CONV.format(attributes=attributes), w=weights)
    data = rng.normal(size=(1, 3, 9, 8)).astype(np.float32)
    (layer,) = layers(model.graph)

    products = rows_of(layer, data) @ weights.reshape(5, -1).T

    expected = execute(model, {"x": data})[0]
    np.testing.assert_allclose(products, expected.reshape(5, -1).T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("turned", [0, 1])
def test_rows_are_what_a_gemm_multiplies(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, turned: int
) -> None:
    weights, data = (rng.normal(size=size).astype(np.float32) for size in ((4, 5), (4, 6) if turned else (6, 4)))
    rows, columns = data.shape
    graph = f"g (float[{rows}, {columns}] x) => (float[N, 5] y) {{ y = Gemm<transA = {turned}>(x, w) }}"
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> {graph}', w=weights)
    (layer,) = layers(model.graph)

    np.testing.assert_allclose(rows_of(layer, data) @ weights, execute(model, {"x": data})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("graph", "weights", "data", "length"),
    [
        ("(float[N, 4] x) => (float[N, 5] y) { y = Gemm(x, w) }", (4, 5), (0, 4), 4),
        ("(float[N, 3, 9, 8] x) => (float[N, 5, H, W] y) { y = Conv(x, w) }", (5, 3, 3, 2), (0, 3, 9, 8), 18),
    ],
)
def test_an_input_without_rows_has_none(
    parse: Callable[..., ir.Model], graph: str, weights: tuple[int, ...], data: tuple[int, ...], length: int
) -> None:
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> g {graph}', w=np.ones(weights, np.float32))
    (layer,) = layers(model.graph)
    moments = Moments(length)

    moments.update(rows_of(layer, np.zeros(data, np.float32)))

    assert moments.count == 0
    np.testing.assert_array_equal(moments.second, np.zeros((length, length)))


def test_moments_are_numpys(rng: np.random.Generator) -> None:
    rows = rng.normal(3, 2, (400, 4)).astype(np.float32)
    moments = Moments(4)
    moments.update(rows[:100])
    moments.update(rows[100:])

    np.testing.assert_allclose(moments.second, rows.T @ rows / len(rows), rtol=1e-2, atol=1e-2)


def test_rows_that_are_not_finite_do_not_count() -> None:
    moments = Moments(2)
    moments.update(np.array([[1, 2], [np.inf, 0], [3, 4], [np.nan, 1]], np.float32))

    assert moments.count == 2
    np.testing.assert_array_equal(moments.second, [[5, 7], [7, 10]])


@pytest.mark.parametrize(("samples", "rows"), [(1, 128), (64, 128), (256, 32), (10_000, 16)])
def test_of_many_samples_fewer_rows_each_are_taken(parse: Callable[..., ir.Model], samples: int, rows: int) -> None:
    assert rows_each(samples) == rows

    graph = "g (float[400, 6] x) => (float[400, 5] y) { y = MatMul(x, w) }"
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> {graph}', w=np.ones((6, 5), np.float32))
    (layer,) = layers(model.graph)
    taken = rows_of(layer, np.arange(2400, dtype=np.float32).reshape(400, 6), rows)

    assert rows / 2 < len(taken) <= rows
    np.testing.assert_array_equal(np.diff(taken[:, 0]), 6 * -(-400 // rows))
