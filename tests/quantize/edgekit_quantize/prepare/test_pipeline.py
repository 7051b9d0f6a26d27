"""Preparation changes what a graph consists of, never what it computes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.errors import InputError
from edgekit_quantize.prepare import prepared

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 4, 6, 6] x) => (float[2, A, B, C] y) '
CASES = {
    "batch normalization": (
        "{ c = Conv<pads = [1, 1, 1, 1]>(x, w)"
        "  y = BatchNormalization<epsilon = 0.001>(c, gamma, beta, mean, variance) }",
        {"w": (4, 4, 3, 3)},
        {"Conv": 1},
    ),
    "batch normalization behind grouped transposed convolution": (
        "{ c = ConvTranspose<group = 2>(x, w)  y = BatchNormalization(c, gamma, beta, mean, variance) }",
        {"w": (4, 2, 3, 3)},
        {"ConvTranspose": 1},
    ),
    "scale and shift behind": (
        "{ c = Conv(x, w, b)  m = Mul(factor, c)  y = Sub(shift, m) }",
        {"w": (4, 1, 3, 3), "b": (4,), "factor": (4, 1, 1), "shift": (1, 4, 1, 1)},
        {"Conv": 1},
    ),
    "scale and shift before an unpadded convolution": (
        "{ m = Mul(x, factor)  s = Add(m, shift)  y = Conv(s, w, b) }",
        {"w": (5, 4, 3, 3), "b": (5,), "factor": (1,), "shift": ()},
        {"Conv": 1},
    ),
    "shift before a padded convolution stays": (
        "{ s = Add(x, shift)  y = Conv<pads = [1, 1, 1, 1]>(s, w) }",
        {"w": (5, 4, 3, 3), "shift": ()},
        {"Add": 1, "Conv": 1},
    ),
    "written-out HardSwish": (
        "{ s = Add(x, three)  c = Clip(s, zero, six)  p = Mul(x, c)  h = Div(p, six)  y = Conv(h, w) }",
        {"w": (5, 4, 3, 3)},
        {"HardSwish": 1, "Conv": 1},
    ),
    "HardSwish from HardSigmoid": (
        "{ g = HardSigmoid<alpha = 0.16666667, beta = 0.5>(x)  y = Mul(x, g) }",
        {},
        {"HardSwish": 1},
    ),
    "another slope is no HardSwish": (
        "{ g = HardSigmoid<alpha = 0.2, beta = 0.5>(x)  y = Mul(x, g) }",
        {},
        {"HardSigmoid": 1, "Mul": 1},
    ),
    "HardSigmoid behind a convolution": (
        "{ c = Conv(x, w, b)  g = HardSigmoid<alpha = 0.25>(c)  y = Mul(g, six) }",
        {"w": (4, 4, 1, 1), "b": (4,)},
        {"Conv": 1, "Clip": 1, "Mul": 1},
    ),
    "HardSigmoid of what others read too": (
        "{ c = Conv(x, w)  g = HardSigmoid(c)  y = Add(g, c) }",
        {"w": (4, 4, 1, 1)},
        {"Conv": 1, "HardSigmoid": 1, "Add": 1},
    ),
    "weights by way of Transpose": (
        "{ t = Transpose<perm = [3, 2, 0, 1]>(w)  y = Conv(x, t) }",
        {"w": (3, 3, 4, 5)},
        {"Conv": 1},
    ),
    "constants that gates are made of stay apart": (
        "{ g = Sigmoid(x)  p = Mul(x, g)  m = Mul(p, factor)  y = Conv(m, w) }",
        {"w": (5, 4, 3, 3), "factor": (1,)},
        {"Sigmoid": 1, "Mul": 2, "Conv": 1},
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("shifts", [False, True])
def test_the_graph_computes_the_same_with_fewer_operators(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    case: str,
    shifts: bool,
) -> None:
    body, shapes, operators = CASES[case]
    constants = {name: rng.normal(1, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    wide = {name: rng.uniform(0.5, 2, 4).astype(np.float32) for name in ("gamma", "beta", "mean", "variance")}
    numbers = {name: np.array(value, np.float32) for name, value in (("zero", 0), ("three", 3), ("six", 6))}
    used = {name: array for name, array in {**constants, **wide, **numbers}.items() if name in body}
    if case == "scale and shift behind":
        body = body.replace("Conv(", "Conv<group = 4>(")
    model = parse(HEAD + body, **used)
    data = {"x": rng.normal(0, 3, (2, 4, 6, 6)).astype(np.float32)}

    result = prepared(model, padded_shifts_as_convolutions=shifts)

    np.testing.assert_allclose(execute(result, data)[0], execute(model, data)[0], rtol=1e-4, atol=2e-5)
    if not shifts:
        assert Counter(node.op_type for node in result.graph) == operators
    assert [value.name for value in result.graph.outputs] == ["y"]


def test_the_original_is_left_alone(parse: Callable[..., ir.Model], rng: np.random.Generator) -> None:
    body, shapes, _ = CASES["scale and shift behind"]
    constants = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    model = parse(HEAD + body.replace("Conv(", "Conv<group = 4>("), **constants)
    before = ir.to_proto(model).SerializeToString()

    prepared(model)

    assert ir.to_proto(model).SerializeToString() == before


def test_a_shift_before_a_padded_convolution_becomes_a_convolution(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    body, shapes, _ = CASES["shift before a padded convolution stays"]
    model = parse(HEAD + body, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()})

    result = prepared(model, padded_shifts_as_convolutions=True)

    assert [node.op_type for node in result.graph] == ["Conv", "Conv"]


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        ("f = Erf(d)  s = Add(f, one)", ["Div", "Erf", "Add", "Mul", "Mul", "Conv"]),
        ("f = Tanh(d)  s = Add(one, f)", ["Div", "Tanh", "Add", "Mul", "Mul", "Conv"]),
        ("s = Sigmoid(d)", ["Div", "Sigmoid", "Mul", "Conv", "Conv"]),
    ],
)
def test_the_half_of_a_gelu_is_no_convolution(
    parse: Callable[..., ir.Model], function: str, operators: list[str]
) -> None:
    """ONNX Runtime computes a GELU at once where its last multiplication is one."""
    text = HEAD + f"{{ d = Div(x, root)  {function}  p = Mul(x, s)  m = Mul(p, half)  y = Conv(m, w) }}"
    numbers = {"root": 2**0.5, "one": 1, "half": 0.5}
    constants = {name: np.array(number, np.float32) for name, number in numbers.items() if name in text}
    model = parse(text, w=np.ones((5, 4, 3, 3), np.float32), **constants)

    result = prepared(model, padded_shifts_as_convolutions=True)

    assert [node.op_type for node in result.graph] == operators


def test_weights_that_two_layers_share_are_folded_for_one_only(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    text = HEAD + "{ c = Conv(x, w)  m = Mul(c, factor)  d = Conv(x, w)  y = Add(m, d) }"
    model = parse(text, w=rng.normal(size=(4, 4, 3, 3)).astype(np.float32), factor=np.array([3.0], np.float32))
    data = {"x": rng.normal(size=(2, 4, 6, 6)).astype(np.float32)}

    np.testing.assert_allclose(execute(prepared(model), data)[0], execute(model, data)[0], rtol=1e-4, atol=1e-4)


def test_an_old_opset_is_upgraded(parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]]) -> None:
    text = '<ir_version: 4, opset_import: ["" : 9]> g (float[1, 4] x) => (float[1, 4] y) { y = Softmax(x) }'

    assert prepared(parse(text)).opset_imports[""] >= 13


def test_an_opset_that_cannot_be_upgraded_is_refused(parse: Callable[..., ir.Model]) -> None:
    text = """<ir_version: 4, opset_import: ["" : 9]>
    g (float[1, 4, 5, 5] x) => (float[1, 4, 10, 10] y) { y = Upsample(x, s) }"""
    model = parse(text, s=np.array([1, 1, 2, 2], np.float32))
    model.opset_imports[""] = 6

    with pytest.raises(InputError, match="cannot be upgraded") as caught:
        prepared(model)
    assert "opset_version=13" in str(caught.value)


def test_a_small_table_is_not_made_a_large_constant(parse: Callable[..., ir.Model]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 500, 500] x) => (float[1, 500, 500] y) { m = Equal(row, column)  y = Where(m, x, zero) }"""
    numbers = np.arange(500)
    constants = {"row": numbers.reshape(1, -1), "column": numbers.reshape(-1, 1), "zero": np.zeros((), np.float32)}

    model = prepared(parse(text, **constants))

    assert Counter(node.op_type for node in model.graph) == {"Equal": 1, "Where": 1}


def test_scalars_that_are_folded_stay_scalars(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]]
) -> None:
    """A vector in their place has a dimension too many behind an Unsqueeze."""
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[3, 4] x) => (float[2, 6] y)
        <int64 first = {0}, int64 one = {1}, int64[1] axes = {0}, int64[1] rest = {-1}> {
            shape = Shape (x)
            rows = Gather (shape, first)
            fewer = Sub (rows, one)
            size = Unsqueeze (fewer, axes)
            wanted = Concat <axis = 0> (size, rest)
            y = Reshape (x, wanted)
        }"""
    )
    result = prepared(model)
    assert [node.op_type for node in result.graph] == ["Reshape"]
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
    np.testing.assert_array_equal(execute(result, feeds)[0], execute(model, feeds)[0])
