"""What candidates lose of outputs other than the first, on answers that are counted by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.shared import DecidedBy, Decision
from edgekit.data.samples import Sample
from edgekit.features.class_scores import ClassChoice
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest, QuantizationResult
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.search.choices import decides_by_product
from edgekit_quantize.search.choices_beside import (
    ChoicesKept,
    choices_beside,
    choosing_like,
    heads_of,
    is_first_made_into,
    signals_of,
)
from edgekit_quantize.search.score import HeadKept, Score
from edgekit_quantize.search.scoring import Scorer

HEADER = '<ir_version: 8, opset_import: ["" : 17]>'
FACES = f"""{HEADER}
g (float[1, 8] x) => (float[1, 4] box, float[1, 2] face) {{
  r = Gemm(x, w1, b1)
  h = Relu(r)
  box = Gemm(h, w2, b2)
  f = Gemm(h, w3, b3)
  face = Softmax(f)
}}"""
SECOND = {"root": Decision(axis=-1, is_known=True, are_scores=True)}


class Vectors:
    """Samples drawn anew, and alike, on every walk."""

    has_labels = False

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(5)
        for number in range(len(self)):
            yield Sample(str(number), {"x": rng.normal(size=(1, 8)).astype(np.float32)})


@pytest.fixture
def faces(parse: Callable[..., ir.Model], rng: np.random.Generator) -> Model:
    """A box, and behind it whether it holds a face: of 8 numbers, by as many hidden ones."""
    shapes = {"w1": (8, 8), "b1": (8,), "w2": (8, 4), "b2": (4,), "w3": (8, 2), "b3": (2,)}
    return Model(parse(FACES, **{name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}))


def rows_of(classes: int, *, labelled: bool = False) -> list[Reference]:
    """A thousand samples of two heads, whose classes go round: by one from sample to sample, and by three."""
    eye = 4 * np.eye(classes, dtype=np.float32) - 1
    outputs = [{"bass": eye[n % classes][None], "root": eye[n * 3 % classes][None]} for n in range(1000)]
    return [Reference({"x": np.int64(n)}, each, n % classes if labelled else None) for n, each in enumerate(outputs)]


def with_others(rows: Sequence[Reference], changed: int) -> Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]:
    """A candidate that gives the first roots to other classes."""

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = int(feeds["x"])
        given = rows[number].outputs
        return {**given, "root": np.roll(given["root"], 1 if number < changed else 0)}

    return run


@pytest.mark.parametrize(("changed", "drop", "head"), [(0, 0.0, None), (5, 0.005, "root"), (30, 0.03, "root")])
def test_each_head_has_the_whole_budget(changed: int, drop: float, head: str | None) -> None:
    """Of a thousand roots, whatever the budget is: half a percent is too much of one of 0.1 %."""
    rows = rows_of(5)
    score = Scorer.by_references(References.of(rows), classes=True, beside=SECOND)(with_others(rows, changed))
    assert (score.metric, score.value, score.drop, score.head) == ("agreement", 1.0, drop, head)
    assert score.heads == {"root": HeadKept(1 - changed / 1000, 1000)}


def test_heads_beside_the_one_with_labels_have_the_budget() -> None:
    rows = rows_of(5, labelled=True)
    choice = ClassChoice(output="bass")
    score = Scorer.by_references(References.of(rows), classes=True, choice=choice, beside=SECOND)(with_others(rows, 30))
    assert (score.metric, score.value, score.drop, score.head) == ("accuracy", 1.0, 0.03, "root")


def test_the_first_head_has_the_budget_where_another_one_has_the_labels() -> None:
    rows = rows_of(5, labelled=True)
    turned = [replace(row, outputs=dict(reversed(row.outputs.items()))) for row in rows]
    scorer = Scorer.by_references(
        References.of(turned),
        classes=True,
        choice=ClassChoice(output="bass"),
        decision=SECOND["root"],
        beside={"bass": SECOND["root"]},
    )
    score = scorer(with_others(turned, 30))
    assert (score.metric, score.drop, score.head) == ("accuracy", 0.03, "root")


@pytest.mark.parametrize(("margin", "most"), [(4.0, 1.0), (0.5, 0.99)])
def test_of_few_decisions_margins_tell_how_many_change(margin: float, most: float) -> None:
    """Of 32 with noise of 0.25 none changes: of margins of 4 none is expected to, of 0.5 more than Phi(-0.5 / 0.25)."""
    eye = margin * np.eye(4, dtype=np.float32)
    rows = [Reference({"x": np.int64(n)}, {"a": eye[n % 4][None], "root": eye[n % 4][None]}) for n in range(32)]
    noise = np.random.default_rng(1).normal(size=(32, 1, 4)).clip(-0.8, 0.8).astype(np.float32) * 0.3

    def candidate(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = int(feeds["x"])
        return {"a": rows[number].outputs["a"], "root": rows[number].outputs["root"] + noise[number]}

    assert all((candidate(row.feeds)["root"].argmax() == row.outputs["root"].argmax()) for row in rows)
    score = Scorer.by_references(References.of(rows), classes=True, beside=SECOND)(candidate)
    kept = score.heads["root"].share
    assert kept == pytest.approx(1.0) if most == 1.0 else 0.9 < kept < most


@pytest.mark.parametrize("flipped", [0, 1])
def test_the_first_head_loses_what_is_counted_or_expected_whichever_is_more(flipped: int) -> None:
    """One of 32 that was as good as undecided is 3.1 % if counted, and half of that at most by its margin."""
    answers = 4 * np.eye(4, dtype=np.float32)[np.arange(32) % 4] - 1
    answers[0] = [1.02, 1.0, -1, -1]
    noise = 0.1 * np.random.default_rng(1).normal(size=(32, 4)).astype(np.float32)
    noise[0] = [0, 0.05 * flipped, 0, 0]
    rows = [Reference({"x": np.int64(n)}, {"bass": each[None], "root": each[None]}) for n, each in enumerate(answers)]

    def candidate(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        found = (answers + noise)[int(feeds["x"])][None]
        return {"bass": found, "root": found}

    score = Scorer.by_references(References.of(rows), classes=True, beside=SECOND)(candidate)
    assert 1 - 0.5 / 32 <= score.heads["root"].share < 1.0
    assert score.value == (31 / 32 if flipped else score.heads["root"].share)
    assert score.head is None


def test_of_the_first_head_answers_of_another_shape_are_counted() -> None:
    rows = [
        Reference({"x": np.int64(n)}, {"bass": 4 * np.eye(4, dtype=np.float32)[n % 4][None] - 1}) for n in range(32)
    ]

    def candidate(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = int(feeds["x"])
        return {"bass": rows[number].outputs["bass"] if number else np.zeros((2, 4), np.float32)}

    assert Scorer.by_references(References.of(rows), classes=True)(candidate).value == 31 / 32


def test_numbers_of_the_first_head_count_with_the_others() -> None:
    """One of 32 in one of five heads of numbers is one of 160, whichever head it is."""
    number = Decision(DecidedBy.NUMBER, is_known=True)
    names = [f"c{at}" for at in range(5)]
    rows = [
        Reference({"x": np.int64(n)}, {name: np.array([(n + at) % 7]) for at, name in enumerate(names)})
        for n in range(32)
    ]
    scorer = Scorer.by_references(
        References.of(rows), classes=True, decision=number, beside=dict.fromkeys(names[1:], number)
    )

    def drop(changed: str) -> float:
        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            outputs = rows[int(feeds["x"])].outputs
            return {name: each + (int(feeds["x"]) == 3 and name == changed) for name, each in outputs.items()}

        return scorer(run).drop

    assert drop("c0") == drop("c2") == pytest.approx(1 / 160)


def test_numbers_of_classes_count_together_where_they_are_few() -> None:
    """One of 32 in one of five heads may be luck, one in each of them is not: 5 of 160 are 3.1 %."""
    heads = {f"c{at}": Decision(DecidedBy.NUMBER, is_known=True) for at in range(5)}
    rows = [
        Reference({"x": np.int64(n)}, {name: np.array([(n + at) % 7]) for at, name in enumerate(heads)})
        for n in range(32)
    ]

    def drop(of: int) -> float:
        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            number = int(feeds["x"])
            outputs = rows[number].outputs
            return {name: outputs[name] + (number == 3 and at < of) for at, name in enumerate(outputs)}

        beside = dict([*heads.items()][1:])
        return Scorer.by_references(References.of(rows), classes=False, beside=beside)(run).drop

    assert drop(0) == 0.0
    assert drop(5) == pytest.approx(4 / 128)


def test_quantities_beside_a_head_need_the_signal_of_a_bundle() -> None:
    rng = np.random.default_rng(0)
    eye = np.eye(5, dtype=np.float32)
    ages = rng.normal(40, 12, size=(100, 1, 1)).astype(np.float32)
    rows = [Reference({"x": np.int64(n)}, {"bass": eye[n % 5][None], "age": ages[n]}) for n in range(100)]

    def off_by(share: float) -> Score:
        def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            outputs = rows[int(feeds["x"])].outputs
            return {**outputs, "age": outputs["age"] * np.float32(1 + share)}

        return Scorer.by_references(References.of(rows), classes=True, signals=["bass", "age"])(run)

    assert off_by(0.09).drop == 0.0  # 20.9 dB
    assert (off_by(0.2).head, off_by(0.2).drop) == ("age", pytest.approx(0.04, rel=1e-3))  # 14 dB: 4 % of the power
    assert [*off_by(0.2).heads] == ["age"]


def test_a_box_and_a_face_have_budgets_of_their_own(faces: Model) -> None:
    """Without --max-drop a box may lose 0.3 % of its variance, and its face 1 % of the decisions."""
    score = Score("explained", 1.0, 1.0, 30.0, heads={"face": HeadKept(0.99, 1000)}, head_weight=0.3)
    assert (score.drop, score.head, score.share) == (0.003, "face", 0.99)
    record = PostTrainingQuantizer().quantize(QuantizationRequest(faces, scheme="int8", samples=Vectors())).record
    assert record["max_drop"] == 0.003
    assert {tuple(trial["heads"]) for trial in record["curve"]} == {("face",)}


def test_a_head_has_its_own_budget_in_a_search_of_sizes(faces: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --max-drop, where half of the samples judge weights: the box may lose 0.3 %, its face 1 %."""
    asked: list[tuple[Scorer, float]] = []

    def search(*given: Any) -> SimpleNamespace:
        asked.append((given[4], given[5]))
        return SimpleNamespace(run=lambda: QuantizationResult(faces, {}))

    monkeypatch.setattr("edgekit_quantize.plugin.Sizing", search)
    PostTrainingQuantizer().quantize(QuantizationRequest(faces, "auto", Vectors(), max_bytes=100_000))
    ((scorer, max_drop),) = asked
    assert len(scorer.references) == len(Vectors()) // 2
    assert (max_drop, scorer.head_weight) == (0.003, 0.3)


