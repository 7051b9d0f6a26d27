from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.graph.layers import layers
from edgekit_quantize.prepare.equalize import FARTHEST, equalize

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 3, 8, 8] x) => (float[1, M, H, W] y) {{
  a = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
  r = {activation}(a)
  d = Conv<group = 4, pads = [1, 1, 1, 1]>(r, w2, b2)
  s = Relu(d)
  y = Conv(s, w3)
}}"""


def _model(parse: Callable[..., ir.Model], rng: np.random.Generator, activation: str = "Relu") -> ir.Model:
    spread = np.array([0.01, 1.0, 30.0, 0.2], np.float32)
    shapes = {"w2": (4, 1, 3, 3), "b1": (4,), "b2": (4,), "w3": (5, 4, 1, 1)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    w1 = rng.normal(size=(4, 3, 3, 3)).astype(np.float32) * spread.reshape(-1, 1, 1, 1)
    return parse(TEXT.format(activation=activation), w1=w1, **arrays)


def test_the_network_computes_the_same(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    model = _model(parse, rng)
    data = {"x": rng.normal(size=(1, 3, 8, 8)).astype(np.float32)}
    expected = execute(model, data)[0]

    assert equalize(model.graph) == 2
    np.testing.assert_allclose(execute(model, data)[0], expected, rtol=1e-3, atol=1e-4)


def test_ranges_of_a_channel_become_equal(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    model = _model(parse, rng)

    equalize(model.graph)

    first, second, third = (np.abs(layer.weights()) for layer in layers(model.graph))
    np.testing.assert_allclose(first.max((1, 2, 3)), second.max((1, 2, 3)), rtol=1e-2)
    np.testing.assert_allclose(second.max((1, 2, 3)), third.max((0, 2, 3)), rtol=1e-2)


def test_nothing_passes_a_function_that_is_not_homogeneous(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    assert equalize(_model(parse, rng, "HardSwish").graph) == 1


def test_no_channel_is_scaled_by_more_than_is_safe(parse: Callable[..., ir.Model]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 1, 1, 1] x) => (float[1, 1, 1, 1] y) { a = Conv(x, w1)  r = Relu(a)  y = Conv(r, w2) }"""
    tiny, huge = np.array([1e-9, 1.0], np.float32), np.array([1e9, 1.0], np.float32)
    model = parse(text, w1=tiny.reshape(2, 1, 1, 1), w2=huge.reshape(1, 2, 1, 1))

    equalize(model.graph)

    first, second = layers(model.graph)  # the square root of 1e-9 / 1e9 is 1e-9
    assert first.weights()[0].item() == pytest.approx(1e-9 * FARTHEST)
    assert second.weights()[0, 0].item() == pytest.approx(1e9 / FARTHEST)


def test_one_pair_by_hand(parse: Callable[..., ir.Model]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 1, 1, 1] x) => (float[1, 1, 1, 1] y) { a = Conv(x, w1, b1)  r = Relu(a)  y = Conv(r, w2) }"""
    model = parse(
        text,
        w1=np.array([8.0, 1.0], np.float32).reshape(2, 1, 1, 1),
        b1=np.array([4.0, 1.0], np.float32),
        w2=np.array([2.0, 4.0], np.float32).reshape(1, 2, 1, 1),
    )

    equalize(model.graph)

    first, second = layers(model.graph)  # s = sqrt(8 / 2), sqrt(1 / 4)
    assert first.weights().reshape(-1).tolist() == pytest.approx([4.0, 2.0])
    assert second.weights().reshape(-1).tolist() == pytest.approx([4.0, 2.0])
    assert first.bias is not None
    assert first.bias.const_value is not None
    assert first.bias.const_value.numpy().tolist() == pytest.approx([2.0, 2.0])
