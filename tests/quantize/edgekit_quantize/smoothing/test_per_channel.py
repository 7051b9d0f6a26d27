from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.channel_histogram import ChannelHistogram
from edgekit_quantize.graph.layers import Layer, layers
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.placement import place
from edgekit_quantize.settings import Settings
from edgekit_quantize.smoothing.per_channel import by_channel, channel_scales
from edgekit_quantize.smoothing.smoothquant import Smoothing

TWO_READERS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y, float[1, 2, 6, 6] z) {
  h = HardSwish(x)
  y = Conv<group = 4, pads = [1, 1, 1, 1]>(h, depthwise)
  z = Conv(x, pointwise)
}"""
POINTWISE = np.ones((2, 4, 1, 1), np.float32)
SETTINGS = {"channel_scales": ["DepthwiseConv"], "layers": {"DepthwiseConv": "input"}}


def _depthwise(parse: Callable[..., ir.Model], weights: np.ndarray) -> Layer:
    model = parse(TWO_READERS, depthwise=weights, pointwise=POINTWISE)
    return next(layer for layer in layers(model.graph) if layer.kind == "DepthwiseConv")


def _counted(data: np.ndarray) -> ChannelHistogram:
    histogram = ChannelHistogram()
    histogram.update(data, 1)
    return histogram


def test_every_channel_gets_the_scale_of_least_error(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    loudness = np.array([0.01, 1.0, 40.0, 3.0])[:, None]
    data = (rng.laplace(size=(1, 4, 4000)) * loudness).astype(np.float32)
    layer = _depthwise(parse, np.ones((4, 1, 3, 3), np.float32))

    scales = channel_scales(_counted(data), [layer], Settings.read(SETTINGS).preparation)

    def error(row: np.ndarray, scale: float) -> float:
        params = QParams(np.asarray(scale, np.float32), scales.params.zero_point, scales.params.dtype)
        return float(np.mean((params.rounded(row) - row) ** 2))

    found = scales.smoothing.factors * scales.params.scale
    for row, scale in zip(data[0], found, strict=True):
        least = min(error(row, tried) for tried in np.abs(row).max() / 128 * np.geomspace(0.05, 2, 100))
        assert error(row, scale) < 1.1 * least


def test_the_zero_point_suits_the_channels_that_weigh_most(parse: Callable[..., ir.Model]) -> None:
    ramp = np.linspace(0, 1, 500, dtype=np.float32)
    data = np.stack([ramp, ramp, -ramp, -ramp])[None]
    preparation = Settings.read(SETTINGS).preparation

    for weighty, expected in (([1, 1, 0.01, 0.01], 32), ([0.01, 0.01, 1, 1], 255 - 32)):
        weights = np.array(weighty, np.float32).reshape(4, 1, 1, 1) * np.ones((4, 1, 3, 3), np.float32)
        found = channel_scales(_counted(data), [_depthwise(parse, weights)], preparation).params.zero_point
        assert abs(int(found) - expected) < 33


def test_nothing_negative_leaves_all_integers_to_the_rest(parse: Callable[..., ir.Model]) -> None:
    data = np.linspace(0, 1, 400, dtype=np.float32).reshape(1, 4, 100)
    layer = _depthwise(parse, np.ones((4, 1, 3, 3), np.float32))

    assert channel_scales(_counted(data), [layer], Settings.read(SETTINGS).preparation).params.zero_point == 0


@pytest.mark.parametrize(
    ("low", "kind", "zero"),
    [(-0.97, "int8", 0), (-0.5, "uint8", None), (0.0, "uint8", 0)],
    ids=["little is lost", "a quarter of the integers would be", "nothing negative"],
)
def test_around_zero_where_little_is_lost(
    low: float, kind: str, zero: int | None, parse: Callable[..., ir.Model]
) -> None:
    preparation = Settings.read({**SETTINGS, "ranges": {"DepthwiseConv": "around zero"}}).preparation
    data = np.stack([1.95 * np.linspace(low, 1, 1000, dtype=np.float32)] * 4)[None]
    layer = _depthwise(parse, np.ones((4, 1, 3, 3), np.float32))

    params = channel_scales(_counted(data), [layer], preparation).params

    assert params.dtype.name == kind
    assert (int(params.zero_point) == zero) if zero is not None else 64 <= int(params.zero_point) <= 96


@pytest.mark.parametrize(("activations", "middle"), [("int8", 0), ("uint8", 128)])
def test_symmetric_activations_keep_zero_in_the_middle(
    parse: Callable[..., ir.Model], activations: str, middle: int
) -> None:
    preparation = Settings.read({**SETTINGS, "activations": activations, "symmetric_activations": True}).preparation
    data = np.linspace(-1, 3, 400, dtype=np.float32).reshape(1, 4, 100)
    layer = _depthwise(parse, np.ones((4, 1, 3, 3), np.float32))

    assert channel_scales(_counted(data), [layer], preparation).params.zero_point == middle


def test_a_channel_of_zeros_is_left_alone(parse: Callable[..., ir.Model]) -> None:
    data = np.zeros((1, 4, 10), np.float32)
    data[0, 2] = np.linspace(0, 2, 10)
    layer = _depthwise(parse, np.ones((4, 1, 3, 3), np.float32))

    factors = channel_scales(_counted(data), [layer], Settings.read(SETTINGS).preparation).smoothing.factors

    assert factors[[0, 1, 3]].tolist() == [1.0] * 3
    assert np.isfinite(factors).all()


def test_weights_take_up_what_a_depthwise_input_is_divided_by(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    depthwise = rng.normal(size=(4, 1, 3, 3)).astype(np.float32)
    smoothing = Smoothing(np.array([1.0, 2.0, 4.0, 0.5], np.float32), 1)
    data = rng.normal(size=(1, 4, 6, 6)).astype(np.float32)
    text = TWO_READERS.replace("HardSwish(x)", "Identity(x)")
    plain = parse(text, depthwise=depthwise, pointwise=POINTWISE)
    divided = parse(text, depthwise=smoothing.into(_depthwise(parse, depthwise)), pointwise=POINTWISE)

    np.testing.assert_allclose(
        execute(divided, {"x": data / smoothing.along(4)})[0], execute(plain, {"x": data})[0], rtol=1e-4, atol=1e-5
    )


def test_a_tensor_that_layers_of_two_kinds_read_gets_one_scale(parse: Callable[..., ir.Model]) -> None:
    text = TWO_READERS.replace("Conv(x, pointwise)", "Conv(h, pointwise)")
    model = parse(text, depthwise=np.ones((4, 1, 3, 3), np.float32), pointwise=POINTWISE)
    one = place(model.graph, Settings.read(SETTINGS))
    both = place(model.graph, Settings.read({**SETTINGS, "layers": {"DepthwiseConv": "input", "Conv": "input"}}))

    assert set(by_channel([one])) == {"h"}
    assert not by_channel([both])
    assert not by_channel([one, both])


@pytest.mark.parametrize("magnitude", [1e-8, 1.0, 3e3, 3e4, 1e6])
def test_a_channel_keeps_its_signal_whatever_its_magnitude(
    parse: Callable[..., ir.Model], rng: np.random.Generator, magnitude: float
) -> None:
    """Normal numbers in steps of 8 bits have 40 dB."""
    data = (rng.normal(size=(1, 4, 4000)) * magnitude).astype(np.float32)
    layer = _depthwise(parse, np.ones((4, 1, 3, 3), np.float32))

    scales = channel_scales(_counted(data), [layer], Settings.read(SETTINGS).preparation)

    factors = scales.smoothing.along(3)
    error = (scales.params.rounded(data / factors) * factors - data) / magnitude
    assert 10 * np.log10(np.mean((data / magnitude) ** 2) / np.mean(error**2)) > 38
