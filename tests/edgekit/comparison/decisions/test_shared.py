from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.decided_alone import decided_alone
from edgekit.comparison.acceptance.remarks import remarks_on
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.label_accuracy import TaskAccuracy
from edgekit.comparison.decisions.shared import DecidedBy, Decision
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.metrics import LARGEST, OutputComparison
from edgekit.model import Model


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def compared(pairs: list[tuple[Any, Any]], decision: Decision | None = LARGEST, dtype: Any = np.float32) -> Accuracy:
    comparison = OutputComparison("y", decision)
    for reference, built in pairs:
        comparison.add(np.asarray(reference, dtype), np.asarray(built, dtype))
    floors = Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None)
    return Accuracy("", "", False, len(pairs), floors, (comparison.result(),), None)


@pytest.mark.parametrize(("lengths", "agreement"), [((7, 9), None), ((8, 8), 0.5)])
def test_one_number_a_position_decides_nothing_in_sequences_of_several_lengths(
    rng: np.random.Generator, lengths: tuple[int, int], agreement: float | None
) -> None:
    first, second = (rng.uniform(-9, 9, length) for length in lengths)
    second[:2] = 10.0, 9.99
    changed = second.copy()
    changed[:2] = 9.99, 10.0
    accuracy = compared([(first, first), (second, changed)], Decision(one_each=True))
    assert accuracy.outputs[0].agreement == agreement


@pytest.mark.parametrize(("decision", "tells"), [(Decision(is_known=True), True), (LARGEST, False)])
def test_classes_that_the_graph_tells_are_told_however_few_there_are(
    rng: np.random.Generator, decision: Decision, tells: bool
) -> None:
    scores = rng.normal(size=(12, 10))
    output = compared([(each, each) for each in scores], decision).outputs[0]
    assert (output.worst_class, output.agreement) == (None, 1.0)
    assert output.as_record().get("tells_classes", False) is tells


SAID = [
    (
        Decision(is_known=True, are_scores=True),
        [0.9, 0.1, 0.0],
        [0.1, 0.9, 0.0],
        20,
        "class 0 alone",
        "the other classes",
    ),
    (Decision(is_known=True, are_scores=True), [0.9, 0.1, 0.0], [0.1, 0.9, 0.0], 19, None, None),
    (Decision(DecidedBy.CROSSING), [0.01], [0.99], 20, "no", "yes"),
    (Decision(DecidedBy.CROSSING), [0.99], [0.01], 20, "yes", "no"),
]


@pytest.mark.parametrize(("decision", "answer", "other", "count", "said", "missing"), SAID)
def test_samples_of_one_answer_prove_nothing_of_others(
    decision: Decision, answer: list[float], other: list[float], count: int, said: str | None, missing: str | None
) -> None:
    """A network that gives this answer whatever its input has all decisions right, at any SQNR."""
    accuracy = compared([(answer, answer)] * count, decision)
    text = f"the original's output 'y' says {said} for every sample, which leaves {missing} untested"
    assert remarks_on(accuracy) == ([] if said is None else [f"{text}: give samples with other answers too"])
    assert remarks_on(replace(accuracy, seeded=True)) == []  # random inputs have one answer often
    assert remarks_on(compared([(answer, answer)] * count + [(other, other)], decision)) == []
    assert ("only_answer" in accuracy.outputs[0].as_record()) is (said is not None)


def test_coordinates_that_are_scaled_decide_nothing(rng: np.random.Generator) -> None:
    """Pixels of key points times 0.65: the signal is 1 / 0.35 of the error, 9.1 dB, and the largest one stays."""
    points = rng.uniform(5, 60, (40, 1, 10))
    found = compared([(each, each * 0.65) for each in points])
    assert found.outputs[0].agreement is None
    noise = 0.35**2 * (points**2).sum()
    varying_db = 10 * np.log10(40 * points.var(axis=0).sum() / noise)
    assert found.shortfalls() == [
        f"output 'y': SQNR {varying_db:.1f} dB for what varies between samples (at least 20 dB), 9.1 dB with what is "
        "the same in all"
    ]


def test_logits_that_are_scaled_decide_the_same(rng: np.random.Generator) -> None:
    logits = rng.normal(size=(40, 1, 10))
    assert compared([(each, each * 0.65) for each in logits]).shortfalls() == []


