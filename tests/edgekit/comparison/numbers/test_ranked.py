from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import edgekit
from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.self_agreement import with_self_agreement
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.ranked import RankedAccuracy, is_ranked, ranked_rows
from edgekit.comparison.side_by_side import compare, ranked_on
from edgekit.data.samples import Sample
from edgekit.execution.reference import Reference
from edgekit.model import Arrays, Model

OnnxModel = Callable[..., onnx.ModelProto]

CANDIDATES, KEPT, FEATURES, OBJECT = 600, 50, 64, 7
"""Of 600 candidates the 50 with the largest scores are kept; the one with number 7 may be an object."""
RNG = np.random.default_rng(3)
ORDER = RNG.permutation(FEATURES)
WEIGHTS = {
    "m": RNG.standard_normal((FEATURES, CANDIDATES)).astype(np.float32) / 8,
    "w": RNG.standard_normal((FEATURES, CANDIDATES * 2)).astype(np.float32) * 10,
    "nothing": np.full(CANDIDATES, 16, np.float32),
    "middle": np.array(300, np.float32),
    "size": np.array([40, 30], np.float32),
    "kept": np.array([KEPT]),
    "three": np.array(3),
    "pairs": np.array([CANDIDATES, 2]),
    "list": np.array([KEPT]),
    "column": np.array([KEPT, 1]),
    "zero": np.array([0]),
}
OTHERS = {
    "order": ORDER,
    "m_reordered": WEIGHTS["m"][ORDER],
    "w_reordered": WEIGHTS["w"][ORDER],
    "one": np.array(1),
    "half": np.array(0.5, np.float32),
    "more": np.array(1.01, np.float32),
    "last": np.array([-1]),
    "before_first": np.array([-KEPT - 1]),
    "of_the_object": np.where(np.arange(CANDIDATES) == OBJECT, 20, 0).astype(np.float32)[:, None],
    "of_all_others": np.where(np.arange(CANDIDATES) == OBJECT, 0, 20).astype(np.float32)[:, None],
    "batched": np.array([1, CANDIDATES, 4]),
    "by_class": np.array([1, 1, CANDIDATES]),
    "iou": np.array([0.9], np.float32),
    "number": np.array([2]),
    "vector": np.array([-1]),
}

DETECTS = """
    h = MatMul (x, m)
    d = Sub (h, nothing)
    s = Sigmoid (d)
    c = MatMul (x, w)
    r = Reshape (c, pairs)
    low = Add (r, middle)
    high = Add (low, size)
    boxes = Concat <axis = 1> (low, high)
"""
PICKS = """
    top, tops = TopK (s, kept)
    places = Reshape (tops, list)
    picked = Gather <axis = 0> (boxes, places)
    kinds = Mod (places, three)
"""
IN_ONE = f"""g (float[1, 64] x) => (float[1, 50, 6] rows) {{ {DETECTS} {PICKS}
    numbers = Cast <to = 1> (kinds)
    kind = Reshape (numbers, column)
    score = Reshape (top, column)
    table = Concat <axis = 1> (picked, score, kind)
    rows = Unsqueeze (table, zero)
}}"""
APART = f"""g (float[1, 64] x) => (float[50, 4] picked, float[1, 50] top, int64[50] kinds) {{ {DETECTS} {PICKS} }}"""
SUPPRESSED = f"""g (float[1, 64] x) => (float[n, 4] picked, float[n] top, int64[n] kinds) {{ {DETECTS}
    all_boxes = Reshape (boxes, batched)
    all_scores = Reshape (s, by_class)
    found = NonMaxSuppression (all_boxes, all_scores, kept, iou)
    tops = Gather <axis = 1> (found, number)
    places = Reshape (tops, vector)
    picked = Gather <axis = 0> (boxes, places)
    scores = Reshape (s, vector)
    top = Gather <axis = 0> (scores, places)
    kinds = Mod (places, three)
}}"""
REORDERED = {
    "h = MatMul (x, m)": "y = Gather <axis = 1> (x, order) h = MatMul (y, m_reordered)",
    "c = MatMul (x, w)": "c = MatMul (y, w_reordered)",
}
"""Another order of additions."""
FAULTS = {
    "another class": ("kinds = Mod (places, three)", "after = Add (places, one) kinds = Mod (after, three)"),
    "boxes of the next candidates": (
        "picked = Gather <axis = 0> (boxes, places)",
        "before = Sub (places, one) picked = Gather <axis = 0> (boxes, before)",
    ),
    "other corners": ("boxes = Concat <axis = 1> (low, high)", "boxes = Concat <axis = 1> (high, low)"),
    "boxes 1 % larger": ("high = Add (low, size)", "higher = Add (low, size) high = Mul (higher, more)"),
    "scores 1 % larger": ("s = Sigmoid (d)", "t = Sigmoid (d) s = Mul (t, more)"),
    "scores halved": ("s = Sigmoid (d)", "t = Sigmoid (d) s = Mul (t, half)"),
    "all boxes but the object's": (
        "low = Add (r, middle)",
        "moved = Add (r, of_all_others) low = Add (moved, middle)",
    ),
}
OF_THE_OBJECT = {
    "the object's box": ("low = Add (r, middle)", "moved = Add (r, of_the_object) low = Add (moved, middle)"),
    "scores 1 % larger": FAULTS["scores 1 % larger"],
}
OF_THE_LIST = {
    "the smallest scores": ("TopK (s, kept)", "TopK <largest = 0> (s, kept)"),
    "from the last to the first": (
        "rows = Unsqueeze (table, zero)",
        "turned = Slice (table, last, before_first, zero, last) rows = Unsqueeze (turned, zero)",
    ),
    "the scores of others": (
        "table = Concat <axis = 1> (picked, score, kind)",
        "turned = Slice (score, last, before_first, zero, last) table = Concat <axis = 1> (picked, turned, kind)",
    ),
}


