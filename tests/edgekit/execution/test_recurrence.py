from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.errors import InputError
from edgekit.execution.recurrence import FedBackOriginal, reference_of, restart, with_states, zero_states
from edgekit.execution.reference import Reference
from edgekit.model import Model

WriteOnnx = Callable[..., Path]

RUNNING_SUM = """g (float[1, 2] x, float[1, 2] h, int64[1] n) => (float[1, 2] y, float[1, 2] next, int64[1] m) {
    next = Add(x, h)
    y = Mul(next, two)
    m = Identity(n)
}"""


@pytest.fixture
def model(onnx_file: WriteOnnx) -> Model:
    return Model(ir.load(onnx_file(RUNNING_SUM, two=np.array(2, np.float32))))


def test_states_are_fed_back(model: Model) -> None:
    reference = reference_of(with_states(model, {"h": "next"}))
    assert isinstance(reference, FedBackOriginal)
    feeds = {"x": np.array([[1, 10]], np.float32), "n": np.array([0])}
    assert [reference.run(feeds)["y"].tolist() for _ in range(3)] == [[[2, 20]], [[4, 40]], [[6, 60]]]
    np.testing.assert_array_equal(reference.completed(feeds)["h"], [[3, 30]])
    restart(reference)
    assert reference.run(feeds)["y"].tolist() == [[2, 20]]
    assert "states fed back" in reference.executed_by


def test_without_states_the_reference_is_plain(model: Model) -> None:
    reference = reference_of(model)
    assert isinstance(reference, Reference)
    restart(reference)


def test_states_are_neither_fed_nor_returned(model: Model) -> None:
    held = with_states(model, {"h": "next"})
    assert [spec.name for spec in held.fed_inputs] == ["x", "n"]
    assert [spec.name for spec in held.returned_outputs] == ["y", "m"]
    (zeros,) = zero_states(held).values()
    assert (zeros.shape, zeros.dtype.name, bool(zeros.any())) == ((1, 2), "float32", False)


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ({"k": "next"}, "--state k=next: there is no input 'k'"),
        ({"h": "nxt"}, "--state h=nxt: there is no output 'nxt'"),
        ({"n": "m"}, "--state n=m: cannot be a state"),
        ({"h": "m"}, "--state h=m: cannot be a state"),
        ({"h": "next", "x": "next"}, "--state: an output replaces two states"),
    ],
)
def test_what_cannot_be_a_state(model: Model, states: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        with_states(model, states)
    assert str(caught.value).startswith(message)


def test_a_state_of_another_shape(onnx_file: WriteOnnx) -> None:
    graph = """g (float[1, 2] x, float[2, 2] h) => (float[3, 2] y, float[1, 2] s) {
        y = Concat <axis = 0> (x, h)
        s = Relu(x)
    }"""
    model = Model(ir.load(onnx_file(graph)))
    with pytest.raises(InputError, match="--state h=y: the output has another shape than the state"):
        with_states(model, {"h": "y"})


def test_open_states_are_refused(onnx_file: WriteOnnx) -> None:
    graph = "g (float[N, 2] x, float[N, 2] h) => (float[N, 2] y, float[N, 2] s) { y = Add(x, h) s = Relu(x) }"
    with pytest.raises(InputError, match="fix open dimensions of states"):
        with_states(Model(ir.load(onnx_file(graph))), {"h": "y"})


def test_all_outputs_as_states(onnx_file: WriteOnnx) -> None:
    graph = "g (float[1, 2] x, float[1, 2] h) => (float[1, 2] y) { y = Add(x, h) }"
    with pytest.raises(InputError, match="would leave the model without outputs"):
        with_states(Model(ir.load(onnx_file(graph))), {"h": "y"})
