"""Weights of recurrent nodes rounded adaptively, against rounding to nearest, executed by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.model import Model
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights
from edgekit_quantize.rounding.recurrent import adaptively_rounded_recurrence

FEATURES, HIDDEN = 32, 32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _recurrent(kind: str, steps: int, attributes: str, directions: int, rng: np.random.Generator) -> ir.Model:
    """A recurrent node that hands out its states, with inputs that are like each other and an initial state."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{steps}, 1, {FEATURES}] x, float[{directions}, 1, {HIDDEN}] first) => (float[N, D, 1, {HIDDEN}] y) {{
      y, last = {kind}<hidden_size = {HIDDEN}{attributes}>(x, w, r, b, , first)
    }}"""
    rows = GATES[kind] * HIDDEN
    arrays = {
        "w": rng.normal(0, 0.2, (directions, rows, FEATURES)),
        "r": rng.normal(0, 0.2, (directions, rows, HIDDEN)),
        "b": rng.normal(0, 0.2, (directions, 2 * rows)),
    }
    proto = onnx.parser.parse_model(text)
    proto.graph.initializer.extend(
        onnx.numpy_helper.from_array(array.astype(np.float32), name) for name, array in arrays.items()
    )
    return ir.from_proto(proto)


def _feeds(model: ir.Model, seed: int) -> Iterator[dict[str, np.ndarray]]:
    rng = np.random.default_rng(seed)
    few = np.random.default_rng(3).normal(size=(6, FEATURES))  # inputs lie near a plane of few dimensions
    steps, directions = model.graph.inputs[0].shape[0], model.graph.inputs[1].shape[0]  # type: ignore[index]  # set
    for _ in range(48):
        x = rng.normal(size=(steps, 1, 6)) @ few + 0.1 * rng.normal(size=(steps, 1, FEATURES))
        first = np.tanh(rng.normal(size=(directions, 1, 6)) @ few[:, :HIDDEN])
        yield {"x": x.astype(np.float32), "first": first.astype(np.float32)}


def _outputs(model: ir.Model, weights: Mapping[str, np.ndarray]) -> np.ndarray:
    proto = Model(model).proto()
    for tensor in proto.graph.initializer:
        if tensor.name in weights:
            tensor.CopyFrom(onnx.numpy_helper.from_array(weights[tensor.name].astype(np.float32), tensor.name))
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    found: np.ndarray = np.stack([session.run(["y"], feeds)[0] for feeds in _feeds(model, 9)])
    return found


@pytest.mark.parametrize(
    ("kind", "steps", "attributes", "directions"),
    [
        ("GRU", 12, ", linear_before_reset = 1", 1),
        ("GRU", 12, "", 1),
        ("LSTM", 12, ', direction = "bidirectional"', 2),
        ("RNN", 12, ', direction = "reverse"', 1),
        ("LSTM", 1, "", 1),
    ],
)
@pytest.mark.parametrize("matrix", ["w", "r"])
def test_less_is_lost_than_by_the_nearest_integers(
    kind: str, steps: int, attributes: str, directions: int, matrix: str, rng: np.random.Generator
) -> None:
    model = _recurrent(kind, steps, attributes, directions, rng)
    model.graph[0].name = "node"
    exact = {name: model.graph.initializers[name].const_value.numpy() for name in ("w", "r")}  # type: ignore[union-attr]

    found = adaptively_rounded_recurrence(model, lambda: _feeds(model, 1)).integers

    names = {"w": "node, input", "r": "node, recurrence"}
    assert set(found) == set(names.values())
    params = symmetric_weights(exact[matrix], TYPES["int8"], 1)
    chosen = params.dequantize(found[names[matrix]])
    step = params.spread(exact[matrix].shape)[0]
    assert (np.abs(chosen - exact[matrix]) <= 1.001 * step).all()
    right = _outputs(model, {})
    nearest = np.sum((_outputs(model, {matrix: params.dequantize(params.quantize(exact[matrix]))}) - right) ** 2)
    adaptive = np.sum((_outputs(model, {matrix: chosen}) - right) ** 2)
    assert adaptive < 0.8 * nearest


def test_a_node_that_runs_backwards_is_rounded_like_one_that_runs_forwards_over_what_is_turned_round(
    rng: np.random.Generator,
) -> None:
    """The state before a step is then the state of the step after it; the states of the two steps differ."""
    forwards = _recurrent("LSTM", 2, "", 1, rng)
    proto = Model(forwards).proto()
    proto.graph.node[0].attribute.append(onnx.helper.make_attribute("direction", "reverse"))
    backwards = ir.from_proto(proto)
    forwards.graph[0].name = backwards.graph[0].name = "node"
    drift = np.array([[[-2.0]], [[2.0]]], np.float32)

    def feeds(order: int) -> Iterator[dict[str, np.ndarray]]:
        return ({**feed, "x": (feed["x"] + drift)[::order]} for feed in _feeds(forwards, 1))

    first = adaptively_rounded_recurrence(forwards, lambda: feeds(1)).integers["node, recurrence"]
    second = adaptively_rounded_recurrence(backwards, lambda: feeds(-1)).integers["node, recurrence"]

    assert np.mean(first != second) < 0.01  # sums of float32 in another order


def test_a_node_that_keeps_its_states_to_itself_keeps_the_nearest_integers_of_its_recurrence(
    rng: np.random.Generator,
) -> None:
    model = _recurrent("GRU", 4, "", 1, rng)
    model.graph[0].name = "node"
    last = model.graph[0].outputs[1]
    last.shape, last.type = ir.Shape([1, 1, HIDDEN]), ir.TensorType(ir.DataType.FLOAT)
    model.graph.outputs[:] = [last]
    model.graph[0].outputs[0].name = ""

    assert set(adaptively_rounded_recurrence(model, lambda: _feeds(model, 1)).integers) == {"node, input"}


def test_a_model_without_recurrent_nodes_reads_no_samples() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Abs(x) }'

    def unread() -> Iterator[dict[str, np.ndarray]]:
        raise AssertionError("the samples were read")

    assert adaptively_rounded_recurrence(ir.from_proto(onnx.parser.parse_model(text)), unread).integers == {}
