"""`--precision auto`: what overflows or loses too much in float16 stays in float32, and only that."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.comparison.numbers.metrics import decibels
from edgekit_coreml import load
from edgekit_mlprogram import conversion as conversion_module
from edgekit_mlprogram import mixed_precision
from edgekit_mlprogram.cached_choices import CachedChoices
from edgekit_mlprogram.conversion import Conversion, convert_graph
from edgekit_mlprogram.mixed_precision import Float32Reference, NoiseByPart, worst_db
from edgekit_mlprogram.operation_ranges import study
from edgekit_mlprogram.trial_inputs import TrialInputs

OVERFLOWS = """
<ir_version: 8, opset_import: ["": 17]>
variance (float[1, 8] x) => (float[1, 8] y) <float[1] gain = {1000.0}> {
    large = Mul(x, gain)
    squares = Mul(large, large)
    mean = ReduceMean<axes = [1]>(squares)
    deviation = Sqrt(mean)
    y = Div(large, deviation)
}
"""
CANCELS = """
<ir_version: 8, opset_import: ["": 17]>
difference (float[1, 8] x) => (float[1, 8] y) <float[1] offset = {3000.0}, float[1] gain = {0.25}> {
    scaled = Mul(x, gain)
    shifted = Add(scaled, offset)
    y = Sub(shifted, offset)
}
"""
HARMLESS = """
<ir_version: 8, opset_import: ["": 17]>
scaling (float[1, 8] x) => (float[1, 8] y) <float[1] gain = {2.0}> {
    scaled = Mul(x, gain)
    y = Relu(scaled)
}
"""
LIKELIHOODS = """
<ir_version: 8, opset_import: ["": 18]>
likelihoods (float[1, 3] x) => (float[1, 3] y) <float[1] gain = {1000.0}, int64[2] column = {-1, 1}> {
    scores = Mul(x, gain)
    best = ReduceMax<keepdims = 0>(scores)
    differences = Sub(scores, best)
    exponentials = Exp(differences)
    total = ReduceSum<keepdims = 0>(exponentials)
    logarithm = Log(total)
    normalization = Add(best, logarithm)
    shaped = Reshape(normalization, column)
    logarithms = Sub(scores, shaped)
    y = Exp(logarithms)
}
"""
LOG_SUM_EXP = """
<ir_version: 8, opset_import: ["": 18]>
likelihoods (float[1, 3] x) => (float[1, 3] y)
<float[1] gain = {1000.0}, int64[1] axis = {1}, int64[2] column = {-1, 1}> {
    scores = Mul(x, gain)
    normalization = ReduceLogSumExp<keepdims = 0>(scores, axis)
    shaped = Reshape(normalization, column)
    logarithms = Sub(scores, shaped)
    y = Exp(logarithms)
}
"""
TEMPERED = """
<ir_version: 8, opset_import: ["": 18]>
likelihoods (float[1, 3] x) => (float[1, 3] y)
<float[1] gain = {1000.0}, float[1] temperature = {0.1}, int64[2] column = {-1, 1}> {
    scores = Mul(x, gain)
    greatest = ReduceMax<keepdims = 0>(scores)
    best = Mul(greatest, temperature)
    warmer = Mul(scores, temperature)
    differences = Sub(warmer, best)
    exponentials = Exp(differences)
    total = ReduceSum<keepdims = 0>(exponentials)
    logarithm = Log(total)
    normalization = Add(best, logarithm)
    shaped = Reshape(normalization, column)
    logarithms = Sub(warmer, shaped)
    y = Exp(logarithms)
}
"""
COOLED = TEMPERED.replace("{0.1}", "{10.0}").replace("Mul(greatest", "Div(greatest").replace("Mul(scores", "Div(scores")


MASKED_BY_CHOICE = """
<ir_version: 8, opset_import: ["": 18]>
attention (float[1, 4, 4] scores, int64[1, 4] mask) => (float[1, 4, 4] shares)
<float[1] lowest = {-3.4028234e38}, int64[1] axis = {1}> {
    rows = Unsqueeze(mask, axis)
    counts = Cast<to = 9>(rows)
    masked = Where(counts, scores, lowest)
    shares = Softmax(masked)
}
"""
MASKED_BY_A_PRODUCT = """
<ir_version: 8, opset_import: ["": 18]>
attention (float[1, 4, 4] scores, int64[1, 4] mask) => (float[1, 4, 4] shares)
<float[1] one = {1.0}, float[1] lowest = {-3.4028234e38}, int64[1] axis = {1}> {
    rows = Unsqueeze(mask, axis)
    counts = Cast<to = 1>(rows)
    padding = Sub(one, counts)
    added = Mul(padding, lowest)
    masked = Add(scores, added)
    shares = Softmax(masked)
}
"""


def converted(text: str, folder: Path, precision: str, **options: object) -> tuple[Conversion, float]:
    """The conversion, and the SQNR in dB of its output against ONNX's reference implementation."""
    model = onnx.parser.parse_model(text)
    feeds = {"x": np.random.default_rng(5).standard_normal((1, 8)).astype(np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, feeds)
    conversion = convert_graph(
        ir.from_proto(model),
        folder / precision,
        deployment_target_name="iOS18",
        precision=precision,
        **options,  # type: ignore[arg-type]
    )
    error = load(conversion.package).run(feeds)["y"] - expected
    power = float(np.square(error, dtype=np.float64).sum()) if np.isfinite(error).all() else float("inf")
    return conversion, decibels(float(np.square(expected).sum()), power)


@pytest.mark.parametrize("text", [OVERFLOWS, CANCELS], ids=["overflow", "cancellation"])
def test_what_float16_ruins_stays_in_float32(text: str, tmp_path: Path) -> None:
    _, half_db = converted(text, tmp_path, "float16")
    mixed, mixed_db = converted(text, tmp_path, "auto")
    assert half_db < 20  # or the test shows nothing
    assert mixed_db > 40
    assert mixed.kept_float32 or mixed.precision == "float32"


@pytest.mark.parametrize(
    "text", [LIKELIHOODS, LOG_SUM_EXP, TEMPERED, COOLED], ids=["nodes", "one node", "scaled", "divided"]
)
def test_what_is_selected_from_large_numbers_may_be_as_large_on_other_inputs(text: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(text)
    examples = [{"x": np.array([[first, -200, -300]], np.float32)} for first in (-0.001, 0.002, -0.003)]
    conversion = convert_graph(
        ir.from_proto(model), tmp_path / "model", deployment_target_name="iOS18", precision="auto", examples=examples
    )
    unlike_all = {"x": np.array([[-1000.0, -1000.001, -2000]], np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, unlike_all)
    np.testing.assert_allclose(load(conversion.package).run(unlike_all)["y"], expected, atol=0.002)


@pytest.mark.parametrize("text", [MASKED_BY_CHOICE, MASKED_BY_A_PRODUCT], ids=["choice", "product"])
@pytest.mark.parametrize("padded", [0, 2])
def test_masked_rows_are_no_nan_in_float16(text: str, padded: int, tmp_path: Path) -> None:
    """Whether or not examples have padding, Softmax stays in float16: what masks alone is bounded."""
    rng = np.random.default_rng(3)
    mask = (np.arange(4) < 4 - padded).astype(np.int64)[np.newaxis]
    scores = [rng.standard_normal((1, 4, 4)).astype(np.float32) for _ in range(3)]
    model = onnx.parser.parse_model(text)
    conversion = convert_graph(
        ir.from_proto(model),
        tmp_path / "model",
        deployment_target_name="iOS18",
        precision="auto",
        examples=[{"scores": each, "mask": mask} for each in scores],
    )
    assert conversion.kept_float32 == ("masked" if "Where" in text else "added",)
    run = load(conversion.package).run
    # equal scores, as -3.4e38 swallows the rest
    all_masked = run({"scores": scores[0], "mask": np.zeros((1, 4), np.int64)})["shares"]
    np.testing.assert_allclose(all_masked, np.full((1, 4, 4), 0.25), atol=1e-3)
    for kept in (4, 3, 1):
        exponentials = np.exp(scores[0]) * (np.arange(4) < kept)
        shares = run({"scores": scores[0], "mask": (np.arange(4) < kept).astype(np.int64)[np.newaxis]})["shares"]
        np.testing.assert_allclose(shares, exponentials / exponentials.sum(axis=2, keepdims=True), atol=2e-3)


LOGARITHMS_OF_MASKED = MASKED_BY_CHOICE.replace("Softmax(masked)", "LogSoftmax(masked)")
GAIN_LIKE_A_MASK = """
<ir_version: 8, opset_import: ["": 18]>
gain (float[1, 4, 4] scores, int64[1, 4] mask) => (float[1, 4, 4] shares)
<float[1] gain = {1e9}, float[1] most = {3e9}> {
    large = Mul(scores, gain)
    shares = Div(large, most)
}
"""
SHARPENED = """
<ir_version: 8, opset_import: ["": 18]>
sharpened (float[1, 4, 4] scores, int64[1, 4] mask) => (float[1, 4, 4] shares) <float[1] gain = {1e9}> {
    large = Mul(scores, gain)
    shares = Softmax(large)
}
"""


@pytest.mark.parametrize(
    "text", [LOGARITHMS_OF_MASKED, GAIN_LIKE_A_MASK, SHARPENED], ids=["logarithms", "gain", "sharpened"]
)
def test_large_numbers_that_are_read_are_no_masks(text: str, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(text)
    feeds = {
        "scores": np.random.default_rng(3).standard_normal((1, 4, 4)).astype(np.float32),
        "mask": np.array([[1, 1, 1, 0]], np.int64),
    }
    conversion = convert_graph(
        ir.from_proto(model), tmp_path / "model", deployment_target_name="iOS18", precision="auto", examples=[feeds]
    )
    # -inf is the evaluator's logarithm of an exponential that vanishes
    expected = np.maximum(ReferenceEvaluator(model).run(None, feeds)[0], np.finfo(np.float32).min)
    np.testing.assert_allclose(load(conversion.package).run(feeds)["shares"], expected, rtol=1e-3, atol=1e-3)


def test_what_float16_holds_stays_in_float16(tmp_path: Path) -> None:
    conversion, reached_db = converted(HARMLESS, tmp_path, "auto")
    assert conversion.precision == "float16"
    assert conversion.kept_float32 == ()
    assert reached_db > 60


def test_examples_decide_where_there_are_any(tmp_path: Path) -> None:
    far = [{"x": np.full((1, 8), 30000.0, np.float32)}]
    conversion, _ = converted(HARMLESS, tmp_path, "auto", examples=far)
    assert conversion.kept_float32 or conversion.precision == "float32"


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[frozenset[str] | None]:
    """What stays in float32 in each program that is written (None where none is named), with no earlier choices."""
    found: list[frozenset[str] | None] = []
    write = conversion_module._write

    def noted(job: object, folder: Path, kept: frozenset[str] | None) -> Conversion:
        found.append(kept)
        return write(job, folder, kept)  # type: ignore[arg-type]

    monkeypatch.setattr(conversion_module, "_write", noted)
    monkeypatch.setattr(conversion_module, "_earlier", CachedChoices())
    return found


def test_a_draft_starts_from_what_was_chosen_for_the_one_before(
    tmp_path: Path, written: list[frozenset[str] | None]
) -> None:
    found = []
    texts = (CANCELS, CANCELS.replace("3000.0", "3001.0"), CANCELS.replace("3000.0", "30.0"), HARMLESS)
    for number, text in enumerate(texts):
        written.clear()
        conversion, reached_db = converted(text, tmp_path / str(number), "auto", draft=True)
        assert reached_db > 40
        found.append((list(written), frozenset(conversion.kept_float32)))
    (all_tries, kept), *others = found
    assert len(all_tries) > 2
    assert others[0] == others[1] == ([None, kept], kept)  # one in float32, and that one
    assert others[2] == ([None, kept], kept)  # names that are not there are no obstacle
    written.clear()
    converted(CANCELS.replace("3000.0", "30.0"), tmp_path / "final", "auto")
    assert written == [None, frozenset()]


def test_the_form_that_was_a_draft_is_not_searched_once_more(
    tmp_path: Path, written: list[frozenset[str] | None]
) -> None:
    def kept_of(text: str, name: str, **options: object) -> frozenset[str]:
        written.clear()
        return frozenset(converted(text, tmp_path / name, "auto", **options)[0].kept_float32)

    other = CANCELS.replace("3000.0", "30.0")
    kept = kept_of(CANCELS, "draft", draft=True)
    assert len(written) > 2
    assert kept_of(CANCELS, "shipped") == kept
    assert written == [kept]
    assert kept_of(other, "other", draft=True) == kept
    assert kept_of(CANCELS, "reopened", draft=True) == kept
    assert written == [kept]
    kept_of(other, "other shipped")
    assert written == [None, frozenset()]  # its draft began with what was chosen for another form

    near = [{"x": np.linspace(-1, 1, 8, dtype=np.float32).reshape(1, 8)}]
    kept_of(CANCELS, "examples", examples=near)
    assert written[0] is None  # other inputs may lead to another choice


def test_progress_counts_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mixed_precision, "TOLD_EVERY", 2)
    told: list[str] = []
    converted(CANCELS, tmp_path, "auto", progress=lambda what, done, total: told.append(what))
    runs = [what for what in told if ", operation" not in what]
    assert len(runs) > 2
    assert runs == [f"looking for what has to stay in float32, run {number + 1}" for number in range(len(runs))]
    assert told[:3] == [runs[0], f"{runs[0]}, operation 2", runs[1]]  # of three operations


def test_examples_run_once_in_float32_and_once_in_float16(tmp_path: Path) -> None:
    examples = [{"x": np.full((1, 8), number, np.float32)} for number in (0.5, 3.0)]
    told: list[str] = []
    progress = lambda what, done, total: told.append(what)  # noqa: E731  # as progress is given
    conversion, _ = converted(HARMLESS, tmp_path, "auto", examples=examples, progress=progress)
    assert not conversion.kept_float32
    assert told == [f"looking for what has to stay in float32, run {number}" for number in (1, 2, 3, 4)]


def test_an_output_of_another_shape_is_as_wrong_as_can_be() -> None:
    long, short = np.ones((1, 5), np.float32), np.ones((1, 4), np.float32)
    assert worst_db({"y": long}, {"y": short}) == -np.inf
    assert worst_db({"y": long}, {"y": long}) == np.inf


UNLIKE = """
<ir_version: 8, opset_import: ["": 17]>
unlike (float[1, 512] x) => (float[1, 1] y) <float[1] offset = {-0.25}, float[1] gain = {48.0}> {
    mean = ReduceMean<axes = [1]>(x)
    shifted = Add(mean, offset)
    positive = Relu(shifted)
    scaled = Mul(positive, gain)
    y = Exp(scaled)
}
"""
"""For numbers whose mean is 0, y is 1; for numbers from 0 to 1 it is about exp(12), which float16 does not hold."""


def test_inputs_of_several_kinds_decide(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(UNLIKE)
    uniform = {"x": np.random.default_rng(3).random((1, 512)).astype(np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, uniform)
    found = {
        precision: load(
            convert_graph(
                ir.from_proto(model), tmp_path / precision, deployment_target_name="iOS18", precision=precision
            ).package
        ).run(uniform)["y"]
        for precision in ("float16", "auto")
    }
    assert not np.isfinite(found["float16"]).all()  # or the test shows nothing
    np.testing.assert_allclose(found["auto"], expected, rtol=0.05)


ENDS_WHEN_LARGE = """
<ir_version: 8, opset_import: ["": 17]>
found (float[1, 64] x) => (int64[2, n] places) <float[1] limit = {0.25}> {
    scaled = Sigmoid(x)
    above = Greater(scaled, limit)
    places = NonZero(above)
}
"""


def test_what_decides_how_large_an_output_is_stays_in_float32(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(ENDS_WHEN_LARGE)
    conversion = convert_graph(
        ir.from_proto(model), tmp_path / "auto", deployment_target_name="iOS18", precision="auto"
    )
    assert conversion.precision == "float32"
    half = convert_graph(ir.from_proto(model), tmp_path / "half", deployment_target_name="iOS18", precision="float16")
    near = {"x": np.linspace(-1.1, -1.0971, 64, dtype=np.float32)[None]}  # sigmoid(-1.0986) = 0.25
    (expected,) = ReferenceEvaluator(model).run(None, near)
    assert load(half.package).run(near)["places"].shape != expected.shape  # or the test shows nothing
    np.testing.assert_array_equal(load(conversion.package).run(near)["places"], expected)


MARKS_WHAT_IS_LARGE = ENDS_WHEN_LARGE.replace("int64[2, n]", "int64[1, 64]").replace("NonZero", "Cast<to = 7>")


@pytest.mark.parametrize(("text", "is_sized"), [(ENDS_WHEN_LARGE, True), (MARKS_WHAT_IS_LARGE, False)])
def test_sizes_that_were_kept_on_fewer_examples_alone_are_not_looked_for_again(
    text: str, is_sized: bool, tmp_path: Path, written: list[frozenset[str] | None]
) -> None:
    graph_model = ir.from_proto(onnx.parser.parse_model(text))
    near = [{"x": np.linspace(low, -1.0971, 64, dtype=np.float32)[None]} for low in (-1.1, -1.1001, -1.1002)]

    def kept(name: str, examples: list[dict[str, np.ndarray]]) -> tuple[str, tuple[str, ...], int]:
        written.clear()
        options = {"deployment_target_name": "iOS18", "precision": "auto", "examples": examples}
        found = convert_graph(graph_model, tmp_path / name, **options)  # type: ignore[arg-type]
        return found.precision, found.kept_float32, len(written)

    precision, operations, first_tries = kept("first", near[:1])
    assert (precision, len(operations) > 0) == ("float16", True)
    assert kept("others", near[1:])[:2] == ("float16", operations)
    precision, kept_with_more, tries = kept("more", [near[2], near[0]])
    if is_sized:
        assert (precision, kept_with_more) == ("float32", ())
        assert tries < first_tries
    else:
        assert (precision, kept_with_more, tries) == ("float16", operations, first_tries)


def test_noise_is_held_against_the_quietest_outputs() -> None:
    """A sum that may cancel to nothing, while its noise stays: the quiet inputs decide how much noise is acceptable."""

    class Sum:
        def __init__(self, noise: float) -> None:
            self._noise = noise

        def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"y": feeds["x"] + np.float32(self._noise)}

    loud, quiet = ({"x": np.array([value], np.float32)} for value in (1.0, 0.1))
    exact, noisy = Sum(0.0), Sum(0.01)
    alone = Float32Reference(exact, [TrialInputs([loud])])  # type: ignore[arg-type]
    beside = Float32Reference(exact, [TrialInputs([loud], [quiet])])  # type: ignore[arg-type]
    assert alone.worst_db(noisy) == pytest.approx(40.0, abs=0.1)  # type: ignore[arg-type]  # 20 log10(1 / 0.01)
    assert beside.worst_db(noisy) == pytest.approx(20.0, abs=0.1)  # type: ignore[arg-type]  # 20 log10(0.1 / 0.01)


def test_no_input_is_executed_after_one_on_which_the_floor_is_missed() -> None:
    class Offset:
        def __init__(self, noise: dict[float, float]) -> None:
            self.asked: list[float] = []
            self._noise = noise

        def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            self.asked.append(float(feeds["x"][0]))
            return {"y": feeds["x"] + np.float32(self._noise.get(self.asked[-1], 0.0))}

    first, second, third = ({"x": np.array([value], np.float32)} for value in (1.0, 2.0, 4.0))
    yardstick = Float32Reference(Offset({}), [TrialInputs([first, second]), TrialInputs([third])])  # type: ignore[arg-type]
    noisy = Offset({1.0: 0.01, 2.0: 0.2})
    assert yardstick.worst_db(noisy, 27.0) == pytest.approx(20.0, abs=0.1)  # type: ignore[arg-type]  # 20 log10(2 / 0.2)
    assert noisy.asked == [1.0, 2.0]
    assert yardstick.worst_db(Offset({1.0: 0.01}), 27.0) == pytest.approx(40.0, abs=0.1)  # type: ignore[arg-type]

    noisy.asked.clear()
    assert yardstick.hardest(noisy)[0] is second  # type: ignore[arg-type]
    assert noisy.asked == [1.0, 2.0, 4.0]
    broken = Offset({1.0: 0.01, 2.0: np.inf})
    assert yardstick.hardest(broken) == (second, {"y": np.float32(2.0)})  # type: ignore[arg-type]
    assert broken.asked == [1.0, 2.0]


def test_the_operations_that_add_the_noise_are_found_among_many(tmp_path: Path) -> None:
    before = " ".join(f"a{i + 1} = Mul(a{i}, gain)" for i in range(20))
    after = " ".join(f"b{i + 1} = Mul(b{i}, gain)" for i in range(20))
    text = f"""
    <ir_version: 8, opset_import: ["": 17]>
    hidden (float[1, 8] x) => (float[1, 8] y) <float[1] offset = {{300.0}}, float[1] gain = {{1.01}}> {{
        a0 = Sigmoid(x) {before} shifted = Add(a20, offset) b0 = Sub(shifted, offset) {after} y = Relu(b20)
    }}
    """
    model = ir.from_proto(onnx.parser.parse_model(text))
    options = {"deployment_target_name": "iOS18", "precision": "float32"}
    runner = load(convert_graph(model, tmp_path / "float32", **options).package)  # type: ignore[arg-type]
    feeds = {"x": np.random.default_rng(5).standard_normal((1, 8)).astype(np.float32)}
    order = list(study(runner, [feeds]).ranges)
    kept = NoiseByPart(runner, feeds, runner.run(feeds), order).noisiest(1e-4)
    assert 1 <= len(kept) <= 2
    assert kept <= {"shifted", "b0"}


POWERS = """
<ir_version: 8, opset_import: ["": 17]>
powers (float[1, 8] x) => (float[1, 8] y) <float[1] small = {0.00002}, float[1] gain = {100000.0}> {
    quiet = Mul(x, small)
    squares = Mul(quiet, quiet)
    moved = Reshape(squares, shape)
    back = Reshape(moved, shape_again)
    root = Sqrt(back)
    loud = Mul(root, gain)
    y = Log(loud)
}
"""
"""Squares of about 1e-10 are zeros in float16, whose logarithms are infinite."""


def test_what_is_too_small_for_float16_stays_in_float32_until_it_is_larger(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(POWERS)
    for name, shape in (("shape", [2, 4]), ("shape_again", [1, 8])):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(shape, np.int64), name))
    x = {"x": np.random.default_rng(5).uniform(0.5, 1.0, (1, 8)).astype(np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, x)
    options = {"deployment_target_name": "iOS18", "precision": "auto", "examples": [x]}
    conversion = convert_graph(ir.from_proto(model), tmp_path / "mixed", **options)  # type: ignore[arg-type]
    assert conversion.precision == "float16"
    assert "squares" in conversion.kept_float32
    np.testing.assert_allclose(load(conversion.package).run(x)["y"], expected, rtol=0.02)


SPECTRUM = """
<ir_version: 8, opset_import: ["": 18]>
spectrum (float[1, 256] x) => (float[1, 256] y) <float[1] offset = {1e-10}> {
    squares = Mul(x, x)
    magnitudes = Sqrt(squares)
    powers = Mul(magnitudes, magnitudes)
    positive = Add(powers, offset)
    y = Log(positive)
}
"""
EXPONENTIALS = """
<ir_version: 8, opset_import: ["": 18]>
exponentials (float[1, 256] x) => (float[1, 1] y) {
    summands = Exp(x)
    total = ReduceSum(summands)
    y = Log(total)
}
"""


def test_a_logarithm_of_quiet_numbers_is_right_where_the_examples_are_loud(tmp_path: Path) -> None:
    model = onnx.parser.parse_model(SPECTRUM)
    rng = np.random.default_rng(5)
    loud = rng.uniform(90, 110, (1, 256)).astype(np.float32)
    loud[0, 7] = 1e-4
    options = {"deployment_target_name": "iOS18", "precision": "auto", "examples": [{"x": loud}]}
    conversion = convert_graph(ir.from_proto(model), tmp_path / "mixed", **options)  # type: ignore[arg-type]
    quiet = {"x": rng.uniform(1e-4, 2e-4, (1, 256)).astype(np.float32)}
    (expected,) = ReferenceEvaluator(model).run(None, quiet)
    np.testing.assert_allclose(load(conversion.package).run(quiet)["y"], expected, atol=0.02)


def test_a_logarithm_of_a_sum_in_which_summands_vanish_stays_in_float16(tmp_path: Path) -> None:
    x = {"x": np.linspace(-30, 0, 256, dtype=np.float32)[None]}
    graph = ir.from_proto(onnx.parser.parse_model(EXPONENTIALS))
    options = {"deployment_target_name": "iOS18", "precision": "auto", "examples": [x]}
    conversion = convert_graph(graph, tmp_path / "mixed", **options)  # type: ignore[arg-type]
    assert (conversion.precision, conversion.kept_float32) == ("float16", ())
