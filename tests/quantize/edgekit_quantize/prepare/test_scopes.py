"""Names and places of what stands in branches: nothing else of the model changes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit_quantize.prepare import prepared
from edgekit_quantize.prepare.scopes import name_values, sink_constants

MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2] x, bool b) => (float[2, 2] y) {
  y = If(b) <then_branch = t () => (float[2, 2] out) { a = MatMul(x, alone)  out = Add(a, both) },
             else_branch = e () => (float[2, 2] out) { a = Neg(x)  out = Add(a, both) }>
}"""
LSTM = """<ir_version: 8, opset_import: ["" : 17]> g (float[3, 1, 40] x, bool b) => (float[3, 1, 1, 20] y) {
  y = If(b) <then_branch = t () => (float[3, 1, 1, 20] p) {
               i = Slice(w, zero, one, axis)  o = Slice(w, three, four, axis)  f = Slice(w, one, three, axis)
               all = Concat<axis = 1>(i, o, f)
               p, h, c = LSTM<hidden_size = 20>(x, all, r) },
             else_branch = e () => (float[3, 1, 1, 20] q) { q = Identity(nothing) }>
}"""


@pytest.fixture
def model(parse: Callable[..., ir.Model], rng: np.random.Generator) -> ir.Model:
    return parse(MODEL, alone=rng.normal(size=(2, 2)).astype(np.float32), both=np.ones((2, 2), np.float32))


def test_every_value_has_a_name_of_its_own(model: ir.Model) -> None:
    name_values(model.graph)

    names = [value.name for node in model.graph.all_nodes() for value in node.outputs]
    assert len(set(names)) == len(names)
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


def test_a_constant_moves_into_the_branch_that_alone_reads_it(model: ir.Model) -> None:
    assert sink_constants(model.graph) == 1

    assert [*model.graph.initializers] == ["both"]
    assert [[*inner.initializers] for inner in model.graph.subgraphs()] == [["alone"], []]
    onnx.checker.check_model(ir.to_proto(model), full_check=True)


@pytest.mark.parametrize("taken", [True, False])
def test_neither_changes_what_is_computed(
    model: ir.Model, execute: Callable[..., list[np.ndarray]], rng: np.random.Generator, taken: bool
) -> None:
    feeds = {"x": rng.normal(size=(2, 2)).astype(np.float32), "b": np.array(taken)}

    np.testing.assert_array_equal(execute(prepared(model), feeds)[0], execute(model, feeds)[0])


def test_gates_that_an_exporter_puts_into_order_are_one_constant(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    places = {name: np.array([20 * number]) for number, name in enumerate(("zero", "one", "two", "three", "four"))}
    weights = {"w": (1, 80, 40), "r": (1, 80, 20), "nothing": (3, 1, 1, 20)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in weights.items()}
    model = parse(LSTM, axis=np.array([1]), **places, **arrays)

    made = prepared(model)

    inner = [node.op_type for node in made.graph.all_nodes()]
    assert sorted(inner) == ["Identity", "If", "LSTM"]
    feeds = {"x": rng.normal(size=(3, 1, 40)).astype(np.float32), "b": np.array(True)}
    np.testing.assert_array_equal(execute(made, feeds)[0], execute(model, feeds)[0])
