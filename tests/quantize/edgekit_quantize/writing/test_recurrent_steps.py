"""Recurrent layers as scans: what they compute is held against the layer's own node, in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit_quantize.placement import place
from edgekit_quantize.prepare import prepared
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

from ..conftest import Execute

STEPS, BATCH, FEATURES, SIZE = 7, 2, 24, 32
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
RECURRENT = tuple(GATES)
Parse = Callable[..., ir.Model]


def layer(parse: Parse, rng: np.random.Generator, kind: str, direction: str, attributes: str = "") -> ir.Model:
    """A recurrent layer that reads initial states, and gives all states as well as the last ones."""
    ways, rows = DIRECTIONS[direction], GATES[kind] * SIZE
    state = f"float[{ways}, {BATCH}, {SIZE}]"
    cell = kind == "LSTM"
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{STEPS}, {BATCH}, {FEATURES}] x, {state} h0{f", {state} c0" if cell else ""})
          => (float[{STEPS}, {ways}, {BATCH}, {SIZE}] y, {state} h{f", {state} c" if cell else ""}) {{
            y, h{", c" if cell else ""} =
              {kind}<hidden_size = {SIZE}, direction = "{direction}"{attributes}>
              (x, w, r, b, , h0{", c0" if cell else ""})
        }}"""
    return parse(
        text,
        w=rng.uniform(-0.4, 0.4, (ways, rows, FEATURES)).astype(np.float32),
        r=rng.uniform(-0.3, 0.3, (ways, rows, SIZE)).astype(np.float32),
        b=rng.uniform(-0.2, 0.2, (ways, 2 * rows)).astype(np.float32),
    )


def feeds_of(model: ir.Model, rng: np.random.Generator) -> dict[str, np.ndarray]:
    def shape(value: ir.Value) -> tuple[int, ...]:
        assert value.shape is not None
        return tuple(int(dim) for dim in value.shape.numpy())

    return {str(value.name): rng.uniform(-1, 1, shape(value)).astype(np.float32) for value in model.graph.inputs}


def settings_of(*, steps: bool) -> Settings:
    return Settings(layers=dict.fromkeys(RECURRENT, "weights"), recurrent_steps=int(steps))


def kinds(model: ir.Model) -> set[str]:
    return {node.op_type for node in model.graph.all_nodes()}


@pytest.mark.parametrize(
    ("kind", "direction", "attributes"),
    [
        ("LSTM", "forward", ""),
        ("LSTM", "reverse", ""),
        ("LSTM", "bidirectional", ""),
        ("GRU", "forward", ", linear_before_reset = 1"),
        ("GRU", "bidirectional", ", linear_before_reset = 1"),
        ("GRU", "forward", ""),
        ("GRU", "bidirectional", ""),
        ("RNN", "reverse", ""),
    ],
)
def test_a_layer_step_by_step_computes_with_its_stored_weights_what_its_node_does(
    parse: Parse, execute: Execute, rng: np.random.Generator, kind: str, direction: str, attributes: str
) -> None:
    model = prepared(layer(parse, rng, kind, direction, attributes))
    by_node = write(model, settings_of(steps=False), {})
    by_steps = write(model, settings_of(steps=True), {})

    assert kind in kinds(by_node.model)
    assert kinds(by_steps.model) & {"Scan", kind} == {"Scan"}
    feeds = feeds_of(model, rng)
    float_answers = execute(model, feeds)
    for found, want, original in zip(
        execute(by_steps.model, feeds), execute(by_node.model, feeds), float_answers, strict=True
    ):
        np.testing.assert_allclose(found, want, atol=2e-6)
        assert np.abs(want - original).max() > 1e-4  # the weights are not those of the original
    assert by_steps.stored == by_node.stored
    weights = [value for graph in by_steps.model.graphs() for value in graph.initializers.values()]
    floats = [value.const_value.size for value in weights if value.dtype == ir.DataType.FLOAT and value.const_value]
    assert max(floats) < FEATURES * SIZE  # scales and biases are left


def test_weights_that_must_stay_float_do(parse: Parse, execute: Execute, rng: np.random.Generator) -> None:
    model = prepared(layer(parse, rng, "GRU", "forward"))
    name = next(node.name for node in model.graph if node.op_type == "GRU")
    both = [f"{name}, input", f"{name}, recurrence"]
    feeds = feeds_of(model, rng)

    written = write(model, settings_of(steps=True), {}, both)

    assert written.kept_float == dict.fromkeys(both, "its error is too large; step by step")
    for found, want in zip(execute(written.model, feeds), execute(model, feeds), strict=True):
        np.testing.assert_allclose(found, want, atol=2e-6)


