from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.prepare import prepared

HEAD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[2, 5, 1] mask, float[2, 5, 7] x) => ({outputs})
<int64[3] shape = {{2, 5, 7}}, int64[1] one = {{1}}, int64[1] two = {{2}}, float tiny = {{1e-9}}>
"""
POOLED = """{
  wide = Expand(mask, shape)
  weights = Cast<to = 1>(wide)
  kept = Mul(x, weights)
  total = ReduceSum<keepdims = 0>(kept, one)
  count = ReduceSum<keepdims = 0>(weights, one)
  safe = Clip(count, tiny)
  y = Div(total, safe)
}"""


def _run(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    outputs: str,
    body: str,
) -> int:
    """Prepares a model, asserts that it computes the same, and returns how many Expands are left."""
    model = parse(HEAD.format(outputs=outputs) + body)
    feeds = {
        "mask": rng.integers(0, 2, (2, 5, 1)).astype(np.float32),
        "x": rng.normal(size=(2, 5, 7)).astype(np.float32),
    }
    result = prepared(model)
    for found, expected in zip(execute(result, feeds), execute(model, feeds), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    return sum(node.op_type == "Expand" for node in result.graph)


def test_pooling_under_a_mask_needs_no_wide_mask(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    assert _run(parse, execute, rng, "float[2, 7] y", POOLED) == 0


def test_a_shape_that_is_computed_from_a_shape_counts_as_known(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    computed = """{
      s = Shape(x)
      ones = ConstantOfShape<value = int64[1] {1}>(rank)
      minus = Mul(ones, less)
      found = Equal(s, minus)
      chosen = Where(found, ones, s)
      wide = Expand(mask, chosen)
      y = Mul(x, wide)
    }"""
    head = HEAD.replace("float tiny", "int64[1] rank = {{3}}, int64[1] less = {{-1}}, float tiny")
    model = parse(head.format(outputs="float[2, 5, 7] y") + computed)

    assert [node.op_type for node in prepared(model).graph] == ["Mul"]


@pytest.mark.parametrize(
    ("outputs", "body"),
    [
        ("float[2, 5, 7] y", "{ y = Expand(mask, shape) }"),
        ("float[2, 5, 7] y", "{ root = Abs(x)  y = Expand(root, shape) }"),
        ("float[2, 5, 7] y", "{ wide = Expand(mask, shape)  y = Sqrt(wide) }"),
        ("float[2, 5, 7] y", "{ wide = Expand(mask, shape)  y = Mul(wide, wide) }"),
        ("float[2, 5] y", "{ wide = Expand(mask, shape)  y = ReduceSum<keepdims = 0>(wide, two) }"),
        ("float[2, 5, 7] y", "{ wide = Expand(mask, shape)  root = Sqrt(wide)  y = Add(root, wide) }"),
        ("float[2, 5, 7] y", "{ wide = Expand(mask, shape)  y = Softmax<axis = 1>(wide) }"),
    ],
)
def test_an_expand_that_shows_stays(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    outputs: str,
    body: str,
) -> None:
    assert _run(parse, execute, rng, outputs, body) == 1
