"""What rounding the weights of one layer adds to a model's outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.placement import place
from edgekit_quantize.search.weight_noise import FedModel, noise_of_weights
from edgekit_quantize.settings import Preparation, Settings

WITH_BRANCH = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x, bool b) => (float[1, 3] y, float[1, 3] z, float[1, 3] r) {
  m = MatMul(x, w)
  y = Softmax(m)
  z = Sigmoid(m)
  r = If(b) <then_branch = t () => (float[1, 3] p) { p = MatMul(x, v) },
             else_branch = e () => (float[1, 3] q) { q = Relu(m) }>
}"""


def test_errors_are_measured_before_they_are_swallowed(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    w, v, x = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (4, 3), (1, 4)))

    fed = FedModel(parse(WITH_BRANCH, w=w, v=v), ["w", "v"])
    found = fed.run({"x": x, "b": np.array(True)}, {"v": 2 * v})

    assert [*found] == ["m", "r"]
    np.testing.assert_allclose(found["m"], x @ w, rtol=1e-5)
    np.testing.assert_allclose(found["r"], 2 * x @ v, rtol=1e-5)


CONVOLUTIONS = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 16, 5, 5] x) => (float[1, 8, 5, 5] y) {
  [first] a = Conv(x, w)
  r = Relu(a)
  [second] y = Conv(r, v, b)
}"""
SETTINGS = Settings(Preparation(ranges={"Conv": "minmax"}), layers={"Conv": "input"}, sums_in_int16=False)


def rounded(weights: np.ndarray) -> np.ndarray:
    """In 127 steps between zero and the largest number of each output channel."""
    scale = np.abs(weights).max((1, 2, 3), keepdims=True) / 127
    return (np.rint(weights / scale) * scale).astype(np.float32)


def by_channel(weights: np.ndarray, picture: np.ndarray) -> np.ndarray:
    """A convolution of 1 × 1."""
    return np.einsum("oc,ncij->noij", weights[:, :, 0, 0], picture)


def test_the_error_of_each_layer_is_that_of_its_rounded_weights_with_what_the_bias_takes_up(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    w, v = (rng.normal(size=(*shape, 1, 1)).astype(np.float32) for shape in ((64, 16), (8, 64)))
    b = rng.normal(size=8).astype(np.float32)
    model = parse(CONVOLUTIONS, w=w, v=v, b=b)
    samples = [{"x": rng.normal(size=(1, 16, 5, 5)).astype(np.float32)} for _ in range(4)]
    plan = place(model.graph, SETTINGS)
    channels = dict.fromkeys(plan.observed(), (1,))
    tensors = calibrate(model, channels, ((feeds, None) for feeds in samples), 4).tensors
    references = References.of([Reference(feeds, {}) for feeds in samples])

    chosen = np.rint(w / (np.abs(w).max((1, 2, 3), keepdims=True) / 127)).astype(np.int8)
    chosen[0] = 0  # as nothing would be rounded
    nearest = noise_of_weights(model, plan, tensors, {}, references)
    with_chosen = noise_of_weights(model, plan, tensors, {"first": chosen}, references)

    x = np.concatenate([feeds["x"] for feeds in samples])
    hidden = np.maximum(by_channel(w, x), 0)
    right = by_channel(v, hidden)
    variance = np.sum((right - right.mean(0)) ** 2)

    def noise(found: np.ndarray) -> float:
        return float(np.sum((found - right) ** 2) / variance)

    coarse = rounded(w)
    error = by_channel(rounded(v) - v, hidden)
    taken_up = by_channel(rounded(v) - v, hidden.mean((0, 2, 3), keepdims=True))
    without = np.where(np.arange(64)[:, None, None, None] == 0, 0, coarse)
    assert nearest == {
        "first": pytest.approx(noise(by_channel(v, np.maximum(by_channel(coarse, x), 0))), rel=0.02),
        "second": pytest.approx(noise(right + error - taken_up), rel=0.02),
    }
    assert noise(right + error) > 1.02 * nearest["second"]
    assert with_chosen["first"] == pytest.approx(noise(by_channel(v, np.maximum(by_channel(without, x), 0))), rel=0.02)


def test_weights_that_two_layers_share_are_left_out(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 32] x) => (float[1, 32] y) {
          [first] a = MatMul(x, w)
          [second] b = MatMul(a, w)
          [third] y = MatMul(b, v)
        }""",
        **{name: rng.normal(size=(32, 32)).astype(np.float32) for name in "wv"},
    )
    settings = Settings(layers={"MatMul": "weights"})
    references = References.of([Reference({"x": np.ones((1, 32), np.float32)}, {})])

    assert [*noise_of_weights(model, place(model.graph, settings), {}, {}, references)] == ["third"]