class Pictures:
    """Eight normal inputs."""

    has_labels = False

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Sample]:
        for seed in range(len(self)):
            x = np.random.default_rng(seed).standard_normal((1, FEATURES)).astype(np.float32)
            yield Sample(str(seed), {"x": x})


def detector(onnx_model: OnnxModel, graph: str, *changes: tuple[str, str], with_object: bool = False) -> Model:
    for right, other in changes:
        assert right in graph
        graph = graph.replace(right, other)
    numbers = {name: array for name, array in {**WEIGHTS, **OTHERS}.items() if name in graph}
    if with_object:
        numbers["nothing"] = np.where(np.arange(CANDIDATES) == OBJECT, -2, 16).astype(np.float32)
    return Model(ir.from_proto(onnx_model(graph, **numbers)))


def judged(original: Model, built: Model, kind: Kind = Kind.FLOAT32) -> Accuracy:
    reference = Reference(original)
    ranked = ranked_on(Pictures(), reference, original, kind)
    assert ranked is not None
    names = tuple(output.name for output in original.returned_outputs)
    outputs, _ = compare(Pictures(), reference, Reference(built), names, ranked=ranked)
    floors = Floors.of(kind, labelled=False, max_drop=None)
    measured = Accuracy("", "", False, len(Pictures()), floors, outputs, None, ranked=ranked.result())
    return with_self_agreement(measured, original, Pictures(), ranked)


@pytest.mark.parametrize("graph", [IN_ONE, APART, SUPPRESSED])
@pytest.mark.parametrize("with_object", [False, True])
def test_rows_of_equal_scores_may_stand_in_any_order(onnx_model: OnnxModel, graph: str, with_object: bool) -> None:
    original = detector(onnx_model, graph, with_object=with_object)
    found = judged(original, detector(onnx_model, graph, *REORDERED.items(), with_object=with_object))
    assert found.ranked is not None
    assert min(found.ranked.by_place_db.values()) < 10  # by their places they are next to nothing alike
    assert found.shortfalls() == []
    boxes = next(output for output in found.outputs if output.name in ("rows", "picked"))
    assert boxes.worst_sample_db is not None
    assert boxes.worst_sample_db > 90


@pytest.mark.parametrize("graph", [IN_ONE, APART, SUPPRESSED])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("with_object", [False, True])
def test_a_wrong_conversion_is_refused(onnx_model: OnnxModel, graph: str, fault: str, with_object: bool) -> None:
    if fault == "scores 1 % larger" and not with_object:
        pytest.skip("1 % of 1e-6 is less than a sigmoid's rounding")
    original = detector(onnx_model, graph, with_object=with_object)
    built = detector(onnx_model, graph, *REORDERED.items(), FAULTS[fault], with_object=with_object)
    assert judged(original, built).shortfalls()


