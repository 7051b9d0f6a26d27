from __future__ import annotations

import json
import math
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import edgekit
from edgekit.comparison.boxes.detectors import recognised
from edgekit.comparison.boxes.matching import Boxes, overlap, partners
from edgekit.comparison.boxes.near import nearly_recognised
from edgekit.comparison.meaning import meaning_of
from edgekit.comparison.side_by_side import NO_ORDER, meaning_on, unread_boxes
from edgekit.data.samples import Sample, SeededSamples
from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.features.declared_outputs import DeclaredOutputs
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.stages.load import Load

from .detector_forms import (
    CLASSES,
    FORMS,
    OBJECTS,
    PICTURE,
    Form,
    after_suppression,
    boxes_and_scores,
    centred,
    dense,
    logits_of_queries,
    many_after_suppression,
    yolo8,
)

SCHEMA = json.loads((Path(edgekit.__file__).parent / "manifest.schema.json").read_text())
CENTRED = {"yolo8", "with_keypoints", "yolo5", "logits_of_queries", "softmax_of_queries"}
SHARES = {"boxes_and_scores", "logits_of_queries", "softmax_of_queries"}
SUPPRESSED = {"after_suppression", "many_after_suppression", "in_vectors"}
OF_THEIR_OWN = {"boxes_and_scores", "logits_of_queries", "softmax_of_queries", "in_vectors"}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("form", FORMS)
def test_boxes_are_read_and_matched_whatever_the_form(form: Form) -> None:
    answers = [form(*dense(np.random.default_rng(seed))) for seed in range(3)]
    meaning = meaning_of(answers, PICTURE)
    assert meaning is not None
    again, moved, forgetful = (pickle.loads(pickle.dumps(meaning)).anew() for _ in range(3))
    for seed, answer in enumerate(answers):
        again.add(answer, form(*dense(np.random.default_rng(100 + seed))))
        moved.add(answer, form(*dense(np.random.default_rng(seed), move=15.0)))
        forgetful.add(answer, form(*dense(np.random.default_rng(seed), forget=1)))
    same = again.result()
    assert (same.kind, same.count, same.wrong) == ("boxes", 18, 0)
    assert same.overlap is not None
    assert same.overlap > 0.85
    assert moved.result().wrong == 18
    assert (forgetful.result().count, forgetful.result().wrong) == (15, 3)


def record_of(form: Form) -> dict[str, Any]:
    meaning = meaning_of([form(*dense(np.random.default_rng(seed))) for seed in range(3)], PICTURE)
    assert meaning is not None
    record = meaning.result().as_record()
    validator = jsonschema.Draft202012Validator({"$defs": SCHEMA["$defs"], **meaning_schema()})
    assert [error.message for error in validator.iter_errors(record)] == []
    boxes = json.loads(json.dumps(record))["boxes"]
    assert isinstance(boxes, dict)
    return boxes


def meaning_schema() -> dict[str, Any]:
    found: dict[str, Any] = SCHEMA["$defs"]["accuracy"]["properties"]["meaning"]
    return found


def numbers(columns: Mapping[str, Any], flat: Mapping[str, list[float]], row: int) -> list[float]:
    """A row of columns, by the schema's words alone."""
    found, width = flat[columns["output"]], columns["width"]
    rows = len(found) // width
    places = range(columns["first"], columns["first"] + columns["count"])
    return [found[place * rows + row] if columns["turned"] else found[row * width + place] for place in places]


