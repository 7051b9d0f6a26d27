from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from edgekit import api
from edgekit.comparison.fed_back import carried_states
from edgekit.model import ValueSpec
from edgekit.reporting.summary import stage_record, summary_rows, warnings

OnnxFile = Callable[..., Path]

STEP = (
    "f (float[1, 4] x, float[1, 4] h) => (float[1, 4] y, float[1, 4] n)"
    " { d = Mul(h, decay)  n = Add(d, x)  y = Add(n, one) }"
)


def spec(name: str, *shape: int | str, dtype: str = "float32") -> ValueSpec:
    return ValueSpec(name, dtype, shape)


@pytest.mark.parametrize(
    ("inputs", "outputs", "states"),
    [
        # A GRU, an LSTM, a ring buffer beside them, a cache with a position, and names that are in another order.
        (["x 1 8", "h 2 1 4"], ["y 1 8", "hn 2 1 4"], {"h": "hn"}),
        (["x 1 8", "h 1 1 4", "c 1 1 4"], ["y 1 3", "hn 1 1 4", "cn 1 1 4"], {"h": "hn", "c": "cn"}),
        (["x 1 8", "ring 1 8 2", "h 1 4"], ["y 1 3", "hn 1 4", "ring_out 1 8 2"], {"ring": "ring_out", "h": "hn"}),
        # A picture and its style, a second score, a state of no fixed size, and more outputs than states.
        (["picture 1 3 8 8", "style 1 3 8 8"], ["painted 1 3 8 8"], {}),
        (["x 1 8"], ["y 1 3", "z 1 8"], {}),
        (["x 1 8", "past 1 n 4"], ["y 1 8", "present 1 n 4"], {}),
        (["x 1 8", "h 1 4"], ["y 1 8", "a 1 4", "b 1 4"], {}),
    ],
)
def test_which_output_feeds_which_input(inputs: list[str], outputs: list[str], states: dict[str, str]) -> None:
    def parsed(text: str) -> ValueSpec:
        name, *shape = text.split()
        return spec(name, *(int(size) if size.isdigit() else size for size in shape))

    assert carried_states([*map(parsed, inputs)], [*map(parsed, outputs)]) == states


def test_integers_are_no_states() -> None:
    ids = [spec("ids", 1, 8, dtype="int64"), spec("mask", 1, 8, dtype="int64")]
    assert carried_states(ids, [spec("y", 1, 3), spec("next", 1, 8, dtype="int64")]) == {}


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    """A step a sample, with the states that the original has."""
    rng, state = np.random.default_rng(0), np.zeros((1, 4), np.float32)
    (tmp_path / "samples").mkdir()
    for step in range(40):
        x = rng.standard_normal((1, 4)).astype(np.float32)
        np.savez(tmp_path / "samples" / f"{step:03}.npz", x=x, h=state)
        state = np.float32(0.9) * state + x
    return tmp_path / "samples"


def test_a_sequence_is_measured_as_the_runtime_computes_it(tmp_path: Path, onnx_file: OnnxFile, stream: Path) -> None:
    one = np.ones((1, 4), np.float32)
    model = onnx_file(STEP, decay=np.full((1, 4), 0.9, np.float32), one=one)
    options = {"data": stream, "quantize": "none", "precision": "float16"}
    bundle = api.package(model, "intel-cpu", tmp_path / "bundle", **options)
    record = stage_record(bundle.manifest, "verify")["fed_back"]
    assert (record["states"], record["steps"], record["output"]) == ({"h": "n"}, 40, "y")
    label, text = next(row for row in summary_rows(bundle.manifest) if row[0] == "fed back")
    assert (label, text) == ("fed back", f"y: SQNR {record['sqnr_db']:.1f} dB over 40 steps, h by 'n'")

    loaded, session = api.load(bundle), onnxruntime.InferenceSession(str(model))
    own = held = np.zeros((1, 4), np.float32)
    signal = noise = 0.0
    for file in sorted(stream.iterdir()):
        x = np.load(file)["x"]
        expected, held = session.run(["y", "n"], {"x": x, "h": held})
        found = loaded.run({"x": x, "h": own})
        own = found["n"]
        signal += float((expected.astype(np.float64) ** 2).sum())
        noise += float(((expected.astype(np.float64) - found["y"]) ** 2).sum())
    assert record["sqnr_db"] == pytest.approx(10 * np.log10(signal / noise), abs=0.01)


