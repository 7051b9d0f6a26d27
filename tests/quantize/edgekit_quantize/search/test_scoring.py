"""What candidates are scored by, on answers that are counted by hand."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.custom_metric import Evaluation
from edgekit.comparison.decisions.shared import DecidedBy, Decision
from edgekit.comparison.meaning import EmbeddingMeaning
from edgekit.data.samples import Sample
from edgekit.errors import InputError
from edgekit.model import Model
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.choices import decides, tells_words
from edgekit_quantize.search.score import AGREEMENT, Score, worst_of
from edgekit_quantize.search.scoring import Scorer

EYE = np.eye(4, dtype=np.float32)


def _references(labels: list[int | None], classes: int = 4) -> References:
    """The float model answers the input, a one-hot vector of ``number % classes``."""
    return References.of(
        [
            Reference({"x": EYE[number % classes]}, {"y": EYE[number % classes]}, label)
            for number, label in enumerate(labels)
        ]
    )


def _always_first(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": EYE[0]}


def _same(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {"y": feeds["x"]}


def test_labels_count_where_the_float_model_finds_them() -> None:
    scorer = Scorer.by_references(_references([0, 1, 2, 3, 0, 1, 2, 0]), classes=True)  # the float model misses one

    score = scorer(_always_first)

    assert (score.metric, score.reference, score.value) == ("accuracy", 7 / 8, 3 / 8)
    assert score.drop == 0.5
    assert scorer.doubt is None


def test_a_rare_class_that_is_lost_is_more_than_its_share_of_the_labels() -> None:
    numbers = [0] * 398 + [1] * 2
    references = References.of([Reference({"x": EYE[number]}, {"y": EYE[number]}, number) for number in numbers])
    score = Scorer.by_references(references, classes=True)(_always_first)
    assert (score.reference, score.value) == (1, 0.995)
    assert score.drop == pytest.approx(math.sqrt(0.01 / 2), abs=1e-8)  # both of two, of one of two classes: p² · 2 = 1%
    assert Scorer.by_references(references, classes=True)(_same).drop == 0


@pytest.mark.parametrize(("classes", "metric"), [(True, "agreement"), (False, "explained")])
def test_labels_that_a_guess_finds_as_often_do_not_count(classes: bool, metric: str) -> None:
    # 3 of 8 labels among 4 classes: a guess finds 2 on average, with a deviation of sqrt(8 * 1/4 * 3/4) = 1.2
    scorer = Scorer.by_references(_references([0, 1, 2, 0, 1, 2, 3, 0]), classes=classes)

    assert scorer(_same).metric == metric
    assert scorer(_same).drop == 0
    assert scorer.doubt is not None
    assert scorer.doubt.startswith("the float model finds 37.50% of 8 labels among 4 classes, no more than a guess")


def test_embeddings_below_a_floor_are_worth_what_is_explained_or_not_lost(rng: np.random.Generator) -> None:
    """The floors are 90% explained, and 5% lost: a vector is lost if half of an average vector's variance is wrong."""
    vectors = rng.standard_normal((64, 1, 32)).astype(np.float32)
    variance = np.square(vectors - vectors.mean(0)).sum(2).mean()
    references = References.of([Reference({"x": one}, {"embedding": one}) for one in vectors])
    scorer = Scorer.by_references(references, classes=False, meaning=EmbeddingMeaning(["embedding"]))

    def value(shares: np.ndarray) -> float:
        """The value if these shares of the variance are wrong in the vectors."""
        errors = rng.standard_normal(vectors.shape)
        errors *= np.sqrt(shares * variance / np.square(errors).sum(2))[..., None]
        wrong = dict(zip((one.tobytes() for one in vectors), (vectors + errors).astype(np.float32), strict=True))
        return scorer(lambda feeds: {"embedding": wrong[feeds["x"].tobytes()]}).value

    assert value(np.full((64, 1), 0.2)) == pytest.approx(0.8, abs=1e-3)
    few = np.zeros((64, 1))
    few[:8] = 0.6  # 8 of 64 are lost, and 92.5% are explained
    assert value(few) <= 0.875
    assert value(np.full((64, 1), 2.0)) == 0.0


