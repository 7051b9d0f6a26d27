"""Biases that are kept from being fused with the product before them, against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.graph.layers import layers
from edgekit_quantize.graph.nodes import Names
from edgekit_quantize.writing.bias_apart import set_bias_apart

WEIGHTS_LAST = "m = MatMul (x, w) y = Add (m, b)"
WEIGHTS_FIRST = "m = MatMul (w, x) y = Add (b, m)"


@pytest.mark.parametrize(
    ("body", "sizes", "weights", "bias"),
    [
        (WEIGHTS_LAST, (2, 5, 4), (4, 3), (3,)),
        (WEIGHTS_LAST, (2, 5, 4), (4, 3), (1, 3)),
        (WEIGHTS_LAST, (2, 5, 4), (4, 3), (5, 1)),
        (WEIGHTS_LAST, (2, 5, 4), (4, 3), (5, 3)),
        (WEIGHTS_LAST, (2, 5, 4), (4, 3), ()),
        (WEIGHTS_LAST, (5, 4), (4, 3), (3,)),
        (WEIGHTS_FIRST, (2, 4, 5), (3, 4), (3, 1)),
        (WEIGHTS_FIRST, (2, 4, 5), (3, 4), (5,)),
        (WEIGHTS_FIRST, (4, 5), (3, 4), (3, 1)),
    ],
)
def test_a_bias_of_any_shape_stays_what_it_is(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    body: str,
    sizes: tuple[int, ...],
    weights: tuple[int, ...],
    bias: tuple[int, ...],
) -> None:
    """A state space model multiplies its weights from the left, and adds one number a row."""
    w, b, x = (rng.normal(size=size).astype(np.float32) for size in (weights, bias, sizes))
    shape, rank = ", ".join(map(str, sizes)), ", ".join("ABC"[: len(sizes)])
    graph = f"g (float[{shape}] x) => (float[{rank}] y) {{ {body} }}"
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> {graph}', w=w, b=np.asarray(b))
    (layer,) = layers(model.graph)
    layer.output.shape = ir.Shape(sizes)

    set_bias_apart(layer, Names(model.graph))

    expected = (x @ w if body == WEIGHTS_LAST else w @ x) + b
    np.testing.assert_allclose(execute(model, {"x": x})[0], expected, rtol=1e-5, atol=1e-6)
    adding = next(node for node in model.graph if node.op_type in ("Add", "Sub"))
    (added,) = (value for value in adding.inputs if value is not layer.output)
    assert adding.op_type == ("Add" if len(sizes) == 3 else "Sub")
    assert len(sizes) == 2 or added.const_value.shape.rank() == 3


def test_what_another_node_adds_is_subtracted_with_the_other_sign(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    """The cell of an unrolled recurrent layer adds two products; ONNX Runtime fuses the sum with one of them."""
    w, u = (rng.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
    x, h = (rng.normal(size=(1, 4)).astype(np.float32) for _ in range(2))
    graph = "g (float[1, 4] x, float[1, 4] h) => (float[1, 3] y) { m = MatMul (x, w) n = MatMul (h, u) y = Add (m, n) }"
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> {graph}', w=w, u=u)
    names = Names(model.graph)
    found = list(layers(model.graph))
    for layer in found:
        layer.output.shape = ir.Shape((1, 3))

    for layer in found:
        set_bias_apart(layer, names)

    np.testing.assert_allclose(execute(model, {"x": x, "h": h})[0], x @ w + h @ u, rtol=1e-5, atol=1e-6)
    assert [node.op_type for node in model.graph] == ["MatMul", "MatMul", "Neg", "Sub"]
