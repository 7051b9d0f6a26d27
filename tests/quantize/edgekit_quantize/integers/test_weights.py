from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.graph.layers import Layer, layers
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.integers.weights import layer_weights, matrix_weights, symmetric_weights


def test_a_scale_for_each_channel() -> None:
    weights = np.array([[1.27, -0.5], [0.1, -2.54]], np.float32)

    rows = symmetric_weights(weights, TYPES["int8"], 0)
    columns = symmetric_weights(weights, TYPES["int8"], 1)

    np.testing.assert_allclose(rows.scale, [0.01, 0.02], rtol=1e-6)
    np.testing.assert_allclose(columns.scale, [0.01, 0.02], rtol=1e-6)
    assert rows.quantize(weights).tolist() == [[127, -50], [5, -127]]


def test_a_channel_of_zeros_stays_zero() -> None:
    params = symmetric_weights(np.zeros((2, 3), np.float32), TYPES["int8"], 0)

    assert params.rounded(np.zeros((2, 3), np.float32)).any() == np.False_


def test_a_scale_for_each_block_with_a_shorter_last_one() -> None:
    weights = np.array([[7.0], [-3.5], [1.4], [0.7], [14.0]], np.float32)

    params = symmetric_weights(weights, TYPES["int4"], 0, block=2)

    np.testing.assert_allclose(params.scale[:, 0], [1.0, 0.2, 2.0], rtol=1e-6)
    assert params.quantize(weights)[:, 0].tolist() == [
        7,
        -4,
        7,
        4,
        7,
    ]  # -3.5 is rounded half to even; 0.7 / 0.2 = 3.5 too


PRODUCTS = {
    "convolution": ("y = Conv(x, w)", (1, 8, 5, 5), (6, 8, 3, 3)),
    "odd channels": ("y = Conv(x, w)", (1, 5, 5, 5), (6, 5, 3, 3)),
    "groups": ("y = Conv<group = 2>(x, w)", (1, 8, 5, 5), (6, 4, 3, 3)),
    "transposed convolution": ("y = ConvTranspose(x, w)", (1, 8, 5, 5), (8, 6, 3, 3)),
    "matrix": ("y = MatMul(x, w)", (4, 7), (7, 6)),
    "turned matrix": ("y = Gemm<transB = 1>(x, w)", (4, 8), (6, 8)),
}


def _product(parse: Callable[..., ir.Model], name: str, weights: np.ndarray) -> Layer:
    node, shape, _ = PRODUCTS[name]
    (layer,) = layers(parse(_text(node, shape, ", ".join("abcd"[: len(shape)])), w=weights).graph)
    return layer


def _text(node: str, shape: tuple[int, ...], output: str) -> str:
    graph = f"g (float[{', '.join(map(str, shape))}] x) => (float[{output}] y) {{ {node} }}"
    return f'<ir_version: 8, opset_import: ["" : 17]> {graph}'


@pytest.mark.parametrize("name", PRODUCTS)
def test_two_neighbouring_products_fit_into_16_bits_however_weights_are_rounded(
    parse: Callable[..., ir.Model], rng: np.random.Generator, name: str
) -> None:
    _, shape, size = PRODUCTS[name]
    weights = (rng.choice([-1, 1], size) * rng.uniform(0.7, 1, size)).astype(np.float32)
    layer = _product(parse, name, weights)
    inputs = rng.integers(150, 256, shape[1])

    plain = layer_weights(layer, weights, TYPES["int8"])
    params = layer_weights(layer, weights, TYPES["int8"], inputs)

    def largest_sum(params: QParams) -> float:
        """By the definition: input channel by input channel, at every place of the kernel and across places."""
        scale, _ = params.spread(weights.shape)
        up = np.sign(weights) * np.ceil(np.abs(weights) / scale)
        found = 0.0
        for output in range(6):
            row = np.take(up, output, layer.channel_axis)
            places = row.reshape(len(row), -1).T  # [places, input channels]
            first = output // 3 * 4 if name == "groups" else 0
            products = places * inputs[first : first + places.shape[1]]
            flat = products.reshape(-1)
            starts = range(0, flat.size - 1, 2) if products.shape[1] % 2 else ()
            pairs = [flat[start] + flat[start + 1] for start in starts]
            pairs += [p[c] + p[c + 1] for p in products for c in range(0, products.shape[1] - 1, 2)]
            found = max(found, max(map(abs, pairs)))
        return found

    assert largest_sum(plain) > 2**15 - 1
    assert largest_sum(params) <= 2**15 - 1