def test_shares_that_add_up_decide(rng: np.random.Generator) -> None:
    shares = rng.dirichlet(np.full(5, 0.5), size=(40, 1))
    assert compared([(each, each**0.5) for each in shares]).outputs[0].agreement == 1


def test_an_answer_that_is_always_the_same_proves_nothing(rng: np.random.Generator) -> None:
    """Places of key points from -1 to 1, of which the last one, the chin, is the lowest in every picture."""
    points = rng.uniform(-1, 0.5, (40, 1, 10))
    points[..., -1] = 1
    pairs = [(each, each * 0.65) for each in points]
    assert compared(pairs).outputs[0].agreement is None
    assert compared(pairs, Decision(are_scores=True)).outputs[0].agreement == 1


def test_a_forecast_that_is_always_the_same_is_refused(rng: np.random.Generator) -> None:
    """Temperatures in kelvin for 12 hours: their mean for every sample is 35 dB from what they are."""
    kelvin = 290 + 5 * rng.normal(size=(40, 1, 12))
    always = 290 + 0.02 * (kelvin - 290)
    signal, noise = 40 * kelvin.var(axis=0).sum(), ((always - kelvin) ** 2).sum()
    assert compared(list(zip(kelvin, always, strict=True))).shortfalls() == [
        f"output 'y': SQNR {10 * np.log10(signal / noise):.1f} dB for what varies between samples (at least 20 dB), "
        f"{10 * np.log10((kelvin**2).sum() / noise):.1f} dB with what is the same in all"
    ]
    assert compared([(each, 290 + 0.95 * (each - 290)) for each in kelvin]).shortfalls() == []


def test_nine_tenths_of_a_longer_curve_are_asked(rng: np.random.Generator) -> None:
    load = 300 + 10 * rng.normal(size=(40, 1, 96))
    near, far = ([(each, 300 + share * (each - 300)) for each in load] for share in (0.75, 0.65))
    assert compared(near).shortfalls() == []
    (flaw,) = compared(far).shortfalls()
    assert flaw.startswith("output 'y': SQNR 9.0 dB for what varies between samples (at least 10 dB), 3")


ANSWER = Decision(DecidedBy.CROSSING)
CLASSES = Decision(is_known=True, are_scores=True)


@pytest.mark.parametrize("both", [False, True], ids=["one probability", "one for each class"])
def test_probabilities_that_rank_samples_are_held_against_what_varies(rng: np.random.Generator, both: bool) -> None:
    """Risks of 30 % give or take 3: an error of 3 has 20 dB, finds nobody else, and ranks none of them."""
    risk = np.clip(0.3 + 0.03 * rng.normal(size=(400, 1, 1)), 0.2, 0.4)
    near, far = (np.clip(risk + off * rng.normal(size=risk.shape), 0, 0.45) for off in (0.006, 0.03))
    if both:
        risk, near, far = (np.concatenate([1 - each, each], axis=-1) for each in (risk, near, far))
    decision = CLASSES if both else ANSWER
    assert compared(list(zip(risk, near, strict=True)), decision).shortfalls() == []
    found = compared(list(zip(risk, far, strict=True)), decision)
    varying_db = 10 * np.log10(400 * risk.var(axis=0).sum() / ((far - risk) ** 2).sum())
    assert (found.outputs[0].sqnr_db or 0) > 19
    assert found.shortfalls() == [
        f"output 'y': SQNR {varying_db:.1f} dB for what varies between samples (at least 10 dB), "
        f"{10 * np.log10((risk**2).sum() / ((far - risk) ** 2).sum()):.1f} dB with what is the same in all"
    ]


def test_of_more_classes_the_largest_is_what_is_asked(rng: np.random.Generator) -> None:
    """Pages that all stand upright, by a probability of 80 % give or take 6, in three directions."""
    upright = rng.uniform(0.7, 0.9, (100, 1, 1))
    right = np.concatenate([upright, (1 - upright) / 2, (1 - upright) / 2], axis=-1)
    off = right + 0.06 * rng.normal(size=(100, 1, 1)) * np.array([1, -0.5, -0.5])
    assert compared(list(zip(right, off, strict=True)), CLASSES).shortfalls() == []


