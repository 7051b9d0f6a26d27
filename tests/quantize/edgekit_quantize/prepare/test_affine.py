"""Multiplications and additions of constants are moved only where the ranks of the remaining values stay."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.prepare import prepared

RAISING = {
    "a factor of 1 that adds an axis": (
        "(float[4] x) => (float[1, 4] y)",
        "{ m = Mul(ones, x)  y = Exp(m) }",
        {"ones": np.ones((1, 1))},
    ),
    "a shift of 0 that adds an axis": (
        "(float[4] x) => (float[1, 4] y)",
        "{ s = Add(x, zeros)  y = Exp(s) }",
        {"zeros": np.zeros((1, 1))},
    ),
    "a factor before a matrix product": (
        "(float[4] x) => (float[1, 3] y)",
        "{ m = Mul(x, half)  y = MatMul(m, w) }",
        {"half": np.full((1, 1), 0.5), "w": np.linspace(-1, 1, 12).reshape(4, 3)},
    ),
    "a factor behind a matrix product": (
        "(float[2, 4] x) => (float[1, 2, 3] y)",
        "{ p = MatMul(x, w)  y = Mul(p, half) }",
        {"half": np.full((1, 1, 1), 0.5), "w": np.linspace(-1, 1, 12).reshape(4, 3)},
    ),
    "a factor of 1 for a number without axes": (
        "(float x) => (float[1] y)",
        "{ m = Mul(x, ones)  y = Exp(m) }",
        {"ones": np.ones(1)},
    ),
}


@pytest.mark.parametrize("name", RAISING)
def test_a_constant_of_higher_rank_stays(
    name: str, parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    signature, body, constants = RAISING[name]
    arrays = {key: array.astype(np.float32) for key, array in constants.items()}
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> g {signature} {body}', **arrays)
    shape = model.graph.inputs[0].shape
    assert shape is not None
    feeds = {"x": np.asarray(rng.normal(size=shape.numpy()), np.float32)}
    (expected,) = execute(model, feeds)
    result = prepared(model)
    (found,) = execute(result, feeds)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    told = {value.name: value.shape for node in result.graph for value in node.outputs}
    assert told["y"] == ir.Shape(expected.shape)


def test_shapes_inside_stay_those_that_are_computed(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]]
) -> None:
    body = "{ m = Mul(ones, x)  p = Exp(m)  y = Add(p, wide) }"
    arrays = {"ones": np.ones((1, 1), np.float32), "wide": np.zeros((1, 4), np.float32)}
    result = prepared(
        parse(f'<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[1, 4] y) {body}', **arrays)
    )
    inner = next(node.outputs[0] for node in result.graph if node.op_type == "Exp")
    assert inner.shape is not None
    result.graph.outputs.append(inner)
    found = execute(result, {"x": np.zeros(4, np.float32)})
    assert found[-1].shape == tuple(inner.shape.numpy())