def test_a_depthwise_convolution_adds_no_neighbouring_products(parse: Callable[..., ir.Model]) -> None:
    weights = np.ones((6, 1, 3, 3), np.float32)
    (layer,) = layers(parse(_text("y = Conv<group = 6>(x, w)", (1, 6, 5, 5), "a, b, c, d"), w=weights).graph)

    params = layer_weights(layer, weights, TYPES["int8"], np.full(6, 255))

    assert params.scale == pytest.approx(1 / 127)


def test_channels_whose_sums_fit_keep_their_scales(parse: Callable[..., ir.Model]) -> None:
    weights = np.zeros((7, 6), np.float32)
    weights[0] = weights[2] = 1.0  # the neighbour of either is 0
    weights[1, 5] = 1.0  # but here it is not
    layer = _product(parse, "matrix", weights)

    plain, bounded = (layer_weights(layer, weights, TYPES["int8"], large) for large in (None, np.full(7, 200)))

    np.testing.assert_array_equal(bounded.scale[:5], plain.scale[:5])
    assert bounded.scale[5] == pytest.approx(2 * 200 / (32767 - 2 * 255))


def test_products_of_opposite_signs_take_from_each_other(parse: Callable[..., ir.Model]) -> None:
    weights = np.tile(np.array([[1.0], [-1.0]], np.float32), (4, 6))[:7]
    layer = _product(parse, "matrix", weights)

    plain, bounded = (layer_weights(layer, weights, TYPES["int8"], large) for large in (None, np.full(7, 200)))

    np.testing.assert_array_equal(bounded.scale, plain.scale)


def test_each_matrix_of_a_batch_has_neighbours_of_its_own(parse: Callable[..., ir.Model]) -> None:
    """The first two inputs of the second matrix are neighbours, though the first matrix has an odd number of them."""
    weights = np.full((2, 5, 3), 0.01, np.float32)
    weights[1, :2] = 1.0
    node, inputs = "y = MatMul(x, w)", np.array([200, 100, 255, 255, 255])
    (layer,) = layers(parse(_text(node, (2, 4, 5), "a, b, c"), w=weights).graph)

    params = layer_weights(layer, weights, TYPES["int8"], inputs)

    assert params.scale == pytest.approx((200 + 100) / (32767 - 2 * 255), rel=1e-6)


def test_of_inputs_behind_the_weights_nothing_is_told(parse: Callable[..., ir.Model]) -> None:
    """The last axis of what ``w @ x`` reads runs over columns, of which every neighbour may be the loudest."""
    weights = np.full((4, 4), 0.01, np.float32)
    weights[:, :2] = 1.0
    (layer,) = layers(parse(_text("y = MatMul(w, x)", (4, 4), "a, b"), w=weights).graph)

    params = layer_weights(layer, weights, TYPES["int8"], np.array([255, 1, 1, 1]))

    assert params.scale == pytest.approx(2 * 255 / (32767 - 2 * 255), rel=1e-6)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_matrix_of_inputs_that_no_sample_told_of_fits_with_the_largest_that_8_bits_hold(
    rng: np.random.Generator, axis: int
) -> None:
    rows = (rng.choice([-1, 1], (6, 9)) * rng.uniform(0.7, 1, (6, 9))).astype(np.float32)
    weights = rows if axis == 0 else np.ascontiguousarray(rows.T)

    plain, bounded = (matrix_weights(weights, TYPES["int8"], axis, sums_in_int16=each) for each in (False, True))

    def largest_sum(params: QParams) -> int:
        integers = np.moveaxis(params.quantize(weights).astype(int), axis, 0)
        return int(255 * np.abs(integers[:, 0:8:2] + integers[:, 1:9:2]).max())

    assert largest_sum(plain) > 2**15 - 1
    assert 30_000 < largest_sum(bounded) <= 2**15 - 1
