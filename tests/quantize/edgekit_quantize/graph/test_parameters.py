from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.graph.layers import layers
from edgekit_quantize.graph.parameters import add_to_bias, has_bias
from edgekit_quantize.prepare import prepared


@pytest.mark.parametrize(("channels", "shape"), [(3, (3,)), (3, (1, 3)), (1, ()), (1, (1,)), (1, (1, 1))])
def test_a_shift_is_added_behind_a_product_in_the_shape_that_stands_there(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    channels: int,
    shape: tuple[int, ...],
) -> None:
    """The intercept of a support vector machine with one output is a scalar."""
    weights, bias = rng.normal(size=(4, channels)).astype(np.float32), rng.normal(size=shape).astype(np.float32)
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x) => (float[2, N] y) { m = MatMul (x, w) y = Add (m, b) }""",
        w=weights,
        b=bias,
    )
    (layer,) = layers(model.graph)
    assert has_bias(layer)

    assert add_to_bias(model.graph, layer, np.arange(1, channels + 1))

    x = rng.normal(size=(2, 4)).astype(np.float32)
    expected = x @ weights + bias + np.arange(1, channels + 1)
    np.testing.assert_allclose(execute(model, {"x": x})[0], expected, rtol=1e-5, atol=1e-6)
    made = {tuple(value.const_value.shape.numpy()) for value in model.graph.initializers.values()}
    assert made == {(4, channels), shape}


@pytest.mark.parametrize(("shape", "has"), [((3, 1), True), ((3,), False)], ids=["one a row", "one a column"])
def test_a_product_whose_weights_come_first_has_a_bias_for_each_row(
    parse: Callable[..., ir.Model], shape: tuple[int, ...], has: bool
) -> None:
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[4, 3] x) => (float[3, 3] y) { m = MatMul (w, x) y = Add (m, b) }""",
        w=np.ones((3, 4), np.float32),
        b=np.ones(shape, np.float32),
    )
    (layer,) = layers(model.graph)
    assert has_bias(layer) == has


def test_weights_that_are_outputs_too_stay_what_they_are(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    """A model may return its table of words, or its prototypes, which it multiplies with."""
    weights, bias = rng.normal(size=(4, 3)).astype(np.float32), rng.normal(size=3).astype(np.float32)
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 4] x) => (float[2, 3] y, float[4, 3] w, float[3] b) { m = Gemm (x, w, b) y = Mul (m, three) }""",
        w=weights,
        b=bias,
        three=np.array(3, np.float32),
    )
    x = rng.normal(size=(2, 4)).astype(np.float32)

    changed = prepared(model)

    assert [node.op_type for node in changed.graph] == ["Gemm"]
    product, *constants = execute(changed, {"x": x})
    np.testing.assert_allclose(product, 3 * (x @ weights + bias), rtol=1e-5, atol=1e-5)
    for found, expected in zip(constants, (weights, bias), strict=True):
        np.testing.assert_array_equal(found, expected)