def test_tags_in_front_of_another_head_are_one() -> None:
    tags = Decision(are_scores=True, independent=True)
    rows = [
        Reference({"x": np.int64(n)}, {"tags": np.eye(4, dtype=np.float32)[n % 4][None], "root": row.outputs["root"]})
        for n, row in enumerate(rows_of(5))
    ]
    both = Scorer.by_references(References.of(rows), classes=False, beside={"tags": tags, **SECOND})
    assert [*both.beside] == ["tags", "root"]
    assert not Scorer.by_references(References.of(rows), classes=False, beside={"tags": tags}).beside


@pytest.mark.parametrize("changed", [0, 10])
def test_of_tags_the_rarer_answers_count(changed: int) -> None:
    """Of 4,000 tags 1,000 are there: ten that are lost are one in 199 of those that either model finds, twice over."""
    tags = Decision(are_scores=True, independent=True)
    rows = [
        Reference({"x": np.int64(n)}, {"root": each.outputs["root"], "tags": 0.05 + 0.9 * np.eye(4)[n % 4][None]})
        for n, each in enumerate(rows_of(5))
    ]

    def run(feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        number = int(feeds["x"])
        outputs = rows[number].outputs
        return {**outputs, "tags": np.minimum(outputs["tags"], 0.4) if number < changed else outputs["tags"]}

    heads = {**SECOND, "tags": tags}
    score = Scorer.by_references(References.of(rows), classes=True, decision=SECOND["root"], beside=heads)(run)
    assert score.drop == pytest.approx(changed / (2000 - changed), abs=1e-9)


def test_few_tags_are_expected_to_change_by_their_own_number() -> None:
    """Of 64 samples with 8 tags a quarter is there: what a margin says of a tag is held against the 256 that count."""
    rng = np.random.default_rng(4)
    logits = rng.choice([-1, 1], size=(64, 1, 8), p=[0.75, 0.25]) * rng.uniform(0.5, 4, size=(64, 1, 8))
    noise = 0.02 * rng.normal(size=logits.shape)
    found = ChoicesKept({"tags": Decision(are_scores=True, independent=True)})
    for one, other in zip(logits, logits + noise, strict=True):
        found.add({"tags": 1 / (1 + np.exp(-one))}, {"tags": 1 / (1 + np.exp(-other))})
    assert found.kept()["tags"].share == pytest.approx(1.0, abs=1e-3)


def test_where_both_models_are_sure_of_no_tag_the_largest_does_not_count() -> None:
    """One of 40 frames has a note in each sample; which number is the largest in the others is noise."""
    rng = np.random.default_rng(5)
    found, lost = (ChoicesKept({"notes": Decision(are_scores=True, independent=True)}) for _ in range(2))
    for number in range(32):
        one, other = 10.0 ** -rng.uniform(3, 7, (2, 1, 40, 6))
        one[0, 0, number % 6] = other[0, 0, number % 6] = 0.9
        found.add({"notes": one}, {"notes": other})
        lost.add({"notes": one}, {"notes": one / 4})
    assert found.kept()["notes"].share == 1.0
    assert lost.kept()["notes"].share == 0.0


def test_few_tags_that_all_vanish_are_lost_though_the_largest_stays() -> None:
    found = ChoicesKept({"notes": Decision(are_scores=True, independent=True)})
    for number in range(12):
        one = np.where(np.arange(6) == number % 6, 0.9, 0.01)[None]
        found.add({"notes": one}, {"notes": one * 0.55})
    assert found.kept()["notes"] == HeadKept(0.0, 12)


def test_heads_are_products_yes_and_no_and_tags(parse: Callable[..., ir.Model]) -> None:
    shapes = {"w": (8, 3), "b": (3,), "w1": (8, 1), "b1": (1,)}
    arrays = {name: np.ones(shape, np.float32) for name, shape in shapes.items()}
    nodes = "d = Gemm(x, w, b) t = Gemm(x, w, b) tags = Sigmoid(t) o = Gemm(x, w1, b1) odd = Sigmoid(o) "
    nodes += "age = Gemm(x, w1, b1)"
    ends = "float[1, 3] d, float[1, 3] tags, float[1, 1] odd, float[1, 1] age"
    model = Model(parse(f"{HEADER} g (float[1, 8] x) => ({ends}) {{ {nodes} }}", **arrays))
    decisions = decisions_of(model)
    assert [*heads_of(model.graph, decisions)] == ["d", "tags", "odd"]
    assert signals_of(model.graph, decisions) == ["d", "tags", "odd", "age"]


def test_a_convolution_of_one_place_is_a_product(parse: Callable[..., ir.Model]) -> None:
    """Pooled before, it is a Gemm; of several places, or without a bias, it may be features."""
    arrays = {"w": np.ones((3, 4, 1, 1), np.float32), "b": np.ones(3, np.float32)}
    nodes = "p = GlobalAveragePool(x) c = Conv(p, w, b) d = Flatten(c) e = Conv(p, w) f = Flatten(e) "
    nodes += "g = Conv(x, w, b) h = Flatten(g)"
    inner = "float[1, 3, 1, 1] c, float[1, 3, 1, 1] e, float[1, 3, 2, 2] g"
    ends = "float[1, 3] d, float[1, 3] f, float[1, 12] h"
    graph = parse(f"{HEADER} g (float[1, 4, 2, 2] x) => ({ends}) <{inner}> {{ {nodes} }}", **arrays).graph
    assert [decides_by_product(output) for output in graph.outputs] == [True, False, False]


def test_logits_their_softmax_and_the_largest_ones_number_are_one_choice(parse: Callable[..., ir.Model]) -> None:
    nodes = "l = Gemm(x, w) p = Softmax(l) a = ArgMax<axis = 1, keepdims = 0>(p) o = Gemm(x, w)"
    ends = "float[1, 3] l, float[1, 3] p, int64[1] a, float[1, 3] o"
    graph = parse(f"{HEADER} g (float[1, 8] x) => ({ends}) {{ {nodes} }}", w=np.ones((8, 3), np.float32)).graph
    assert choosing_like(graph, "p") == {"l", "p", "a"}


def test_quantities_with_scales_of_their_own_are_no_head() -> None:
    """Degrees and a share of either sign: whether the degrees are above zero tells which is the larger one."""
    rng = np.random.default_rng(2)
    eye = np.eye(5, dtype=np.float32)
    rows = [
        Reference({"x": np.int64(n)}, {"bass": eye[n % 5][None], "root": (rng.normal(size=(1, 2)) * [20, 1])})
        for n in range(64)
    ]

    def beside(decision: Decision) -> list[str]:
        return [*Scorer.by_references(References.of(rows), classes=True, beside={"root": decision}).beside]

    assert beside(Decision()) == []
    assert beside(SECOND["root"]) == ["root"]


def test_a_second_head_of_one_number_does_not_count() -> None:
    eye = np.eye(5, dtype=np.float32)
    rows = [Reference({"x": np.int64(n)}, {"bass": eye[n % 5][None], "root": eye[:1, :1]}) for n in range(20)]

    scorer = Scorer.by_references(References.of(rows), classes=True, beside=SECOND)

    assert not scorer.beside


def test_a_box_in_front_of_a_softmax_is_no_choice_of_one_side(faces: Model) -> None:
    """Both end with a product and a bias; which of a box's four numbers is the largest says nothing."""
    request = QuantizationRequest(faces, scheme="int8", samples=Vectors(), max_drop=1.0)
    record = PostTrainingQuantizer().quantize(request).record
    assert {trial["metric"] for trial in record["curve"]} == {"explained"}


def test_logits_in_front_of_their_own_probabilities_are_a_choice(parse: Callable[..., ir.Model]) -> None:
    nodes = "l = Gemm(x, w) p = Softmax(l)"
    text = f"{HEADER} g (float[1, 8] x) => (float[1, 3] l, float[1, 3] p) {{ {nodes} }}"
    graph = parse(text, w=np.ones((8, 3), np.float32)).graph
    assert is_first_made_into(graph, choices_beside(graph, decisions_of(Model(parse(text, w=np.ones((8, 3), "f"))))))


def test_a_box_is_not_made_into_what_stands_beside_it(faces: Model) -> None:
    beside = choices_beside(faces.graph, decisions_of(faces))
    assert [*beside] == ["face"]
    assert not is_first_made_into(faces.graph, beside)


def test_weights_of_an_attention_are_no_choice(parse: Callable[..., ir.Model]) -> None:
    nodes = "t = Transpose<perm = [0, 2, 1]>(x) s = MatMul(x, t) a = Softmax(s) y = MatMul(a, x)"
    text = f"{HEADER} g (float[1, 6, 4] x) => (float[1, 6, 4] y, float[1, 6, 6] a) {{ {nodes} }}"
    model = Model(parse(text))
    decision = decisions_of(model)["a"]
    assert decision is not None
    assert decision.is_known
    assert choices_beside(model.graph, decisions_of(model)) == {}