def test_a_layer_that_gives_its_last_states_alone(parse: Parse, execute: Execute, rng: np.random.Generator) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[7, 2, 24] x) => (float[2, 2, 32] h, float[2, 2, 32] c) {
        , h, c = LSTM<hidden_size = 32, direction = "bidirectional">(x, w, r) }"""
    arrays = {"w": (2, 128, 24), "r": (2, 128, 32)}
    constants = {name: rng.uniform(-0.4, 0.4, shape).astype(np.float32) for name, shape in arrays.items()}
    model = prepared(parse(text, **constants))
    by_node = write(model, settings_of(steps=False), {})
    by_steps = write(model, settings_of(steps=True), {})

    onnx.checker.check_model(ir.to_proto(by_steps.model), full_check=True)
    feeds = feeds_of(model, rng)
    for found, want in zip(execute(by_steps.model, feeds), execute(by_node.model, feeds), strict=True):
        np.testing.assert_allclose(found, want, atol=2e-6)


def test_weights_of_one_feature_stay_float_whose_scales_take_as_much_room(
    parse: Parse, rng: np.random.Generator
) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[7, 2, 1] x) => (float[7, 1, 2, 150] y) {
        y = LSTM<hidden_size = 150>(x, w, r) }"""
    arrays = {"w": (1, 600, 1), "r": (1, 600, 150)}
    constants = {name: rng.uniform(-0.4, 0.4, shape).astype(np.float32) for name, shape in arrays.items()}
    model = prepared(parse(text, **constants))
    written = write(model, settings_of(steps=True), {})

    name = next(node.name for node in model.graph if node.op_type == "LSTM")
    assert written.kept_float == {f"{name}, input": "its scales take the room that integers save; step by step"}
    assert written.stored == [f"{name}, recurrence"]


@pytest.mark.parametrize(
    ("layers", "why"),
    [
        ("y, h = GRU<hidden_size = 32>(x, w, r, b, lengths)", "sequences of several lengths"),
        ("y, h = GRU<hidden_size = 32, layout = 1>(x, w, r, b)", "the batch comes first"),
        ("y, h = GRU<hidden_size = 32>(x, w, r, b) z, k = GRU<hidden_size = 32>(x, w, r, b)", "shared weights"),
        ("y, h = GRU<hidden_size = 32>(x, w, fed, b)", "weights that are fed"),
    ],
)
def test_other_layers_keep_their_node(parse: Parse, rng: np.random.Generator, layers: str, why: str) -> None:
    head = '<ir_version: 8, opset_import: ["" : 17]> g (float[2, 2, 24] x, int32[2] lengths, float[1, 96, 32] fed)'
    arrays = {"w": (1, 96, 24), "r": (1, 96, 32), "b": (1, 192)}
    constants = {name: rng.uniform(-0.3, 0.3, shape).astype(np.float32) for name, shape in arrays.items()}
    given = "2, 2, 1, 32" if "layout" in layers else "2, 1, 2, 32"
    model = parse(f"{head} => (float[{given}] y) {{ {layers} }}", **constants)

    plan = place(model.graph, settings_of(steps=True))

    assert not plan.recurrent, why


@pytest.mark.parametrize(("least", "names"), [(32 * 96, ["large", "small"]), (64 * 192, ["large"]), (64 * 192 + 1, [])])
def test_small_layers_keep_their_node(parse: Parse, rng: np.random.Generator, least: int, names: list[str]) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[7, 2, 24] x) => (float[7, 1, 2, 64] y, float[7, 2, 2, 32] z) {
            [large] y = GRU<hidden_size = 64>(x, w, r)
            [small] z = GRU<hidden_size = 32, direction = "bidirectional">(x, v, s)
        }"""
    arrays = {"w": (1, 192, 24), "r": (1, 192, 64), "v": (2, 96, 24), "s": (2, 96, 32)}
    model = parse(text, **{name: rng.uniform(-0.4, 0.4, shape).astype(np.float32) for name, shape in arrays.items()})

    plan = place(model.graph, Settings(layers={"GRU": "weights"}, recurrent_steps=least))

    assert [node.name for node in plan.recurrent] == names


def test_a_layer_in_a_branch_is_written_out_there(parse: Parse, execute: Execute, rng: np.random.Generator) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[7, 2, 24] x, bool go) => (float[7, 1, 2, 32] y) {
        y = If(go) <then_branch = t () => (float[7, 1, 2, 32] u) { u, v = LSTM<hidden_size = 32>(x, w, r) },
                    else_branch = e () => (float[7, 1, 2, 32] s) { s = Mul(k, zero) }> }"""
    model = parse(
        text,
        w=rng.uniform(-0.4, 0.4, (1, 128, FEATURES)).astype(np.float32),
        r=rng.uniform(-0.3, 0.3, (1, 128, SIZE)).astype(np.float32),
        k=np.zeros((7, 1, 2, 32), np.float32),
        zero=np.zeros(1, np.float32),
    )
    model = prepared(model)
    written = write(model, settings_of(steps=True), {})

    assert kinds(written.model) >= {"If", "Scan"}
    feeds = {"x": rng.uniform(-1, 1, (7, 2, 24)).astype(np.float32), "go": np.array(True)}
    (found,), (want,) = execute(written.model, feeds), execute(model, feeds)
    assert 1e-5 < np.abs(found - want).max() < 0.02
