from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from typer.testing import CliRunner

from edgekit import api
from edgekit.cli import app
from edgekit.comparison.acceptance.fed_back import FedBackAccuracy, carried_states, compare_fed_back
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.floors import Floors, Kind
from edgekit.data.samples import Samples, open_samples
from edgekit.execution.reference import Reference
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.quality_gate.samples import judge_on_samples
from edgekit.reporting.summary import stage_record, summary_rows, warnings

OnnxFile = Callable[..., Path]
OnnxModel = Callable[..., onnx.ModelProto]

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
    """Samples that are one step each, with the original's states."""
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
    assert told.startswith("fed its own states, output 'y' differs from the original's: SQNR ")
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
    assert record == {"states": {"h": "n"}, "steps": 5, "output": "y", "sqnr_db": "inf", "recorded": False}


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


class Leaking:
    """A runner of ``n = (h + x) · keeps``, ``y = n + 1``: right in a step, if it keeps nearly all."""

    executed_by = "the test"

    def __init__(self, keeps: float) -> None:
        self._keeps = np.float32(keeps)

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        carried = (feeds["h"] + feeds["x"]) * self._keeps
        return {"y": carried + 1, "n": carried}


def sum_of_steps(onnx_model: OnnxModel) -> Model:
    text = "f (float[1, 4] x, float[1, 4] h) => (float[1, 4] y, float[1, 4] n) { n = Add(h, x)  y = Add(n, one) }"
    return Model(ir.from_proto(onnx_model(text, one=np.ones((1, 4), np.float32))))


def tracked(folder: Path, model: Model, *, steps: int = 400, length: int = 400, recorded: bool = True) -> Samples:
    """Steps of a position, about 1 each; a sequence of ``length`` steps begins at 0."""
    rng, position = np.random.default_rng(0), np.zeros((1, 4), np.float32)
    for step in range(steps):
        position = np.zeros_like(position) if step % length == 0 else position
        x = rng.normal(1, 0.5, (1, 4)).astype(np.float32)
        np.savez(folder / f"{step:03}.npz", x=x, h=position if recorded else np.zeros_like(position))
        position = position + x
    return open_samples(folder, model.inputs)


def followed(samples: Samples, model: Model, keeps: float, floor_db: float | None = None) -> FedBackAccuracy:
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None, floor_db=floor_db)
    found = compare_fed_back(samples, Reference(model), Leaking(keeps), model, decisions_of(model), floors)
    assert found is not None
    return found


def test_an_error_that_adds_up_step_by_step_is_refused(tmp_path: Path, onnx_model: OnnxModel) -> None:
    """Three thousandths of the position are lost in each step, which is 50 dB there."""
    model = sum_of_steps(onnx_model)
    samples = tracked(tmp_path, model)
    found = followed(samples, model, 0.997)
    wanted = got = np.zeros((1, 4), np.float32)
    signals, noises, positions = [], [], []
    for sample in samples:
        wanted, got = wanted + sample.feeds["x"], (got + sample.feeds["x"]) * np.float32(0.997)
        signals.append(float(((wanted + 1) ** 2).sum()))
        noises.append(float(((got - wanted) ** 2).sum()))
        positions.append(wanted)
    total, first, last = (
        10 * np.log10(sum(signals[part]) / sum(noises[part])) for part in (slice(None), slice(100), slice(-100, None))
    )
    varying = 10 * np.log10(400 * np.stack(positions).var(axis=0).sum() / sum(noises))
    assert (found.recorded, found.steps, found.worst) == (True, 400, "y")
    assert found.sqnr_db == pytest.approx(total, abs=0.01)
    assert (found.early_db, found.late_db) == (pytest.approx(first, abs=0.01), pytest.approx(last, abs=0.01))
    assert found.flaws == (
        f"fed its own states over 400 steps, h by 'n', output 'y': SQNR {varying:.1f} dB for what varies between "
        f"samples (at least 10 dB), {total:.1f} dB with what is the same in all",
    )
    departs, grows = found.warnings(Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None))
    assert departs.startswith(
        f"fed its own states, output 'y' differs from the original's: SQNR {total:.1f} dB over 400"
    )
    assert grows == (
        f"fed its own states, output 'y' differs more from step to step: SQNR {first:.1f} dB over the first quarter "
        f"of 400 steps, {last:.1f} dB over the last; in longer sequences it differs even more, unless the app resets "
        "the states"
    )


