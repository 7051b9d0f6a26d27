"""Double precision tells what a model's own rounding is, and hides no fault."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.execution.double_precision import doubled, in_double
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import Reference
from edgekit.execution.rounding import is_rounding
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]

SMALL = np.array([2.9e-4, -1.3e-3, 7.7e-5, 4.1e-4], np.float32)
THERE_AND_BACK = "g (float[4] x) => (float[4] y) { e = Exp (small) l = Log (e) y = Add (x, l) }"
FOLDED = "g (float[4] x) => (float[4] y) { y = Add (x, l) }"


def read(proto: onnx.ModelProto) -> Model:
    return Model(ir.from_proto(proto))


def test_a_graph_computes_in_double_precision(onnx_model: OnnxModel) -> None:
    graph = """g (float[4] x) => (float[4] y) {
        half = Cast <to = 10> (x)
        again = Cast <to = 1> (half)
        third = Constant <value_float = 0.333333343267> ()
        scaled = Mul (again, third)
        y = Add (scaled, w)
    }"""
    model = read(onnx_model(graph, w=SMALL))
    x = np.array([1e-9, 1 + 1e-7, 3, -5], np.float32)
    found = Reference(in_double(model)).run(doubled({"x": x}))["y"]
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, x.astype(np.float64) * np.float32(1 / 3) + SMALL.astype(np.float64), rtol=1e-8)
    assert model.inputs[0].dtype == "float32"


def test_a_logarithm_of_an_exponential_near_one_may_be_folded_with_other_digits(onnx_model: OnnxModel) -> None:
    """Half of a unit in the last place of 1 is 6e-8, 2e-4 of such logarithms."""
    before = read(onnx_model(THERE_AND_BACK, small=SMALL))
    logarithms = Reference(before).run({"x": np.zeros(4, np.float32)})["y"]
    other_digits = logarithms + np.float32(6e-8) * np.array([1, -1, 1, -1], np.float32)
    assert Equivalence(before).difference(read(onnx_model(FOLDED, l=other_digits))) is None


@pytest.mark.parametrize("wrong", [SMALL * 1.01, SMALL + np.float32(3e-6), np.zeros(4, np.float32)])
def test_what_rounding_does_not_explain_is_told(onnx_model: OnnxModel, wrong: np.ndarray) -> None:
    before = read(onnx_model(THERE_AND_BACK, small=SMALL))
    assert Equivalence(before).difference(read(onnx_model(FOLDED, l=wrong))) is not None


def test_integers_are_not_excused_by_double_precision() -> None:
    places, others = np.arange(4), np.array([0, 1, 3, 2])
    assert not is_rounding(places, others, [places], exact=lambda: others)
    numbers = np.array([1.0, 2.0], np.float32)
    assert not is_rounding(numbers, numbers + 1, [numbers], exact=lambda: numbers.astype(np.float64))
    assert is_rounding(numbers, numbers + 1, [numbers], exact=lambda: numbers + 0.25)


def test_no_more_executions_are_asked_for_than_explain_the_difference() -> None:
    def perturbed() -> Iterator[np.ndarray]:
        yield numbers + np.float32(0.001)
        yield numbers + np.float32(0.5)
        raise AssertionError("one more was asked for")

    numbers = np.array([1.0, 2.0], np.float32)
    assert is_rounding(numbers, numbers + 1, perturbed())
    assert not is_rounding(numbers, numbers + 9, [numbers + np.float32(0.5)] * 3)