def strong(record: Mapping[str, Any], outputs: Arrays) -> list[tuple[float, ...]]:
    """Left, top, right and bottom in pixels, score and class of all boxes of a score from 0.5 on."""
    flat = {name: [float(each) for each in array.ravel()] for name, array in outputs.items()}
    boxes = []
    for row in range(len(flat[record["coordinates"]["output"]]) // record["coordinates"]["width"]):
        scores = numbers(record["scores"], flat, row)
        if record["activation"] == "logistic":
            scores = [1 / (1 + math.exp(-score)) for score in scores]
        if record["activation"] == "softmax":
            scores = [math.exp(score) / sum(map(math.exp, scores)) for score in scores]
        if record["objectness"] is not None:
            (there,) = numbers(record["objectness"], flat, row)
            scores = [score * there for score in scores]
        if record["background"] is not None:
            del scores[record["background"]]
        kind = scores.index(max(scores))
        if record["classes"] is not None:
            kind = int(numbers(record["classes"], flat, row)[0])
        one, two, three, four = (
            each * (64 if record["unit"] == "share" else 1) for each in numbers(record["coordinates"], flat, row)
        )
        if record["coordinates_are"] == "centre_and_size":
            one, two, three, four = one - three / 2, two - four / 2, one + three / 2, two + four / 2
        if max(scores) >= 0.5:
            boxes.append((one, two, three, four, max(scores), kind))
    return boxes


@pytest.mark.parametrize("side", [160, 320])
def test_a_map_of_text_is_no_table_of_boxes(side: int) -> None:
    """A probability for each pixel, or each fourth one: blank at the border, a line of text in the middle."""
    picture = (ValueSpec("image", "float32", (1, 3, 320, 320)),)
    rng = np.random.default_rng(0)
    answers: list[Arrays] = []
    for _ in range(4):
        text = rng.uniform(0, 1e-3, (side, side))
        text[side // 2 : side // 2 + 12, 20:-20] = 0.9
        answers.append({"map": text[np.newaxis, np.newaxis].astype(np.float32)})
    assert meaning_of(answers, picture) is None


@pytest.mark.parametrize("form", FORMS)
def test_the_record_is_all_that_a_reader_needs(form: Form) -> None:
    record, name = record_of(form), form.__name__
    assert record["coordinates_are"] == ("centre_and_size" if name in CENTRED else "corners")
    assert record["unit"] == ("share" if name in SHARES else "pixel")
    assert record["suppressed"] == (name in SUPPRESSED)
    assert record["order"] == (None if name in OF_THEIR_OWN else "xy")
    found = strong(record, form(*dense(np.random.default_rng(7))))
    for *box, score, kind in OBJECTS:
        near = [each for each in found if each[5] == kind]
        assert len(near) == (1 if name in SUPPRESSED else 15 if name == "yolo5" else 5)
        for each in near:
            assert np.abs(np.array(each[:4]) - box).max() <= 0.501
            assert score - 0.1 <= each[4] + 1e-6 <= score + 2e-6
    assert len({each[5] for each in found}) == len(OBJECTS)


FEW = {"y": np.array([[[10, 10, 4, 4, 0.9, 0.1], [30, 20, 40, 30, 0.1, 0.8], [5, 5, 9, 9, 0.7, 0.6]]], np.float32)}


def test_outputs_that_the_user_names_need_not_look_like_a_detectors() -> None:
    assert meaning_of([FEW], PICTURE) is None
    meaning = meaning_of([FEW], PICTURE, 2, DeclaredOutputs(("y",), "centre_and_size"))
    assert meaning is not None
    boxes = meaning.result().boxes
    assert boxes is not None
    assert (boxes["coordinates"]["width"], boxes["scores"]["count"], boxes["coordinates"]["turned"]) == (6, 2, False)


class Listed(list[Sample]):
    """Samples in memory."""

    has_labels = False


def few(form: Form, seed: int = 0) -> Arrays:
    """A detector's outputs on a small picture: 40 rows, in which the three objects stand."""
    corners, scores = dense(np.random.default_rng(seed))
    found = scores.max(axis=1) > 0.25
    rows = np.r_[np.flatnonzero(found)[::2], np.flatnonzero(~found)][:40]
    return form(corners[rows], scores[rows])


@pytest.mark.parametrize("form", [yolo8, boxes_and_scores, logits_of_queries])
def test_few_rows_are_boxes_where_there_is_a_column_a_class(form: Form) -> None:
    answers = [few(form, seed) for seed in range(3)]
    assert meaning_of(answers, PICTURE) is None
    meaning = meaning_of(answers, PICTURE, CLASSES)
    assert meaning is not None
    boxes = meaning.result().boxes
    assert boxes is not None
    assert boxes["coordinates_are"] == ("corners" if form is boxes_and_scores else "centre_and_size")


def objectness_and_scores(corners: np.ndarray, scores: np.ndarray) -> Arrays:
    there = scores.max(axis=1, keepdims=True)
    return {"output": np.hstack([centred(corners), there, scores / there])[np.newaxis].astype(np.float32)}


def test_a_further_column_of_few_rows_says_whether_there_is_anything() -> None:
    meaning = meaning_of([few(objectness_and_scores, seed) for seed in range(3)], PICTURE, CLASSES)
    assert meaning is not None
    boxes = meaning.result().boxes
    assert boxes is not None
    assert (boxes["objectness"]["first"], boxes["scores"]["first"], boxes["scores"]["count"]) == (4, 5, CLASSES)


@pytest.mark.parametrize(("form", "named"), [(yolo8, '"output0" looks'), (boxes_and_scores, '"boxes", "scores" look')])
def test_a_detectors_form_that_is_not_read_says_what_to_write(form: Form, named: str) -> None:
    near = nearly_recognised([few(form, seed) for seed in range(3)], PICTURE)
    names, looks = named.rsplit(" ", 1)
    assert str(near) == (
        f"output{'s' if ',' in names else ''} {names} {looks} like a detector's boxes, but no boxes are read, "
        f"because there are 40 rows (at least 100): [outputs] boxes = [{names}] in the project file reads boxes from "
        "there; boxes = false under [outputs] declares that there are none"
    )


def test_a_detector_that_is_sure_of_most_rows_or_of_none_is_told() -> None:
    corners, scores = dense(np.random.default_rng(0))
    sure = str(nearly_recognised([yolo8(corners, np.clip(scores + 0.5, 0, 1))], PICTURE, CLASSES))
    assert "because 100% of the rows have a score of 0.25 or more (at most 30%): [outputs] boxes = [" in sure
    unsure = str(nearly_recognised([yolo8(corners, scores / 10)], PICTURE, CLASSES))
    assert "because no row has a score of 0.25 or more: give samples with something to find" in unsure


@pytest.mark.parametrize("form", [after_suppression, many_after_suppression])
def test_a_detector_that_suppresses_and_finds_nothing_asks_for_other_samples(form: Form) -> None:
    corners, scores = dense(np.random.default_rng(0))
    unsure = [{"output0": form(corners, scores)["output0"] * np.array([1, 1, 1, 1, 0.1, 1], np.float32)}]
    assert meaning_of(unsure, PICTURE) is None
    assert "because no row has a score of 0.25 or more: give samples with something to find" in str(
        nearly_recognised(unsure, PICTURE)
    )
    table = np.random.default_rng(0).normal(size=(1, 20, 6)).astype(np.float32)
    assert nearly_recognised([{"output0": table}], PICTURE) is None


def test_boxes_after_suppression_are_read_where_samples_have_different_numbers_of_them() -> None:
    answers = []
    for seed, count in enumerate((4, 2, 5)):
        rows = after_suppression(*dense(np.random.default_rng(seed)))["output0"]
        answers.append({"output0": rows[:, :count]})
    detector = recognised(answers, PICTURE)
    assert detector is not None
    assert "after suppression" in detector.read_as


@pytest.mark.parametrize(("score", "is_suppressed"), [(1e-7, True), (0.6, False)])
def test_rows_that_fill_up_a_fixed_number_need_not_be_boxes(score: float, is_suppressed: bool) -> None:
    """YOLO26's 300 rows: without a score, some have their right side to the left of the left one."""
    answers = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        rows = after_suppression(*dense(rng))["output0"][0, : len(OBJECTS)]
        corners = np.sort(rng.uniform(0, 64, (300 - len(rows), 2, 2)), axis=1).reshape(-1, 4)
        corners[40, :2] += 70
        kinds = rng.integers(0, CLASSES, len(corners))
        filling = np.column_stack([corners, np.linspace(1e-3, 0, len(corners)), kinds])
        filling[40, 4] = score
        answers.append({"output0": np.vstack([rows, filling])[np.newaxis].astype(np.float32)})
    detector = recognised(answers, PICTURE)
    assert ("after suppression" in ("" if detector is None else detector.read_as)) == is_suppressed


@pytest.mark.parametrize("counts", [(0, 0), (0, 5), (5, 0)])
def test_a_detector_may_give_as_many_rows_as_it_finds(counts: tuple[int, ...]) -> None:
    """torchvision's: boxes, scores and classes of none on a picture without objects."""
    shapes = {"boxes": (4,), "scores": (), "masks": (1, 8, 8)}
    answers = [{name: np.ones((count, *shape), np.float32) for name, shape in shapes.items()} for count in counts]
    assert meaning_of(answers, PICTURE) is None
    assert nearly_recognised(answers, PICTURE) is None


@pytest.mark.parametrize("counts", [(6, 9), (9, 6), (20, 4)])
def test_a_table_with_as_many_rows_as_a_sample_has_key_points_holds_no_boxes(counts: tuple[int, ...]) -> None:
    """SuperPoint's descriptors: fewer rows than the 16 columns on some samples, and columns that are no boxes."""
    rng = np.random.default_rng(0)
    answers = [
        {"keypoints": rng.uniform(0, 1, (count, 2)), "descriptors": rng.normal(size=(count, 16))} for count in counts
    ]
    assert recognised(answers, PICTURE) is None
    assert nearly_recognised(answers, PICTURE) is None


@pytest.mark.parametrize(("rows", "is_read"), [(yolo8(*dense(np.random.default_rng(0))), True), (few(yolo8), False)])
def test_boxes_in_pictures_whose_size_the_file_leaves_free_are_read(
    onnx_model: Callable[..., onnx.ModelProto], rows: Arrays, is_read: bool
) -> None:
    shape = ", ".join(map(str, rows["output0"].shape))
    body = "m = ReduceMean <keepdims = 0> (image) n = Mul (m, nothing) output0 = Add (n, rows)"
    graph = f"g (float[1, 3, H, W] image) => (float[{shape}] output0) {{ {body} }}"
    proto = onnx_model(graph, rows=rows["output0"], nothing=np.array(0, np.float32))
    model = Model(ir.from_proto(proto))
    samples = Listed([Sample(str(seed), {"image": np.full((1, 3, 64, 64), seed, np.float32)}) for seed in range(3)])
    assert (meaning_on(samples, Reference(model), model) is not None) == is_read
    assert is_read or len(unread_boxes(samples, Reference(model), model, None)) == 1


def test_boxes_whose_order_is_not_seen_are_told(perceptron: Path) -> None:
    model = Load()(perceptron).model
    samples = SeededSamples(model, 1)
    for form, told in ((boxes_and_scores, 1), (yolo8, 0)):
        meaning = meaning_of([form(*dense(np.random.default_rng(0)))], PICTURE)
        assert meaning is not None
        texts = unread_boxes(samples, Reference(model), model, meaning.result())
        assert len(texts) == told
    assert unread_boxes(samples, Reference(model), model, None) == []
    assert NO_ORDER == (
        'whether x or y comes first in the boxes is not seen on these samples: [outputs] order = "xy", or "yx", in the '
        "project file says it; without it the code that ships in the bundle finds no boxes"
    )


def test_nothing_is_near_boxes_once_the_user_says_what_outputs_tell() -> None:
    answers = [few(yolo8, seed) for seed in range(3)]
    assert nearly_recognised(answers, PICTURE, None, DeclaredOutputs(())) is None
    assert nearly_recognised(answers, PICTURE, None, DeclaredOutputs(embeddings=("output0",))) is None


def test_of_two_outputs_that_may_be_coordinates_the_user_names_these_first() -> None:
    corners, scores = dense(np.random.default_rng(0))
    four = np.hstack([scores, scores[:, :1] / 2])[np.newaxis].astype(np.float32)
    answer = {"scores": four, "boxes": corners[np.newaxis].astype(np.float32)}
    assert meaning_of([answer], PICTURE) is None
    meaning = meaning_of([answer], PICTURE, None, DeclaredOutputs(("boxes", "scores")))
    assert meaning is not None
    assert meaning.result().outputs == ("boxes", "scores")


def test_what_the_user_says_of_boxes_wins() -> None:
    answers = [boxes_and_scores(*dense(np.random.default_rng(seed))) for seed in range(3)]
    said = DeclaredOutputs(("boxes", "scores"), "centre_and_size", "pixel", "yx")
    meaning = meaning_of(answers, PICTURE, None, said)
    assert meaning is not None
    boxes = meaning.result().boxes
    assert boxes is not None
    assert (boxes["coordinates_are"], boxes["unit"], boxes["order"]) == ("centre_and_size", "pixel", "yx")
    assert meaning_of(answers, PICTURE, None, DeclaredOutputs(())) is None


def test_outputs_that_are_not_read_as_boxes_are_an_error() -> None:
    outputs = {"y": np.zeros((1, 10), np.float32), "z": np.zeros((2, 3, 4), np.float32)}
    with pytest.raises(InputError) as failure:
        meaning_of([outputs], PICTURE, None, DeclaredOutputs(("y", "z")))
    assert str(failure.value) == (
        "[outputs] boxes: boxes are not read from these outputs\n"
        "expected: a row or a column a box, with four coordinates and scores, one of 0.125 or more on the samples\n"
        "found: y: 1×10, z: 2×3×4\n"
        "hint: name all outputs that tell of boxes, and no others; boxes = false judges outputs as numbers"
    )


def other_outputs() -> dict[str, tuple[Arrays, tuple[ValueSpec, ...]]]:
    rng = np.random.default_rng(0)
    raw = rng.standard_normal((1, 128, 384)).astype(np.float32)
    shares = np.exp(rng.standard_normal((1, 400, 20)))
    shares /= shares.sum(axis=-1, keepdims=True)
    steps = np.exp(3.5 * np.random.default_rng(0).standard_normal((1, 400, 1000)))
    steps = np.round(127 * steps / steps.sum(axis=-1, keepdims=True)) / 127
    return {
        "scores of classes": ({"y": shares[:, 0].astype(np.float32)}, PICTURE),
        "tokens": ({"y": raw}, (ValueSpec("ids", "int64", (1, 128)),)),
        "softmax of steps": ({"y": shares.astype(np.float32)}, PICTURE),
        "softmax of steps, quantized": ({"y": steps.astype(np.float32)}, PICTURE),
        "a map": ({"y": rng.uniform(0, 1, (1, 1, 64, 64)).astype(np.float32)}, PICTURE),
        "spectra": ({"y": np.abs(raw)}, (ValueSpec("x", "float32", (1, 16000)),)),
        "features": ({"y": raw}, PICTURE),
    }


@pytest.mark.parametrize("what", other_outputs())
def test_other_outputs_tell_nothing_that_is_known(what: str) -> None:
    outputs, inputs = other_outputs()[what]
    assert meaning_of([outputs], inputs) is None
    assert nearly_recognised([outputs], inputs) is None


def test_overlap_is_intersection_over_union() -> None:
    found = overlap(np.array([[0.0, 0, 2, 2]]), np.array([[1.0, 1, 3, 3], [0, 0, 2, 2], [2, 2, 3, 3], [0, 0, 2, 1]]))
    np.testing.assert_allclose(found, [[1 / 7, 1, 0, 0.5]])


def matched(found: tuple[int, list[tuple[int, int, float]]]) -> tuple[int, int]:
    return found[0], len(found[1])


def test_a_box_is_the_partner_of_one_only_and_of_its_class() -> None:
    box = np.array([[0.0, 0, 10, 10]])
    twice = Boxes(np.vstack([box, box]), np.array([0.9, 0.8]), np.array([1, 1]))
    assert matched(partners(twice, Boxes(box, np.array([0.9]), np.array([1])))) == (2, 1)
    assert matched(partners(twice, Boxes(box, np.array([0.9]), np.array([0])))) == (2, 0)


def test_a_box_that_falls_a_little_below_the_bound_is_found_by_both() -> None:
    box = np.array([[0.0, 0, 10, 10]])
    strong, weak = (Boxes(box, np.array([score]), np.array([0])) for score in (0.26, 0.24))
    assert matched(partners(strong, weak)) == (1, 1)
    assert matched(partners(weak, strong)) == (0, 0)


def test_a_box_without_an_area_shows_nothing() -> None:
    corners = np.array([[0.0, 0, 10, 10], [20, 20, 20, 30], [30, 30, 25, 40]])
    boxes = Boxes(corners, np.array([0.5, 0.9, 0.8]), np.array([0, 0, 0])).suppressed()
    np.testing.assert_array_equal(boxes.corners, corners[:1])