def test_a_sequence_begins_where_the_samples_begin_one(tmp_path: Path, onnx_model: OnnxModel) -> None:
    model = sum_of_steps(onnx_model)
    found = followed(tracked(tmp_path, model, length=20), model, 0.997)
    assert found.recorded
    assert found.flaws == ()
    assert found.sqnr_db > 30


def test_states_that_nobody_recorded_show_no_sequence(tmp_path: Path, onnx_model: OnnxModel) -> None:
    model = sum_of_steps(onnx_model)
    found = followed(tracked(tmp_path, model, recorded=False), model, 0.9)
    assert (found.recorded, found.steps, found.flaws) == (False, 400, ())
    assert found.sqnr_db < 10
    departs = found.warnings(Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None))[0]
    assert departs.endswith(
        "dB over 400 steps, h by 'n' (a single step has to reach 20 dB); the states in the samples are not those "
        "that the original gives from step to step: unless the samples are the steps of one sequence, in order, "
        "this figure says little"
    )


def test_a_floor_that_was_asked_for_counts_less_10_db(tmp_path: Path, onnx_model: OnnxModel) -> None:
    model = sum_of_steps(onnx_model)
    samples = tracked(tmp_path, model)
    assert followed(samples, model, 0.9995, floor_db=30).flaws == ()
    (flaw,) = followed(samples, model, 0.9995, floor_db=40).flaws
    assert flaw.endswith(" dB (at least 30 dB)")


def test_what_the_original_does_not_determine_itself_is_not_asked(tmp_path: Path, onnx_model: OnnxModel) -> None:
    """A logistic map doubles what rounding adds in each step: after 30 steps nothing is left of its start."""
    text = (
        "f (float[1, 4] x, float[1, 4] h) => (float[1, 4] y, float[1, 4] n)"
        " { a = Mul(h, four)  b = Sub(one, h)  c = Mul(a, b)  n = Add(c, x)  y = Sub(n, half) }"
    )
    numbers = {"four": 3.99, "one": 1, "half": 0.5}
    model = Model(
        ir.from_proto(onnx_model(text, **{name: np.full((1, 4), value, np.float32) for name, value in numbers.items()}))
    )
    reference, state = Reference(model), np.array([[0.1, 0.2, 0.3, 0.4]], np.float32)
    for step in range(100):
        feeds = {"x": np.zeros((1, 4), np.float32), "h": state}
        np.savez(tmp_path / f"{step:03}.npz", **feeds)
        state = reference.run(feeds)["n"]

    class Rounded(Leaking):
        def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
            return reference.run({**feeds, "h": feeds["h"].astype(np.float16).astype(np.float32)})

    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    samples = open_samples(tmp_path, model.inputs)
    found = compare_fed_back(samples, reference, Rounded(1), model, decisions_of(model), floors)
    assert found is not None
    assert found.recorded
    assert found.sqnr_db < 10
    assert found.flaws == ()


def test_verify_and_gate_tell_how_near_a_sequence_stays(tmp_path: Path, onnx_file: OnnxFile, stream: Path) -> None:
    one = np.ones((1, 4), np.float32)
    model = onnx_file(STEP, decay=np.full((1, 4), 0.9, np.float32), one=one)
    bundle = api.package(model, "onnxruntime", tmp_path / "bundle", data=stream, quantize="none")
    sequel = api.verify(bundle, data=stream, model=model).fed_back
    assert sequel is not None
    assert (sequel.states, sequel.steps, sequel.recorded) == ({"h": "n"}, 40, True)
    result = CliRunner().invoke(app, ["verify", str(bundle.path), "--data", str(stream), "--model", str(model)])
    assert "fed back      y: SQNR exact over 40 steps, h by 'n'" in result.output
    verdict = judge_on_samples(bundle, stream, model, None)
    assert verdict.found.endswith("of 40 samples; fed back y: SQNR exact over 40 steps, h by 'n'")
