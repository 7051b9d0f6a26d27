"""What storing the weights of one layer adds to a model's outputs."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search import stored_noise
from edgekit_quantize.search.stored_noise import noise_of_stored

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x) => (float[1, 4] p) {
  a = MatMul(x, w)
  r = Relu(a)
  b = MatMul(r, v)
  p = Sigmoid(b)
}"""


@pytest.fixture
def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    return {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "wv"}


@pytest.fixture
def stored(parse: Callable[..., ir.Model], weights: dict[str, np.ndarray]) -> Callable[[Collection[str]], ir.Model]:
    """A model whose weights are rounded to quarters, except for the given ones."""
    return lambda in_float: parse(
        MODEL, **{name: w if name in in_float else quarters(w) for name, w in weights.items()}
    )


def quarters(array: np.ndarray) -> np.ndarray:
    return (np.rint(array * 4) / 4).astype(np.float32)


def test_the_error_of_each_layer_is_that_of_its_rounded_weights_before_the_sigmoid(
    rng: np.random.Generator, weights: dict[str, np.ndarray], stored: Callable[[Collection[str]], ir.Model]
) -> None:
    samples = [{"x": rng.normal(size=(1, 4)).astype(np.float32)} for _ in range(4)]
    noises = noise_of_stored(stored("wv"), "wv", stored, References.of([Reference(feeds, {}) for feeds in samples]))

    x, (w, v) = np.concatenate([feeds["x"] for feeds in samples]), weights.values()
    right = np.maximum(x @ w, 0) @ v
    wrong = {"w": np.maximum(x @ quarters(w), 0) @ v, "v": np.maximum(x @ w, 0) @ quarters(v)}
    variance = np.sum((right - right.mean(0)) ** 2)
    expected = {name: np.sum((found - right) ** 2) / variance for name, found in wrong.items()}
    assert noises == {name: pytest.approx(noise, rel=1e-4) for name, noise in expected.items()}


@pytest.mark.parametrize("limit", ["MOST_BYTES", "MOST_WORK"])
def test_nothing_is_measured_if_that_takes_too_long(
    stored: Callable[[Collection[str]], ir.Model], monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    references = References.of([Reference({"x": np.ones((1, 4), np.float32)}, {})])
    assert noise_of_stored(stored("wv"), "wv", stored, references)
    monkeypatch.setattr(stored_noise, limit, 255)  # 128 bytes of weights for each of two layers
    assert noise_of_stored(stored("wv"), "wv", stored, references) == {}