def test_the_numbers_of_an_embedding_are_no_scores_of_classes(rng: np.random.Generator) -> None:
    """Labels name who is in a picture; which of 16 numbers is the greatest says nothing of that."""
    vectors = rng.normal(size=(12, 1, 16)).astype(np.float32)
    rows = [Reference({"x": one}, {"embedding": one}, int(one.argmax())) for one in vectors]
    scorer = Scorer.by_references(References.of(rows), classes=False, meaning=EmbeddingMeaning(["embedding"]))

    assert scorer.metric == "embeddings"
    assert scorer.doubt == ("the samples have labels, but no output tells a class: candidates are judged by embeddings")
    assert Scorer.by_references(References.of(rows), classes=False).metric == "accuracy"


def test_without_labels_decisions_are_compared() -> None:
    score = Scorer.by_references(_references([None] * 8), classes=True)(_always_first)

    assert (score.metric, score.value, score.reference) == ("agreement", 0.25, 1.0)


def test_without_decisions_the_power_of_the_error_counts() -> None:
    scorer = Scorer.by_references(_references([None] * 4), classes=False)

    near = scorer(lambda feeds: {"y": feeds["x"] * np.float32(0.9)})

    assert near.metric == "explained"
    # four errors of a tenth, over what is left of four ones when each element's mean, a quarter, is taken off: 4 - 1
    assert near.value == pytest.approx(1 - 4 * 0.01 / 3)
    assert near.sqnr_db == pytest.approx(20.0)


def test_the_same_answer_for_every_sample_explains_nothing() -> None:
    scorer = Scorer.by_references(_references([None] * 4), classes=False)

    assert scorer(lambda feeds: {"y": np.full(4, 0.25, np.float32)}).value == 0  # the best of all constant answers
    assert scorer(_always_first).value == 0


def test_it_explains_all_where_the_float_model_gives_the_same_answer_for_every_sample() -> None:
    rows = [Reference({"x": EYE[number]}, {"y": EYE[0] + np.float32(1)}) for number in range(4)]
    scorer = Scorer.by_references(References.of(rows), classes=False)

    assert scorer(lambda feeds: {"y": EYE[0] + np.float32(1)}).value == 1
    # an error of 0.1 in each of 4 elements, over 2^2 + 1 + 1 + 1
    assert scorer(lambda feeds: {"y": EYE[0] + np.float32(1.1)}).value == pytest.approx(1 - 0.04 / 7, abs=1e-6)


def test_of_a_single_sample_the_mean_of_all_elements_is_taken_off() -> None:
    one = [Reference({"x": EYE[0]}, {"y": np.array([1, 2, 3, 4], np.float32)})]
    scorer = Scorer.by_references(References.of(one), classes=False)

    assert scorer(lambda feeds: {"y": np.full(4, 2.5, np.float32)}).value == 0
    assert scorer(lambda feeds: {"y": np.array([1, 2, 3, 3], np.float32)}).value == pytest.approx(1 - 1 / 5)


def test_the_worst_output_counts() -> None:
    rows = [Reference({"x": EYE[number]}, {"y": EYE[number], "z": EYE[number]}) for number in range(4)]
    scorer = Scorer.by_references(References.of(rows), classes=False)

    score = scorer(lambda feeds: {"y": feeds["x"], "z": feeds["x"] * np.float32(0.9)})

    assert score.value == pytest.approx(1 - 4 * 0.01 / 3)


def test_the_worst_column_counts_where_columns_have_different_scales(rng: np.random.Generator) -> None:
    answers = (rng.normal(size=(20, 2)) * [1, 1e5]).astype(np.float32)
    rows = [Reference({"x": one}, {"y": one}) for one in answers]
    scorer = Scorer.by_references(References.of(rows), classes=False)

    score = scorer(lambda feeds: {"y": feeds["x"] * np.float32([0.5, 1])})

    wide = answers[:, 0].astype(np.float64)
    assert score.value == pytest.approx(1 - 0.25 * (wide**2).sum() / (20 * wide.var()))


