"""Arc sines and cosines of numbers that rounding has taken beyond 1, by hand and by the ONNX standard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.model import Model
from edgekit.stages.load import Load
from edgekit.stages.simplify import Simplify

NEXT = np.nextafter(np.float32(1), np.float32(2))  # 1.0000001
GRAPH = "g (float[N] x) => (float[N] y) {{ n = Neg (x) y = {arc} (n) }}"


def simplified(path: Path) -> Model:
    return Simplify().run(Load()(path).model).model


@pytest.mark.parametrize(("opset", "arc"), [(9, "Acos"), (13, "Acos"), (17, "Asin")])
def test_numbers_at_the_edge_stay_finite_and_others_are_what_they_were(
    opset: int, arc: str, onnx_file: Callable[..., Path]
) -> None:
    path = onnx_file(GRAPH.format(arc=arc), opset=opset)
    inside = np.linspace(-1, 1, 9, dtype=np.float32)
    beyond = np.array([1.00001, -1.5, np.inf, np.nan], np.float32)
    x = np.concatenate([[NEXT, -NEXT], inside, beyond]).astype(np.float32)

    (y,) = ReferenceEvaluator(simplified(path).proto()).run(None, {"x": x})

    edges = [np.pi, 0.0] if arc == "Acos" else [-np.pi / 2, np.pi / 2]
    np.testing.assert_allclose(y[:2], edges, atol=1e-6)
    (expected,) = ReferenceEvaluator(str(path)).run(None, {"x": x[2:]})
    np.testing.assert_allclose(y[2:], expected, atol=1e-6)
    assert np.isnan(y[-len(beyond) :]).all()


def test_what_is_bounded_is_left_alone(onnx_file: Callable[..., Path]) -> None:
    path = onnx_file("g (float[N] x) => (float[N] y) { t = Tanh (x) y = Acos (t) }")
    assert [node.op_type for node in simplified(path).graph] == ["Tanh", "Acos"]


def test_a_second_time_changes_nothing(onnx_file: Callable[..., Path]) -> None:
    once = simplified(onnx_file(GRAPH.format(arc="Acos")))
    again = Simplify().run(once).model
    assert [node.op_type for node in again.graph] == [node.op_type for node in once.graph]
