from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit.errors import InputError

RECURRENT = {
    "LSTM": """f (float[1, 1, 5] x, float[1, 1, 6] h, float[1, 1, 6] c)
        => (float[1, 1, 1, 6] y, float[1, 1, 6] h_next, float[1, 1, 6] c_next) {
        y, h_next, c_next = LSTM <hidden_size = 6> (x, w, r, b, , h, c) }""",
    "GRU": """f (float[1, 1, 5] x, float[1, 1, 6] h) => (float[1, 1, 1, 6] y, float[1, 1, 6] h_next) {
        y, h_next = GRU <hidden_size = 6> (x, w, r, b, , h) }""",
}
GATES = {"LSTM": 4, "GRU": 3}
CACHE = """f (float[1, 1, 4] x, float[1, 3, 4] past) => (float[1, 1, 4] y, float[1, 3, 4] present) {
    both = Concat <axis = 1> (past, x)
    one = Constant <value_ints = [1]> ()
    end = Constant <value_ints = [4]> ()
    present = Slice (both, one, end, one)
    turned = Transpose <perm = [0, 2, 1]> (present)
    scores = MatMul (x, turned)
    weights = Softmax <axis = -1> (scores)
    y = MatMul (weights, present) }"""
"""Attention of the newest entry over the last three."""


def parsed(graph: str, **initializers: np.ndarray) -> onnx.ModelProto:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    model.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in initializers.items())
    return model


def agrees_step_by_step(model: onnx.ModelProto, states: dict[str, str], folder: Path, precision: str) -> None:
    """Asserts that the program's states are those that are passed to ONNX Runtime from one run to the next."""
    package = edgekit_coreml.convert(model, folder / "m", precision=precision, states=states)
    runner = edgekit_coreml.load(package)
    state = runner.make_state()
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(3)
    x, *kept = session.get_inputs()
    carried = {value.name: np.zeros(value.shape, np.float32) for value in kept}
    names = [value.name for value in session.get_outputs()]
    for _ in range(5):
        feeds = {x.name: rng.standard_normal(x.shape, dtype=np.float32)}
        expected = dict(zip(names, session.run(None, feeds | carried), strict=True))
        carried = {name: expected.pop(output) for name, output in states.items()}
        actual = runner.run(feeds, state=state)
        assert actual.keys() == expected.keys()
        for name, want in expected.items():
            np.testing.assert_allclose(actual[name], want, atol=4e-3)
    for name, want in carried.items():
        np.testing.assert_allclose(state.read_state(name), want, atol=4e-3)
    assert state.read_state(name).dtype == np.float16


@pytest.mark.parametrize("precision", ["float32", "float16", "auto"])
@pytest.mark.parametrize("kind", RECURRENT)
def test_recurrent_layers(kind: str, precision: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = GATES[kind] * 6
    shapes = {"w": (1, rows, 5), "r": (1, rows, 6), "b": (1, 2 * rows)}
    weights = {name: rng.standard_normal(shape, dtype=np.float32) * np.float32(0.3) for name, shape in shapes.items()}
    states = {"h": "h_next", "c": "c_next"} if kind == "LSTM" else {"h": "h_next"}
    agrees_step_by_step(parsed(RECURRENT[kind], **weights), states, tmp_path, precision)


def test_a_cache_of_past_entries(tmp_path: Path) -> None:
    agrees_step_by_step(parsed(CACHE), {"past": "present"}, tmp_path, "float16")


@pytest.mark.parametrize(
    ("states", "target", "message"),
    [
        ({"past": "present"}, "iOS17", "no states\nexpected: iOS18 or later"),
        ({"pest": "present"}, "iOS18", "state 'pest': 'pest': no such input or output"),
        ({"past": "y"}, "iOS18", "output 'y': has another shape"),
        ({"past": "present", "x": "y"}, "iOS18", "without outputs"),
    ],
)
def test_states_that_do_not_fit_are_refused(states: dict[str, str], target: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        edgekit_coreml.convert(parsed(CACHE), tmp_path / "m", states=states, deployment_target=target)