def test_codes_that_differ_more_than_a_bundle_may_count(rng: np.random.Generator) -> None:
    """Places in a codebook are no quantities: the variance that they explain says nothing."""
    floats = rng.normal(size=(10, 20)).astype(np.float32)
    rows = [Reference({"x": one}, {"y": one, "codes": np.arange(20) + number}) for number, one in enumerate(floats)]
    scorer = Scorer.by_references(References.of(rows), classes=False)

    def with_unequal(count: int) -> float:
        def run(feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            number = next(place for place, one in enumerate(floats) if np.array_equal(one, feeds["x"]))
            codes = np.arange(20) + number
            codes[:count] += 1
            return {"y": feeds["x"], "codes": codes}

        return scorer(run).value

    assert with_unequal(0) == with_unequal(1) == 1  # 5 %, which a bundle may have
    assert with_unequal(2) == pytest.approx(0.9)


def test_what_is_not_finite_explains_nothing() -> None:
    score = Scorer.by_references(_references([None] * 4), classes=False)(lambda _: {"y": EYE[0] * np.nan})

    assert (score.value, score.sqnr_db) == (0.0, -math.inf)


@pytest.mark.parametrize(("found", "value"), [([1.5, np.nan], 1 - 0.25 / 7), ([1.5, 0.0], 0.0)])
def test_numbers_that_are_not_finite_in_the_float_model_are_left_out(found: list[float], value: float) -> None:
    answers = [([1.0, np.nan], 1), ([2.0, 5.0], 2), ([3.0, 7.0], 3), ([4.0, np.nan], 4)]
    rows = [Reference({"x": np.float32(x)}, {"y": np.array(y, np.float32)}) for y, x in answers]
    scorer = Scorer.by_references(References.of(rows), classes=False)

    score = scorer(lambda feeds: {"y": np.array(found if feeds["x"] == 1 else rows[int(feeds["x"]) - 1].outputs["y"])})

    # the first numbers are 1.5, 0.5, 0.5 and 1.5 away from their mean, 5 squared and summed; the second ones 1 and 1
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize(("classes", "value"), [(True, 0.75), (False, 2 / 3)])
def test_an_output_of_another_length_is_wrong_as_a_whole(classes: bool, value: float) -> None:
    def longer_for_the_last(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        row = feeds["x"].reshape(1, 4)
        return {"y": np.concatenate([row, row]) if feeds["x"][3] else row}

    rows = [Reference(r.feeds, {"y": r.outputs["y"].reshape(1, 4)}) for r in _references([None] * 4)]

    assert Scorer.by_references(References.of(rows), classes=classes)(longer_for_the_last).value == pytest.approx(value)


@pytest.mark.parametrize(
    ("rows", "words"), [(9, True), (7, False)], ids=["a number a word", "other numbers, such as features"]
)
def test_a_decoder_without_bias_chooses_between_words(rows: int, words: bool) -> None:
    table, head = (", ".join(["1"] * (count * 4)) for count in (9, rows))
    text = f"""
    <ir_version: 8, opset_import: ["" : 17]>
    g (int64[1, n] ids) => (float[1, n, {rows}] y)
    <float[9, 4] table = {{{table}}}, float[4, {rows}] head = {{{head}}}> {{
        x = Gather <axis = 0> (table, ids)
        y = MatMul (x, head)
    }}
    """
    assert tells_words(Model(ir.from_proto(onnx.parser.parse_model(text)))) == words


@pytest.mark.parametrize(("columns", "choice"), [(2, True), (1, False)])
def test_one_number_is_no_choice_between_classes(columns: int, choice: bool) -> None:
    text = f"g (float[1, 3] x) => (float[1, {columns}] y) {{ y = Gemm(x, w) }}"
    proto = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')
    weights = np.ones((3, columns), np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))

    assert decides(ir.from_proto(proto).graph) == choice


class Listed(list[Sample]):
    has_labels = False


@pytest.fixture
def evaluation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Evaluation:
    """Minus 10 times the mean of the outputs' first entries."""
    name = f"evaluation_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(
        "def loss(run, samples):\n    return -10 * sum(run(s.feeds)['y'][0] for s in samples) / len(samples)\n"
    )
    monkeypatch.chdir(tmp_path)
    return Evaluation(f"{name}:loss")


def test_what_an_evaluation_function_finds_is_lost_as_a_share(evaluation: Evaluation) -> None:
    samples = Listed(Sample(str(number), {"x": EYE[number]}) for number in range(4))
    scorer = Scorer.by_evaluation(_references([None] * 4), evaluation, samples, _same)

    worse = scorer(lambda feeds: {"y": feeds["x"] * np.float32(1.5)})

    assert (worse.metric, worse.reference, worse.value) == (evaluation.name, -2.5, -3.75)
    assert worse.drop == 0.5
    assert scorer(_same).drop == 0
    assert worse.sqnr_db == pytest.approx(10 * math.log10(4))


def test_of_nothing_no_share_can_be_lost(evaluation: Evaluation) -> None:
    samples = Listed([Sample("0", {"x": EYE[1]})])

    with pytest.raises(InputError, match="gives 0 for the float model"):
        Scorer.by_evaluation(_references([None]), evaluation, samples, _same)