@pytest.mark.parametrize("graph", [IN_ONE, APART, SUPPRESSED])
@pytest.mark.parametrize("fault", OF_THE_OBJECT)
def test_one_object_among_many_rows_of_background_has_to_be_right(
    onnx_model: OnnxModel, graph: str, fault: str
) -> None:
    original = detector(onnx_model, graph, with_object=True)
    built = detector(onnx_model, graph, *REORDERED.items(), OF_THE_OBJECT[fault], with_object=True)
    assert judged(original, built).shortfalls()


@pytest.mark.parametrize("kind", list(Kind))
@pytest.mark.parametrize("fault", OF_THE_LIST)
@pytest.mark.parametrize("with_object", [False, True])
def test_another_list_is_refused(onnx_model: OnnxModel, kind: Kind, fault: str, with_object: bool) -> None:
    if kind is not Kind.FLOAT32 and fault == "the scores of others":
        pytest.skip("coordinates in pixels have all of the signal")
    original = detector(onnx_model, IN_ONE, with_object=with_object)
    built = detector(onnx_model, IN_ONE, *REORDERED.items(), OF_THE_LIST[fault], with_object=with_object)
    found = judged(original, built, kind)
    assert found.shortfalls()


def test_rows_of_a_detector_decide_nothing_by_their_largest_column(onnx_model: OnnxModel) -> None:
    original = detector(onnx_model, APART)
    found = judged(original, original, Kind.FLOAT16)
    assert [output.decisions for output in found.outputs] == [None, None, None]


LIST = ir.from_proto(
    onnx.parser.parse_graph(
        "g (float[1, n] s, float[n, 2] b, int64[1] k)"
        "=> (float[1, k] top, float[k, 2] rows, int64[1, k] kinds, float[k] z)"
        "{ top, kinds = TopK (s, k) f = Squeeze (kinds) rows = Gather (b, f) z = Squeeze (s) }"
    )
)


def answer(rows: list[tuple[float, float, float, int]]) -> Arrays:
    """Rows of a score, a place of two coordinates and a class."""
    scores, x, y, kinds = zip(*rows, strict=True)
    return {
        "top": np.array([scores], np.float32),
        "rows": np.stack([x, y], axis=1).astype(np.float32),
        "kinds": np.array([kinds]),
        "z": np.arange(len(rows), dtype=np.float32),
    }


ROWS = [(0.9, 10.0, 10.0, 1), (0.5, 20.0, 10.0, 2), (0.5, 10.0, 30.0, 2), (0.2, 40.0, 40.0, 0), (0.1, 50.0, 50.0, 1)]


def held_against(
    rows: list[tuple[float, float, float, int]], *, leaves_out: bool = True
) -> tuple[Arrays, RankedAccuracy]:
    ranked = ranked_rows([answer(ROWS)] * 4, LIST, 50.0, leaves_out=leaves_out)
    assert ranked is not None
    return ranked.add(answer(ROWS), answer(rows)), ranked.result()