def test_labels_do_not_make_up_for_probabilities_that_rank_nothing_any_more(rng: np.random.Generator) -> None:
    """An order is a fraud by 0.5 to 10 %; whoever answers 'none' finds 99 % of the labels."""
    risk = rng.uniform(0.005, 0.1, (400, 1, 1))
    pairs = [
        (np.concatenate([1 - p, p], -1), np.array([[1 - q, q]])) for p, q in zip(risk, risk[::-1, 0, 0], strict=True)
    ]
    found = compared(pairs, CLASSES)
    labels = TaskAccuracy("y", 0.99, 0.99, classes=2)
    labelled = replace(found, task=labels, floors=Floors.of(Kind.QUANTIZED, labelled=True, max_drop=None))
    varying_db = 10 * np.log10(400 * risk.var() / ((risk - risk[::-1]) ** 2).sum())
    for each in (found, labelled):
        (flaw,) = each.shortfalls()
        assert flaw.startswith(
            f"output 'y': SQNR {varying_db:.1f} dB for what varies between samples (at least 10 dB), 2"
        )
    assert replace(labelled, floors=Floors.of(Kind.FLOAT32, labelled=True, max_drop=None)).shortfalls() != []


def test_probabilities_that_decide_or_are_sure_of_all_samples_are_not(rng: np.random.Generator) -> None:
    half = rng.uniform(0.1, 0.9, (100, 1, 1))
    off = 0.08 * rng.normal(size=half.shape) * (abs(half - 0.5) > 0.3)  # 10 dB of what varies are not reached by all
    assert compared(list(zip(half, half + off, strict=True)), ANSWER).outputs[0].centred_db is None
    sure = 1 - rng.uniform(0, 0.004, (100, 1, 1))
    found = compared([(each, np.full_like(each, 0.998) + 1e-4 * (each > 0.998)) for each in sure], ANSWER)
    assert (found.outputs[0].centred_db, found.shortfalls()) == (None, [])


def test_a_number_of_several_that_is_lost_is_refused(rng: np.random.Generator) -> None:
    """Angle in degrees beside torque: the angle alone no longer follows the samples."""
    values = rng.normal(size=(40, 1, 2)) * [1, 50]
    assert compared([(each, each * [0.0, 1]) for each in values]).shortfalls() == [
        "output 'y': column 0 of 2 keeps nothing of its variance between samples"
    ]
    assert compared([(each, each * [0.2, 1]) for each in values]).shortfalls() == []  # 36 % of it: a warning


TAGS = Decision(are_scores=True, independent=True, named=True)