def test_a_built_model_that_departs_step_by_step_is_told(tmp_path: Path, onnx_file: OnnxFile) -> None:
    """Weights in 8 bits are right in each step, and not in a state that a rotation carries through 60 of them."""
    rng = np.random.default_rng(0)
    rotation, _ = np.linalg.qr(rng.standard_normal((64, 64)))
    model = onnx_file(
        "f (float[1, 64] x, float[1, 64] h) => (float[1, 64] y, float[1, 64] n)"
        " { r = MatMul(h, rotation)  n = Add(r, x)  y = Neg(n) }",
        rotation=rotation.astype(np.float32),
    )
    (tmp_path / "samples").mkdir()
    state = rng.standard_normal((1, 64))
    for step in range(60):
        signal = 1e-3 * rng.standard_normal((1, 64))
        file = tmp_path / "samples" / f"{step:03}.npz"
        np.savez(file, x=signal.astype(np.float32), h=state.astype(np.float32))
        state = state @ rotation + signal
    options = {"data": tmp_path / "samples", "quantize": "int8-weights", "floor": 38.0}
    bundle = api.package(model, "onnxruntime", tmp_path / "bundle", **options)
    (told,) = [text for text in warnings(bundle.manifest) if text.startswith("fed its own states")]
    assert told.startswith("fed its own states, output 'y' departs from the original's: SQNR ")
    assert told.endswith(" dB over 60 steps, h by 'n' (a single step has to reach 38 dB)")


def test_shapes_that_the_file_leaves_open_are_those_of_the_samples(tmp_path: Path, onnx_file: OnnxFile) -> None:
    """A cache that grows is no state of one size; a sequence ends where the rows become others."""
    model = onnx_file(
        "f (float[N, 4] x, float[N, 4] h, float[N, P, 4] past)"
        " => (float[N, 4] y, float[M, 4] n, float[N, Q, 4] present)"
        " { n = Add(h, x)  y = Neg(n)  s = Unsqueeze(x, axis)  present = Concat <axis = 1> (past, s) }",
        axis=np.array([1]),
    )
    (tmp_path / "samples").mkdir()
    for step in range(9):
        rows = 1 if step < 5 else 2
        feeds = {"x": np.ones((rows, 4)), "h": np.zeros((rows, 4)), "past": np.ones((rows, step + 1, 4))}
        typed = {name: array.astype(np.float32) for name, array in feeds.items()}
        np.savez(tmp_path / "samples" / f"{step}.npz", **typed)
    bundle = api.package(model, "onnxruntime", tmp_path / "bundle", data=tmp_path / "samples", quantize="none")
    record = stage_record(bundle.manifest, "verify")["fed_back"]
    assert record == {"states": {"h": "n"}, "steps": 5, "output": "y", "sqnr_db": "inf"}


def test_what_is_no_sequence_is_not_measured(tmp_path: Path, onnx_file: OnnxFile, stream: Path) -> None:
    model = onnx_file(STEP, decay=np.ones((1, 4), np.float32), one=np.ones((1, 4), np.float32))
    for number, file in enumerate(sorted(stream.iterdir())):
        if number:
            file.unlink()
    alone = api.package(model, "onnxruntime", tmp_path / "alone", data=stream, quantize="none")
    random = api.package(model, "onnxruntime", tmp_path / "random")
    for bundle in (alone, random):
        assert stage_record(bundle.manifest, "verify")["fed_back"] is None
        assert all(label != "fed back" for label, _ in summary_rows(bundle.manifest))


def test_what_the_original_does_not_take_is_no_state(tmp_path: Path, onnx_file: OnnxFile, stream: Path) -> None:
    """The second output has the second input's shape by chance: fed back, it is a place beyond the table."""
    model = onnx_file(
        "f (float[1, 4] x, float[1, 4] h) => (float[1, 4] y, float[1, 4] n)"
        " { i = Cast <to = 7> (h)  far = Mul(i, many)  n = Cast <to = 1> (far)"
        "  y = Gather <axis = 0> (row, i) }",
        many=np.full((1, 4), 1000, np.int64),
        row=np.arange(20, dtype=np.float32),
    )
    (tmp_path / "places").mkdir()
    for number in range(4):
        arrays = {"x": np.ones((1, 4), np.float32), "h": np.full((1, 4), number + 1, np.float32)}
        np.savez(tmp_path / "places" / f"{number}.npz", **arrays)
    bundle = api.package(model, "ort", tmp_path / "bundle", data=tmp_path / "places", quantize="none")
    assert stage_record(bundle.manifest, "verify")["fed_back"] is None