def test_outputs_without_the_operator_are_no_part_of_the_list() -> None:
    assert is_ranked(LIST)
    ranked = ranked_rows([answer(ROWS)] * 4, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    assert ranked.outputs == ("top", "rows", "kinds")
    plain = ir.from_proto(onnx.parser.parse_graph("g (float[4] x) => (float[4] y) { y = Sigmoid (x) }"))
    assert not is_ranked(plain)


def test_few_rows_and_rows_that_do_not_fall_are_no_list() -> None:
    assert ranked_rows([answer(ROWS)] * 3, LIST, 50.0, leaves_out=True) is None
    assert ranked_rows([answer(ROWS[::-1])] * 4, LIST, 50.0, leaves_out=True) is None
    assert ranked_rows([], LIST, 50.0, leaves_out=True) is None


def test_outputs_whose_rank_changes_between_samples_are_no_part_of_the_list() -> None:
    batched = answer(ROWS) | {"rows": np.zeros((1, len(ROWS), 2), np.float32)}
    flat = answer(ROWS) | {"rows": np.zeros(1, np.float32)}
    ranked = ranked_rows([batched, flat] * 2, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    assert ranked.outputs == ("top", "kinds")


def test_pictures_that_show_nothing_have_lists_without_rows() -> None:
    nothing = {
        "top": np.zeros((1, 0), np.float32),
        "rows": np.zeros((0, 2), np.float32),
        "kinds": np.zeros((1, 0), np.int64),
        "z": np.zeros(0, np.float32),
    }
    ranked = ranked_rows([nothing, *[answer(ROWS)] * 4], LIST, 50.0, leaves_out=True)
    assert ranked is not None
    assert ranked.outputs == ("top", "rows", "kinds")
    ranked.add(answer(ROWS), answer(ROWS))
    assert ranked.add(nothing, nothing).keys() == nothing.keys()
    assert ranked.result().lost_rows == 0


def test_rows_of_one_score_change_places() -> None:
    moved, found = held_against([ROWS[0], ROWS[2], ROWS[1], *ROWS[3:]])
    np.testing.assert_array_equal(moved["rows"], answer(ROWS)["rows"])
    assert (found.lost_rows, found.lost_scores) == (0, 0)
    assert found.by_place_db["rows"] == pytest.approx(10 * np.log10(9900 / 1000))  # Σ coordinates², 2·(10² + 20²)
    assert found.shortfall() is None


def test_rows_of_other_scores_do_not() -> None:
    moved, found = held_against([(0.9, 20.0, 10.0, 2), (0.5, 10.0, 10.0, 1), *ROWS[2:]])
    np.testing.assert_array_equal(moved["rows"][:2], [[20, 10], [10, 10]])
    assert found.lost_rows == pytest.approx(2 / 5)
    assert found.lost_scores == pytest.approx(1.4 / 2.2)


@pytest.mark.parametrize("other", [(0.1, 99.0, 99.0, 1), (0.1, 50.0, 50.0, 2)], ids=["another place", "another class"])
def test_another_candidate_at_the_cut_off_is_left_out_and_counted(other: tuple[float, float, float, int]) -> None:
    moved, found = held_against([*ROWS[:4], other])
    np.testing.assert_array_equal(moved["rows"], answer(ROWS)["rows"])
    np.testing.assert_array_equal(moved["kinds"], answer(ROWS)["kinds"])
    assert found.lost_rows == pytest.approx(1 / 5)
    assert found.lost_scores == pytest.approx(0.1 / 2.2)
    assert found.shortfall() == (
        "rows that only one of the two models gives make up 20.0% of the rows on the worst sample (at most 1.0%)"
    )
    assert replace(found, own_lost_rows=0.1, own_lost_scores=0.03).shortfall() is None
    assert replace(found, own_lost_rows=0.1, own_lost_scores=0.02).shortfall() == (
        "rows that only one of the two models gives make up 4.5% of the sum of scores on the worst sample (at most "
        "4.0%)"
    )
    kept, _ = held_against([*ROWS[:4], other], leaves_out=False)
    assert (kept["rows"][-1, 0], kept["kinds"][0, -1]) == (other[1], other[3])


def test_what_is_no_number_is_not_left_out() -> None:
    moved, found = held_against([*ROWS[:4], (0.1, float("nan"), 50.0, 1)])
    assert np.isnan(moved["rows"][-1, 0])
    assert found.lost_rows == pytest.approx(1 / 5)


def test_outputs_of_another_shape_stay_as_they_are() -> None:
    moved, _ = held_against(ROWS)
    ranked = ranked_rows([answer(ROWS)] * 4, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    shorter = answer(ROWS[:4])
    assert ranked.add(answer(ROWS), shorter)["rows"] is shorter["rows"]
    assert moved["rows"].shape == (5, 2)


def batch(*lists: list[tuple[float, float, float, int]]) -> Arrays:
    """A list for each picture."""
    return {
        "top": np.array([[score for score, *_ in rows] for rows in lists], np.float32),
        "rows": np.array([[(x, y) for _, x, y, _ in rows] for rows in lists], np.float32),
        "kinds": np.array([[kind for *_, kind in rows] for rows in lists]),
    }


SECOND = [(score / 2, y, x, 2 - kind) for score, x, y, kind in ROWS]
SWAPPED = [ROWS[0], ROWS[2], ROWS[1], *ROWS[3:]]
SECOND_SWAPPED = [SECOND[0], SECOND[2], SECOND[1], *SECOND[3:]]


@pytest.mark.parametrize(
    ("wanted", "built"),
    [([ROWS, SECOND], [SWAPPED, SECOND]), ([ROWS, SECOND, ROWS], [ROWS, SECOND_SWAPPED, SWAPPED]), ([ROWS], [SWAPPED])],
)
def test_every_picture_of_a_batch_has_a_list(
    wanted: list[list[tuple[float, float, float, int]]], built: list[list[tuple[float, float, float, int]]]
) -> None:
    ranked = ranked_rows([batch(ROWS, SECOND), batch(ROWS), batch(SECOND, ROWS)], LIST, 50.0, leaves_out=True)
    assert ranked is not None
    moved = ranked.add(batch(*wanted), batch(*built))
    for name, expected in batch(*wanted).items():
        np.testing.assert_array_equal(moved[name], expected)
    found = ranked.result()
    assert (found.lost_rows, found.lost_scores) == (0, 0)
    assert found.by_place_db["rows"] == pytest.approx(10 * np.log10(9900 / 1000))  # as of a single list


def test_a_row_that_is_lost_from_a_list_of_a_batch_is_a_share_of_that_list() -> None:
    ranked = ranked_rows([batch(ROWS, SECOND)] * 2, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    other = [*SECOND[:3], (SECOND[3][0], 99.0, 99.0, 1), SECOND[4]]
    moved = ranked.anew().add(batch(ROWS, SECOND), batch(ROWS, other))
    np.testing.assert_array_equal(moved["rows"][1, 3], [99, 99])
    ranked.add(batch(ROWS, SECOND), batch(ROWS, other))
    assert ranked.result().lost_rows == pytest.approx(1 / 5)


def test_rows_stay_in_their_list_of_a_batch() -> None:
    ranked = ranked_rows([batch(ROWS, SECOND)] * 2, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    moved = ranked.add(batch(ROWS, SECOND), batch(SECOND, ROWS))
    np.testing.assert_array_equal(moved["rows"], batch(SECOND, ROWS)["rows"])
    assert ranked.result().lost_rows == 1


def test_a_batch_of_nothing() -> None:
    ranked = ranked_rows([batch(ROWS, SECOND)] * 2, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    empty = {name: array[:0] for name, array in batch(ROWS).items()}
    assert ranked.add(empty, empty)["rows"].shape == (0, 5, 2)


def test_a_batch_after_single_lists_has_a_list_for_each_element() -> None:
    """Samples of an open batch, the first ones of which are of one element."""
    ranked = ranked_rows([batch(ROWS)] * 4, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    moved = ranked.add(batch(ROWS, SECOND), batch(SWAPPED, SECOND_SWAPPED))
    for name, expected in batch(ROWS, SECOND).items():
        np.testing.assert_array_equal(moved[name], expected)
    assert ranked.result().lost_rows == 0


@pytest.mark.parametrize(
    "other",
    [
        answer(ROWS) | {"rows": np.zeros((2, len(ROWS), 2), np.float32)},
        answer(ROWS) | {"rows": np.zeros((len(ROWS) + 1, 2), np.float32)},
        answer(ROWS) | {"rows": np.zeros((len(ROWS), 1), np.float32)},
        answer(ROWS * 201),
    ],
    ids=["another rank", "another length", "fewer columns", "a thousand rows"],
)
def test_what_holds_no_list_as_the_ones_before_stays_as_it_is(other: Arrays) -> None:
    ranked = ranked_rows([answer(ROWS)] * 4, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    assert ranked.add(other, other)["rows"] is other["rows"]


@pytest.mark.parametrize("least", [-np.inf, np.inf])
def test_infinite_scores_are_those_of_both_models(least: float) -> None:
    """A policy's forbidden moves, or a recommender's items that were seen already, have the score -∞."""
    ranked = ranked_rows([answer(ROWS)] * 4, LIST, 50.0, leaves_out=True)
    assert ranked is not None
    rows = [*ROWS[:3], (least, 40.0, 40.0, 0), (least, 50.0, 50.0, 1)]
    moved = ranked.add(answer(rows), answer([*rows[:3], rows[4], rows[3]]))
    np.testing.assert_array_equal(moved["rows"], answer(rows)["rows"])
    assert (ranked.result().lost_rows, ranked.result().lost_scores) == (0, 0)
    ranked.add(answer(rows), answer([*rows[:4], ROWS[4]]))
    assert ranked.result().lost_rows == pytest.approx(1 / 5)


def test_the_record_holds_to_the_schema() -> None:
    schema = json.loads((Path(edgekit.__file__).parent / "manifest.schema.json").read_text())
    _, found = held_against([*ROWS[:4], (0.1, 99.0, 99.0, 1)])
    part = {"$defs": schema["$defs"], **schema["$defs"]["accuracy"]["properties"]["ranked"]}
    jsonschema.validate(json.loads(json.dumps(found.as_record())), part)