def test_one_of_a_hundred_is_one_percent() -> None:
    assert Score(AGREEMENT, 0.99, 1.0, 30.0).drop <= 0.01


def test_a_label_that_is_no_class_is_told_by_its_sample() -> None:
    wrong = Reference({"x": EYE[0]}, {"y": EYE[0]}, label=4, name="a.npz")
    with pytest.raises(InputError) as refused:
        Scorer.by_references(References.of([wrong]), classes=True)
    assert str(refused.value).startswith("a.npz: the label is not a class of the model\nexpected: 0 to 3")
    assert (refused.value.hint or "").endswith("if yours run from 1, take 1 from each")


def test_pixels_decide_along_the_axis_of_their_classes(rng: np.random.Generator) -> None:
    """Two classes, whose probabilities are all but equal along a picture's columns, and far apart at each pixel."""
    sides = np.where(np.arange(16) < 8, 0.9, 0.1)[None, :, None] + rng.normal(size=(6, 16, 16)) * 1e-4
    rows = [Reference({"x": np.float32(n)}, {"y": np.stack([s, 1 - s])[None]}) for n, s in enumerate(sides)]
    decision = Decision(axis=1, is_known=True, are_scores=True)
    noise = rng.normal(size=(6, 1, 2, 16, 16)) * 1e-2

    def noisy(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        return {"y": rows[int(feeds["x"])].outputs["y"] + noise[int(feeds["x"])]}

    score = Scorer.by_references(References.of(rows), classes=True, decision=decision)(noisy)
    assert (score.metric, score.value, score.count) == ("agreement", 1.0, 6 * 256)


@pytest.mark.parametrize(("share_of_frauds", "metric"), [(0.0, "explained"), (0.5, "agreement")])
def test_probabilities_of_one_class_alone_are_judged_by_what_varies(
    rng: np.random.Generator, share_of_frauds: float, metric: str
) -> None:
    """No order is a fraud by more than a half, so that every decision stays whatever becomes of the probabilities."""
    risk = rng.uniform(0, 0.2, 100) + 0.7 * (np.arange(100) < 100 * share_of_frauds)
    rows = [Reference({"x": np.float32(n)}, {"y": np.array([[1 - p, p]], np.float32)}) for n, p in enumerate(risk)]
    scorer = Scorer.by_references(References.of(rows), classes=True, decision=Decision(is_known=True, are_scores=True))
    assert scorer.metric == metric


def test_labels_do_not_make_up_for_the_order_of_the_samples(rng: np.random.Generator) -> None:
    """Nobody is found to be a fraud, of whom there is one, so that 99 % of the labels are found by any probability."""
    risk = np.float32(rng.uniform(0, 0.2, 100))
    rows = [Reference({"x": np.float32([p])}, {"y": np.array([[1 - p, p]])}, label=0) for p in risk[1:]]
    rows.append(Reference({"x": risk[:1]}, {"y": np.array([[1 - risk[0], risk[0]]])}, label=1))
    scorer = Scorer.by_references(References.of(rows), classes=True, decision=Decision(is_known=True, are_scores=True))

    def towards_the_mean(share: float) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            p = feeds["x"][0] + share * (risk.mean() - feeds["x"][0])
            return {"y": np.array([[1 - p, p]], np.float32)}

        return run

    near, far = (scorer(towards_the_mean(share)) for share in (0.1, 0.9))
    assert (near.metric, near.value, near.drop) == ("accuracy", 0.99, 0)
    assert (far.value, far.drop) == (0.99, pytest.approx(0.81, abs=1e-3))  # 0.9 of the deviation, squared


def test_a_candidate_that_loses_a_rare_map_explains_nothing() -> None:
    """The second map has 40 of 10,040 pixels that are 1, so that 99.6 % of the power are right without it."""
    maps = np.zeros((1, 2, 50, 50), np.float32)
    maps[0, 0, :20], maps[0, 1, 0, :4] = 1, 1
    rows = [Reference({"x": np.float32(n)}, {"y": maps * (n % 2)}) for n in range(20)]
    decision = Decision(axis=1, are_scores=True, independent=True, is_map=True)
    scorer = Scorer.by_references(References.of(rows), classes=True, decision=decision)
    kept = np.array([1, 0], np.float32)[:, None, None]
    lost = scorer(lambda feeds: {"y": rows[int(feeds["x"])].outputs["y"] * kept})
    assert (lost.metric, lost.value) == ("explained", 0)
    assert scorer(lambda feeds: {"y": rows[int(feeds["x"])].outputs["y"]}).value == 1


def test_a_candidate_that_surely_loses_a_channel_explains_nothing() -> None:
    """Logits of 6,144 voxels, of which 8 are a small organ."""
    logits = np.zeros((1, 2, 16, 16, 24), np.float32)
    logits[0, 0] = 9
    organ = (0, 1, slice(2), slice(2), slice(2))
    logits[organ] = 15
    rows = [Reference({"x": np.float32(n)}, {"y": logits * (1 + n / 10)}) for n in range(6)]
    scorer = Scorer.by_references(References.of(rows), classes=True, decision=Decision(axis=1, are_channels=True))

    def run(feeds: Mapping[str, np.ndarray], left: float) -> dict[str, np.ndarray]:
        found = rows[int(feeds["x"])].outputs["y"].copy()
        found[organ] *= left
        return {"y": found}

    weaker = scorer(lambda feeds: run(feeds, 0.7))  # 10.5, which is still ahead of 9
    assert weaker.metric == "explained"
    assert weaker.value > 0.9
    assert scorer(lambda feeds: run(feeds, 0)).value == 0


@pytest.mark.parametrize(("erased", "value"), [(False, 1 - 2 / 2560), (True, 0.0)])
def test_a_candidate_that_loses_a_rare_class_scores_nothing(erased: bool, value: float) -> None:
    numbers = np.zeros((1, 16, 16), np.int64)
    numbers[0, 0, :4] = 3  # 40 of the 2560 pixels of ten samples
    rows = [Reference({"x": np.float32(n)}, {"y": numbers}) for n in range(10)]
    scorer = Scorer.by_references(References.of(rows), classes=True, decision=Decision(DecidedBy.NUMBER, is_known=True))

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = np.zeros_like(numbers) if erased else numbers.copy()
        found[0, 1, 0] = feeds["x"] < 2 and not erased
        return {"y": found}

    assert scorer(run).value == pytest.approx(value)
    lost = "class 3 is kept at 0 of its 40 places (overlap 0.00, at least 0.5)"
    assert scorer(run).lost_class == (lost if erased else None)


def test_amounts_are_explained_and_decide_nothing(rng: np.random.Generator) -> None:
    """Pixels of key points from a Gemm, which decides in a classifier."""
    points = rng.uniform(5, 60, (20, 1, 10)).astype(np.float32)
    rows = [Reference({"x": one}, {"y": one}) for one in points]
    assert Scorer.by_references(References.of(rows), classes=True).metric == "explained"
    logits = [Reference({"x": one}, {"y": one - 30}) for one in points]
    assert Scorer.by_references(References.of(logits), classes=True).metric == "agreement"


@pytest.mark.parametrize(("lengths", "metric"), [((7, 9), "explained"), ((8, 8), "agreement")])
def test_one_number_a_position_is_explained_in_sequences_of_several_lengths(
    rng: np.random.Generator, lengths: tuple[int, int], metric: str
) -> None:
    rows = [rng.normal(size=length).astype(np.float32) for length in lengths]
    references = References.of([Reference({"x": one}, {"y": one}) for one in rows])
    assert Scorer.by_references(references, classes=True, decision=Decision(one_each=True)).metric == metric


@pytest.mark.parametrize(("samples", "metric", "value"), [(16, "explained", 0.75), (15, "agreement", 1.0)])
def test_quantities_of_which_one_is_always_the_largest_are_explained(samples: int, metric: str, value: float) -> None:
    """Around 100 and 0, give or take 1: errors of a half are a quarter of what varies, and 49 dB below the numbers."""
    signs = np.resize(np.array([1, -1], np.float32), samples)
    rows = [np.array([[100 + sign, sign, -7]], np.float32) for sign in signs]
    scorer = Scorer.by_references(References.of([Reference({"x": one}, {"y": one}) for one in rows]), classes=True)
    middle = np.array([[100, 0, -7]], np.float32)
    score = scorer(lambda feeds: {"y": (feeds["x"] + middle) / 2})
    assert (score.metric, score.value) == (metric, pytest.approx(value))


def test_quantiles_of_several_hours_are_explained(rng: np.random.Generator) -> None:
    """Around 0 give or take 1, with the last quantile the largest: half of the way is a quarter of the power."""
    hours = rng.normal(size=(20, 1, 12, 1)).astype(np.float32) + np.array([-4, 0, 4], np.float32)
    mean = hours.mean(axis=0)
    scorer = Scorer.by_references(References.of([Reference({"x": one}, {"y": one}) for one in hours]), classes=True)
    score = scorer(lambda feeds: {"y": (feeds["x"] + mean) / 2})
    assert (score.metric, score.value) == ("explained", pytest.approx(0.75))


def test_an_argmax_is_a_choice_between_classes() -> None:
    nodes = "a = ArgMax <axis = 1, keepdims = 0> (x) y = Cast <to = 2> (a)"
    text = f"g (float[1, 3, 4, 4] x) => (uint8[1, 4, 4] y) {{ {nodes} }}"
    assert decides(ir.from_proto(onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]> {text}')).graph)


@pytest.mark.parametrize(("factor", "value"), [(0.95, 1.0), (0.8, 0.0)])
def test_of_one_answer_the_signal_counts_too(rng: np.random.Generator, factor: float, value: float) -> None:
    """The blank in every step; the errors are 0.05 and 0.2 of the numbers, 26 dB and 14 dB."""
    steps = rng.normal(size=(3, 20, 1, 8)).astype(np.float32)
    steps[..., 0] = 9
    scorer = Scorer.by_references(References.of([Reference({"x": one}, {"y": one}) for one in steps]), classes=True)
    score = scorer(lambda feeds: {"y": feeds["x"] * np.float32(factor)})
    assert (score.metric, score.value) == ("agreement", value)


def test_settings_of_one_candidate_run_at_the_same_time() -> None:
    """Each run waits until the other has begun."""
    both = threading.Barrier(2, timeout=30)

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        both.wait()
        return {"y": feeds["x"]}

    scorer = Scorer(_references([None] * 3), "explained", 1.0)
    (score,) = scorer.of_settings([[("one", run), ("other", run)]])
    assert isinstance(score, Score)
    assert score.in_settings == {"one": 1.0, "other": 1.0}


def test_what_is_scored_on_all_samples_and_on_every_other_runs_each_of_them_once() -> None:
    """Wrong are the samples 0 and 3: a third of the six, and one of 0, 2 and 4."""
    runs: list[int] = []

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        runs.append(int(feeds["x"].argmax()))
        return {"y": feeds["x"] + (0.5 if runs[-1] in (0, 3) else 0)}

    references = References.of([Reference({"x": each}, {"y": each}) for each in np.eye(6, dtype=np.float32)])
    whole = Scorer(references, "explained", 1.0)
    part = whole.among_every_other()

    (of_all,), (of_part,) = whole.at_first_with(part, [[("here", run)]], 0.01)

    assert runs == [0, 1, 2, 3, 4, 5]
    assert isinstance(of_all, Score)
    assert isinstance(of_part, Score)
    assert of_all.sqnr_db == pytest.approx(10 * np.log10(6 / (2 * 6 * 0.25)))
    assert of_part.sqnr_db == pytest.approx(10 * np.log10(3 / (1 * 6 * 0.25)))
    alone = [scorer.at_first([[("here", run)]], 0.01)[0] for scorer in (whole, part)]
    assert [of_all, of_part] == alone


def test_of_settings_that_lose_as_much_the_one_with_the_larger_error_counts() -> None:
    scores = [Score(AGREEMENT, 0.9, 1.0, db, in_settings={f"{db} dB": 0.9}) for db in (30.0, 20.0, 25.0)]

    worst = worst_of(scores)

    assert worst.sqnr_db == 20.0
    assert worst.in_settings == {"30.0 dB": 0.9, "20.0 dB": 0.9, "25.0 dB": 0.9}


def test_by_margins_decisions_that_surely_change_count_though_those_that_are_near_do_not_move() -> None:
    """Half of 40 decisions are turned round, all of them with the larger margin."""
    margins = [[0.0, 1.0], [0.0, 1.1], [1.0, 0.0], [1.1, 0.0]] * 10
    answers = [np.array([margin], np.float32) for margin in margins]
    references = References.of([Reference({"x": answer}, {"y": answer}) for answer in answers])
    scorer = Scorer(references, AGREEMENT, 1.0, by_margins=True)

    score = scorer(lambda feeds: {"y": feeds["x"] if feeds["x"].max() < 1.05 else feeds["x"][:, ::-1]})

    assert score.value == pytest.approx(1 - (20 - 1.645 * 20**0.5) / 40)