def tags(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of 6 tags in 200 samples, of which 60 have the first, 30 the second, and none the others."""
    scores = rng.uniform(0, 0.2, (200, 1, 6))
    scores[:60, 0, 0] = 0.9
    scores[40:70, 0, 1] = 0.8
    return scores


def test_tags_that_are_found_no_more_are_lost_though_the_largest_stays(rng: np.random.Generator) -> None:
    pairs = [(each, each * 0.55) for each in tags(rng)]
    found = compared(pairs, TAGS)
    assert found.outputs[0].agreement == 0  # of 90 yes
    assert found.outputs[0].decisions == 90
    assert found.shortfalls() == ["output 'y': class 0 is kept at 0 of its 60 places (overlap 0.00, at least 0.5)"]
    assert compared(pairs, Decision(are_scores=True)).shortfalls() == []  # of classes that exclude each other


def frames(rng: np.random.Generator) -> np.ndarray:
    """Probabilities of 6 notes in 300 frames, of which 30 have one, and the others none: at most 0.002 there."""
    scores = 10.0 ** -rng.uniform(2.7, 7, (300, 1, 6))
    scores[np.arange(30), 0, np.arange(30) % 6] = 0.9
    return scores


def test_where_both_models_are_sure_of_no_tag_the_largest_decides_nothing(rng: np.random.Generator) -> None:
    notes = frames(rng)
    built = np.where(notes < 0.1, frames(rng), notes)
    built[:30] = notes[:30]
    found = compared(list(zip(notes, built, strict=True)), TAGS)
    assert (found.outputs[0].agreement, found.outputs[0].decisions) == (1.0, 30)
    built[30:60, 0, 0] = 0.3  # the built model is not sure any more
    notes[30:60, 0, 1] = 0.1
    found = compared(list(zip(notes, built, strict=True)), TAGS)
    assert (found.outputs[0].agreement, found.outputs[0].decisions) == (0.5, 60)


def test_tags_that_vanish_are_missed_where_most_positions_have_none(rng: np.random.Generator) -> None:
    notes = frames(rng)
    found = compared([(each, np.where(each > 0.5, 0.2, each)) for each in notes], replace(TAGS, named=False))
    assert (found.outputs[0].agreement, found.outputs[0].decisions) == (0.0, 30)
    assert found.shortfalls() == [
        "output 'y': SQNR 2.2 dB (at least 20 dB), and 30 of 30 decisions changed (the budget 5 % allows 1)"
    ]


def test_few_tags_that_all_vanish_are_missed_though_the_largest_stays(rng: np.random.Generator) -> None:
    """Of 12 yes the original and itself give 24; of a build that gives none of them 12 are counted."""
    notes = frames(rng)
    notes[12:30, 0] *= 0.45
    found = compared([(each, each * 0.55) for each in notes], replace(TAGS, named=False))
    assert (found.outputs[0].agreement, found.outputs[0].decisions) == (0.0, 12)
    assert found.shortfalls() == [
        "output 'y': SQNR 6.9 dB (at least 20 dB), and 12 of 12 decisions changed (the budget 5 % allows 0)"
    ]


def test_a_rare_tag_is_lost_at_any_signal_where_it_has_a_name(rng: np.random.Generator) -> None:
    scores = tags(rng) + 0.6 * (np.arange(6) > 1)
    scores[40:70, 0, 1] = 0.51
    pairs = [(each, np.where(np.arange(6) == 1, np.minimum(each, 0.49), each)) for each in scores]
    assert (compared(pairs, TAGS).outputs[0].sqnr_db or 0) > 30
    lost = "output 'y': class 1 is kept at 0 of its 30 places (overlap 0.00, at least 0.5)"
    assert compared(pairs, TAGS).shortfalls() == [lost]
    assert compared(pairs, replace(TAGS, named=False)).shortfalls() == []  # a mask, say


MAPS = Decision(axis=1, are_scores=True, independent=True, is_map=True)


LESION = 20
"""The side of a lesion in pixels: 1 % of a picture of 200 × 200."""


def segmented(lesion: np.ndarray) -> np.ndarray:
    """An organ in half of a picture, and a lesion, whose maps are sure."""
    maps = np.full((1, 2, 200, 200), 0.01)
    maps[0, 0, :100] = 0.99
    maps[0, 1, 50 : 50 + LESION, 50 : 50 + LESION] = lesion
    return maps


def test_a_rare_map_that_loses_half_its_places_is_refused_at_any_signal() -> None:
    lesion = np.full((LESION, LESION), 0.99)
    half, pixel = lesion.copy(), lesion.copy()
    half[: LESION // 2], pixel[0, 0] = 0.01, 0.49
    for named in (False, True):
        decision = replace(MAPS, named=named)
        found = compared([(segmented(lesion), segmented(half))], decision)
        assert (found.outputs[0].sqnr_db or 0) > 20
        assert found.outputs[0].agreement is None
        assert found.shortfalls() == [
            "output 'y': map 1 is kept at 200 of its 400 places (overlap 0.50, at least 0.75)"
        ]
        assert compared([(segmented(lesion), segmented(pixel))], decision).shortfalls() == []
        assert compared([(segmented(lesion), segmented(lesion) * 0.98)], decision).shortfalls() == []


def test_numbers_about_a_half_tell_no_class_without_names(rng: np.random.Generator) -> None:
    """A depth, as a share of the farthest: 40 dB are right, and many numbers cross a half."""
    depth = 0.47 + 0.04 * rng.uniform(0, 1, (1, 1, 100, 100)) ** 4
    found = compared([(depth, depth - 0.01)], MAPS)
    assert found.shortfalls() == []
    worst = found.outputs[0].worst_class
    assert worst is not None
    assert (worst.is_known, worst.is_lost, worst.overlap) == (
        False,
        True,
        pytest.approx(np.mean(depth > 0.51) / np.mean(depth > 0.5)),
    )


def test_maps_that_find_the_same_do_not_make_up_for_the_signal(rng: np.random.Generator) -> None:
    """A picture that is restored, in black and white: each pixel stays above or below a half."""
    picture = rng.uniform(0, 1, (1, 3, 40, 40))
    found = compared([(picture, np.round(picture))], MAPS)
    assert found.shortfalls()[0].startswith("output 'y': SQNR")


def test_a_few_equal_answers_prove_nothing(rng: np.random.Generator) -> None:
    """Of ten samples the second number is the largest, whatever else becomes of them."""
    values = rng.normal(size=(10, 1, 4)) + 20.0 * (np.arange(4) == 1)
    scaled = [(each, each * 0.6) for each in values]
    assert compared(scaled).outputs[0].agreement is None
    assert compared(scaled, Decision(are_scores=True)).shortfalls() == []
    other = np.where(np.arange(10)[:, None, None] == 9, values[..., ::-1], values)  # one has another answer
    assert compared([(each, each * 0.6) for each in other]).outputs[0].agreement == 1


@pytest.mark.parametrize(
    ("decision", "warning"),
    [
        (
            None,
            "output 'y' passes because its largest number is the original's at 40 of 40 positions, although its "
            "SQNR is 11.1 dB; the model does not declare that its numbers are scores of classes: if they are "
            "quantities, --floor 20 judges them as such",
        ),
        (Decision(are_scores=True), None),
        (Decision(is_known=True, are_scores=True), None),
        (
            replace(TAGS, named=False),
            "output 'y' passes by its yes-or-no decisions alone: a probability is off by up to 0.28 (SQNR 11.1 dB), "
            "so a threshold other than 0.5 has to be set anew",
        ),
    ],
    ids=["nothing is known", "names", "Softmax", "Sigmoid"],
)
def test_what_passes_by_decisions_alone_is_told(decision: Decision | None, warning: str | None) -> None:
    """Times 0.72: the signal is 1 / 0.28 of the error, 11.1 dB."""
    values = np.where(np.arange(4) == np.arange(40)[:, None, None] % 4, 1.0, -0.2)
    found = compared([(each, each * 0.72) for each in values], decision or LARGEST)
    assert found.shortfalls() == []
    assert decided_alone(found, {} if decision is None else {"y": decision}) == ([warning] if warning else [])
    near = compared([(each, each * 0.95) for each in values], decision or LARGEST)
    assert decided_alone(near, {}) == []


PIXELS = (1, 16, 16)


def class_map(rng: np.random.Generator) -> np.ndarray:
    """Background, and 4 pixels of class 2: 1.6 %."""
    numbers = np.zeros(PIXELS, np.int64)
    numbers.flat[rng.choice(256, 4, replace=False)] = 2
    return numbers


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.float32])
def test_a_rare_class_of_pixels_that_vanishes_is_refused(rng: np.random.Generator, dtype: Any) -> None:
    maps = [class_map(rng) for _ in range(10)]
    decision = Decision(DecidedBy.NUMBER, is_known=True)
    gone = compared([(each, np.zeros(PIXELS)) for each in maps], decision, dtype)
    assert "output 'y': class 2 is kept at 0 of its 40 places (overlap 0.00, at least 0.5)" in gone.shortfalls() or (
        gone.shortfalls() == ["output 'y' is the same for all samples, while the original's differs between samples"]
    )
    assert gone.outputs[0].agreement == pytest.approx(1 - 4 / 256)
    kept = [(each, np.where(np.arange(256).reshape(PIXELS) == each.argmax(), 0, each)) for each in maps]
    assert compared(kept, decision, dtype).shortfalls() == []  # 30 of 40 places
    one_left = [(each, np.where(each.cumsum().reshape(PIXELS) > 2, 0, each)) for each in maps]
    assert compared(one_left, decision, dtype).shortfalls() == [
        "output 'y': class 2 is kept at 10 of its 40 places (overlap 0.25, at least 0.5)"
    ]


def test_labels_judge_in_place_of_the_classes() -> None:
    numbers = [0] * 30 + [1] * 30
    decision = Decision(DecidedBy.NUMBER, is_known=True)
    found = compared([([each], [0]) for each in numbers], decision, np.int64)
    lost = "output 'y': class 1 is kept at 0 of its 30 places (overlap 0.00, at least 0.5)"
    assert lost in found.shortfalls() or "output 'y' is the same for all samples" in found.shortfalls()[0]
    one_kept = compared([([each], [int(place == 59)]) for place, each in enumerate(numbers)], decision, np.int64)
    assert one_kept.shortfalls()[0].startswith("output 'y': class 1 is kept at 1 of its 30 places")
    floors = Floors.of(Kind.QUANTIZED, labelled=True, max_drop=0.6)
    labelled = replace(one_kept, floors=floors, task=TaskAccuracy("y", 1.0, 0.5, 2))
    assert not any("class 1" in flaw for flaw in labelled.shortfalls())


def test_a_drop_that_was_allowed_bounds_the_pixels_that_change(rng: np.random.Generator) -> None:
    maps = [rng.integers(0, 3, PIXELS) for _ in range(4)]
    changed = []
    for each in maps:
        other = each.copy()
        other.flat[:5] = (other.flat[:5] + 1) % 3  # 20 of 1024 pixels, 2 %
        changed.append((each, other))
    found = compared(changed, Decision(DecidedBy.NUMBER, is_known=True), np.int64)
    assert found.shortfalls() == []
    strict = Accuracy("", "", False, 4, Floors.of(Kind.QUANTIZED, labelled=False, max_drop=0.01), found.outputs, None)
    assert strict.shortfalls() == ["output 'y': 20 of 1024 decisions changed (the budget 1 % allows 10)"]


def test_decisions_follow_the_axis_of_the_softmax(rng: np.random.Generator) -> None:
    """Along the columns of a picture the largest entry is one of many that are equal but for rounding."""
    logits = rng.normal(size=(1, 4, 16, 16)) * 8
    shares = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    noise = shares + rng.normal(size=shares.shape) * 1e-3
    found = compared([(shares, noise)], Decision(axis=1, is_known=True, are_scores=True))
    assert found.outputs[0].decisions == 256
    assert found.outputs[0].agreement == np.mean(shares.argmax(axis=1) == noise.argmax(axis=1))


def test_a_class_whose_probability_becomes_0_is_refused_at_any_signal(rng: np.random.Generator) -> None:
    shares = np.zeros((1, 3, 40, 40))
    shares[0, 0] = 1
    shares[0, :, 0, :] = [[0.45], [0.0], [0.55]]  # 40 of 1600 pixels
    gone = shares.copy()
    gone[0, 2] = 0
    found = compared([(shares, gone)], Decision(axis=1, is_known=True, are_scores=True))
    assert found.outputs[0].sqnr_db is not None
    assert found.outputs[0].sqnr_db > 20
    assert found.shortfalls() == ["output 'y': class 2 is kept at 0 of its 40 places (overlap 0.00, at least 0.5)"]


def test_classes_without_evidence_count_where_decisions_make_up_for_the_signal(rng: np.random.Generator) -> None:
    """Logits of a detector's rows: the background is the largest in most, and one class no longer is."""
    logits = rng.normal(size=(400, 4)) - [0, 9, 9, 9]
    logits[:30, 1] = 5
    logits[30:60, 2] = 5
    gone = logits - [0, 12, 0, 0]
    (flaw,) = compared([(logits[None], gone[None])]).shortfalls()
    assert flaw.startswith("output 'y': SQNR ")
    assert flaw.endswith("; class 1 is kept at 0 of its 30 places (overlap 0.00, at least 0.5)")


@pytest.mark.parametrize("names", [("O", "PER", "DRUG"), ()], ids=["classes with names", "without"])
def test_a_rare_class_that_a_tagger_loses_is_refused_at_any_signal_where_classes_have_names(
    names: tuple[str, ...], rng: np.random.Generator
) -> None:
    """Logits of tokens, no Softmax: each sample has 2 of 40 tokens of a class, and the built model misses them."""
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["" : 17]> g (float[1, n, 2] x, float[2, 3] w) => (float[1, n, 3] y) '
        "{ y = MatMul (x, w) }"
    )
    decision = decisions_of(Model(ir.from_proto(proto), class_names=names)).get("y", LARGEST)
    pairs = []
    for _ in range(20):
        logits = rng.normal(size=(1, 40, 3)) + np.array([8, -4, -4])
        logits[0, 2:5] = [0, 8, 0]
        logits[0, :2] = [3.0, -4, 3.5]
        missed = logits.copy()
        missed[0, :2] = [3.5, -4, 3.0]
        pairs.append((logits, missed))
    found = compared(pairs, decision)
    assert found.outputs[0].agreement == pytest.approx(1 - 2 / 40)
    assert found.outputs[0].sqnr_db is not None
    assert found.outputs[0].sqnr_db > 20
    lost = "class 2 is kept at 0 of its 40 places (overlap 0.00, at least 0.5)"
    assert found.shortfalls() == ([f"output 'y': {lost}"] if names else [])
    assert str(found.outputs[0].worst_class) == lost
