from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.graph.layers import Layer, layers
from edgekit_quantize.graph.parameters import set_weights
from edgekit_quantize.placement import place
from edgekit_quantize.settings import Settings
from edgekit_quantize.smoothing.smoothquant import (
    FEW,
    LOUD,
    QUIETEST,
    factors,
    smoothable,
    smoothable_in_all,
    smoothing,
)

from ..conftest import Execute


def test_factors_by_hand() -> None:
    inputs = np.array([16.0, 9.0], np.float32)
    weights = [np.array([[0.5, -1.0], [0.25, 0.1]], np.float32), np.array([[0.1], [-1.0]], np.float32)]

    found = factors(inputs, weights, 0.5)  # sqrt(16 / 1) and sqrt(9 / 1), over their geometric mean

    np.testing.assert_allclose(found, [4 / 12**0.5, 3 / 12**0.5], rtol=1e-6)


def test_what_moves_into_the_weights_hangs_on_alpha() -> None:
    found = factors(np.array([16.0, 9.0], np.float32), [np.array([[4.0], [-0.5]], np.float32)], 0.8)

    assert found[0] / found[1] == pytest.approx((16**0.8 / 4**0.2) / (9**0.8 / 0.5**0.2), rel=1e-6)
    assert found[0] * found[1] == pytest.approx(1, rel=1e-6)


def test_a_channel_that_stayed_quiet_is_not_blown_up() -> None:
    found = factors(np.array([8.0, 8.0, 8.0, 0.001], np.float32), [np.ones((4, 2), np.float32)], 1.0)

    assert found[0] / found[3] == pytest.approx(QUIETEST)


def test_with_alpha_one_all_channels_become_equally_wide() -> None:
    inputs = np.array([8.0, 4.0, 2.5], np.float32)

    smooth = inputs / factors(inputs, [np.ones((3, 2), np.float32)], 1.0)

    np.testing.assert_allclose(smooth, smooth[0], rtol=1e-6)


def test_channels_that_are_never_used_are_left_alone() -> None:
    assert factors(np.zeros(2, np.float32), [np.ones((2, 1), np.float32)], 0.5).tolist() == [1.0, 1.0]


TWO_READERS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[3, 4] x) => (float[3, 5] y, float[3, 2] z) {
  h = HardSwish(x)
  y = Gemm(h, w)
  z = MatMul(h, v)
}"""


def test_a_tensor_that_layers_of_two_kinds_read_is_not_smoothed(parse: Callable[..., ir.Model]) -> None:
    model = parse(TWO_READERS, w=np.ones((4, 5), np.float32), v=np.ones((4, 2), np.float32))
    data = {"smoothing": {"MatMul": 0.5, "Gemm": 0.5}}
    both = place(model.graph, Settings.read({**data, "layers": {"Gemm": "input", "MatMul": "input"}}))
    one = place(model.graph, Settings.read({**data, "layers": {"Gemm": "input"}}))

    assert not smoothable(both)
    assert set(smoothable(one)) == {"h"}
    assert not smoothable_in_all([one, both])


UNROLLED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x) => (float[1, 4] y) { h = Tanh(x)  a = Gemm(h, w)  i = Tanh(a)  y = Gemm(i, w) }"""


def test_the_inputs_of_steps_that_share_weights_are_not_smoothed(parse: Callable[..., ir.Model]) -> None:
    settings = Settings.read({"smoothing": {"Gemm": 0.5}, "layers": {"Gemm": "input"}})
    shared = parse(UNROLLED, w=np.ones((4, 4), np.float32))
    alone = parse(
        UNROLLED.replace("Gemm(i, w)", "Gemm(i, v)"), w=np.ones((4, 4), np.float32), v=np.ones((4, 4), np.float32)
    )

    assert not smoothable(place(shared.graph, settings))
    assert set(smoothable(place(alone.graph, settings))) == {"h", "i"}


CONVOLUTION = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 6, 6] x) => (float[1, 3, 3, 3] y) { y = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, w) }"""


def _convolution(parse: Callable[..., ir.Model], rng: np.random.Generator) -> tuple[ir.Model, Layer]:
    model = parse(CONVOLUTION, w=rng.normal(size=(3, 4, 3, 3)).astype(np.float32))
    return model, next(layers(model.graph))


def test_a_convolution_takes_up_what_its_input_is_divided_by(
    parse: Callable[..., ir.Model], rng: np.random.Generator, execute: Execute
) -> None:
    model, layer = _convolution(parse, rng)
    data = rng.normal(size=(1, 4, 6, 6)).astype(np.float32)
    (expected,) = execute(model, {"x": data})
    divided = Smoothing(np.array([0.5, 2.0, 8.0, 1.0], np.float32), 1)

    set_weights(model.graph, layer, divided.into(layer))

    (found,) = execute(model, {"x": data / divided.along(4)})
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_only_what_is_uneven_is_divided_before_a_convolution(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    model, layer = _convolution(parse, rng)
    plan = place(model.graph, Settings.read({"smoothing": {"Conv": 0.5}, "layers": {"Conv": "input"}}))
    even = np.ones(40, np.float32)
    loud = np.concatenate([even[:-1], [10.0]])  # the average is 49 / 40

    assert set(smoothable(plan)) == {"x"}
    assert LOUD * loud.mean() < 10.0
    assert not smoothing({"x": [layer]}, {"x": even[:4]}, {"x": 4096}, {"Conv": 0.5})
    thrice_the_average = np.array([1, 1, 1, 9], np.float32)
    assert not smoothing({"x": [layer]}, {"x": thrice_the_average}, {"x": 4096}, {"Conv": 0.5})


def test_the_loud_channel_is_divided_most(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = parse(
        CONVOLUTION.replace("float[1, 4,", "float[1, 40,"), w=rng.uniform(0.9, 1, (3, 40, 3, 3)).astype(np.float32)
    )
    loud = np.ones(40, np.float32)
    loud[7] = 50.0

    found = smoothing({"x": [next(layers(model.graph))]}, {"x": loud}, {"x": 4096}, {"Conv": 0.5})["x"]

    assert (found.axis, found.factors.argmax()) == (1, 7)
    assert found.factors[7] / found.factors[0] == pytest.approx(50**0.5, rel=0.1)


@pytest.mark.parametrize(("numbers", "raised"), [(FEW, False), (FEW - 1, True)])
def test_channels_of_which_few_numbers_are_known_are_taken_to_reach_twice_the_median(
    parse: Callable[..., ir.Model], numbers: int, raised: bool
) -> None:
    """Behind pooling a sample has one number a channel; others reach further."""
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]> g (float[1, 5] x) => (float[1, 3] y)
        <float[5, 3] w> { y = MatMul (x, w) }""",
        w=np.ones((5, 3), np.float32),
    )
    reached = np.array([0.6, 1, 1, 1.5, 8], np.float32)

    found = smoothing({"x": [next(layers(model.graph))]}, {"x": reached}, {"x": numbers}, {"MatMul": 0.5})["x"].factors

    expected = np.sqrt(np.array([2, 2, 2, 2, 8]) if raised else reached)
    np.testing.assert_allclose(found / found[1], expected / expected[1], rtol=1e-6)
