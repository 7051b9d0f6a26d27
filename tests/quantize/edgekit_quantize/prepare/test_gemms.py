"""Gemm as MatMul and Add: the same numbers, and integers where ONNX Runtime multiplies them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.prepare import prepared
from edgekit_quantize.prepare.gemms import split_gemms

HEAD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 6] x) => (float[N, 4] y)
"""
SPLIT = {
    "plain": ("{ y = Gemm(x, w, b) }", {"w": (6, 4), "b": (4,)}, ["MatMul", "Add"]),
    "transposed": ("{ y = Gemm<transB = 1>(x, w, b) }", {"w": (4, 6), "b": (1, 4)}, ["MatMul", "Add"]),
    "scaled": (
        "{ y = Gemm<transB = 1, alpha = 0.5, beta = 3.0>(x, w, b) }",
        {"w": (4, 6), "b": (4,)},
        ["MatMul", "Add"],
    ),
    "without a bias": ("{ y = Gemm<alpha = 2.0>(x, w) }", {"w": (6, 4)}, ["MatMul"]),
    "one matrix twice": (
        "{ h = Gemm<transB = 1>(x, w, b) i = Relu(h) y = Gemm<transB = 1>(i, w, b) }",
        {"w": (6, 6), "b": (6,)},
        ["MatMul", "Add", "Relu", "MatMul", "Add"],
    ),
}
WHOLE = {
    "a scalar": ("{ y = Gemm(x, w, b) }", {"w": (6, 4), "b": ()}),
    "rows of its own": ("{ y = Gemm(x, w, b) }", {"w": (6, 4), "b": (3, 4)}),
    "a column": ("{ y = Gemm(x, w, b) }", {"w": (6, 4), "b": (3, 1)}),
    "a computed matrix": ("{ v = Neg(w) y = Gemm(x, v, b) }", {"w": (6, 4), "b": (4,)}),
}


def built(
    parse: Callable[..., ir.Model], rng: np.random.Generator, body: str, shapes: dict[str, tuple[int, ...]]
) -> tuple[ir.Model, dict[str, np.ndarray]]:
    head = HEAD if shapes["w"] != (6, 6) else HEAD.replace("[N, 4]", "[N, 6]")
    model = parse(head + body, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})
    return model, {"x": rng.normal(size=(3, 6)).astype(np.float32)}


@pytest.mark.parametrize("case", SPLIT)
def test_a_layer_computes_the_same(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, case: str
) -> None:
    body, shapes, operators = SPLIT[case]
    model, data = built(parse, rng, body, shapes)
    expected = execute(model, data)[0]
    model = prepared(model)

    assert split_gemms(model) == Counter(operators)["MatMul"]

    np.testing.assert_allclose(execute(model, data)[0], expected, rtol=1e-5, atol=1e-5)
    assert [node.op_type for node in model.graph] == operators
    assert [value.name for value in model.graph.outputs] == ["y"]
    assert len([name for name in model.graph.initializers if "product" in name]) == 1


@pytest.mark.parametrize("case", WHOLE)
def test_what_is_no_layer_stays(parse: Callable[..., ir.Model], rng: np.random.Generator, case: str) -> None:
    model, _ = built(parse, rng, *WHOLE[case])

    assert split_gemms(model) == 0
    assert "Gemm" in [node.op_type for node in model.graph]
