"""The items that a recommender gives by falling logits, which are a list as a detector's boxes are."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import edgekit
from edgekit.comparison.numbers.ranked import is_ranked, ranked_rows
from edgekit.model import Arrays

ITEMS, KEPT, SAMPLES = 2000, 20, 8
GRAPH = ir.from_proto(
    onnx.parser.parse_graph(
        "g (float[1, n] x, int64[1] k) => (float[1, k] scores, int64[1, k] ids) { scores, ids = TopK (x, k) }"
    )
)


def top(logits: np.ndarray) -> Arrays:
    ids = np.argsort(-logits, kind="stable")[:KEPT]
    return {"scores": logits[None, ids], "ids": ids[None]}


@pytest.fixture
def logits() -> np.ndarray:
    """Products of vectors, of which many of the largest are nearly equal; all are below zero."""
    return np.random.default_rng(0).normal(size=(SAMPLES, ITEMS)).astype(np.float32) - 8


def test_items_that_change_places_are_the_list_s_and_others_are_missing(logits: np.ndarray) -> None:
    assert is_ranked(GRAPH)
    answers = [top(each) for each in logits]
    others = [top(each) for each in logits + np.random.default_rng(1).normal(size=logits.shape, scale=0.03)]
    ranked = ranked_rows(answers, GRAPH, 20.0, leaves_out=False)
    assert ranked is not None
    assert ranked.outputs == ("scores", "ids")
    by_place = missing = 0
    for answer, other in zip(answers, others, strict=True):
        other = {"scores": other["scores"].astype(np.float32), "ids": other["ids"]}
        moved = ranked.add(answer, other)
        np.testing.assert_array_equal(moved["scores"], other["scores"])
        assert int((moved["ids"] != answer["ids"]).sum()) == KEPT - np.intersect1d(answer["ids"], other["ids"]).size
        missing += int((moved["ids"] != answer["ids"]).sum())
        by_place += int((other["ids"] != answer["ids"]).sum())
    assert missing < 0.1 * by_place
    assert ranked.result().by_place_mismatch["ids"] == pytest.approx(by_place / (SAMPLES * KEPT))
    assert ranked.result().lost_scores == 0


def test_a_list_in_another_order_is_another_list(logits: np.ndarray) -> None:
    answers = [top(each * 4) for each in logits]  # the first and the last of a list are more than 10 % apart
    ranked = ranked_rows(answers, GRAPH, 50.0, leaves_out=False)
    assert ranked is not None
    reversed_ids = {"scores": answers[0]["scores"], "ids": answers[0]["ids"][:, ::-1]}
    moved = ranked.add(answers[0], reversed_ids)
    assert (moved["ids"] != answers[0]["ids"]).mean() > 0.8
    assert ranked.result().lost_rows > 0.8


def test_a_label_is_found_where_it_is_in_the_list(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    """A recommender's scores and items: the largest score is always the first, whatever the item."""
    rng = np.random.default_rng(2)
    weights = rng.normal(size=(4, 200)).astype(np.float32)
    model = onnx_file(
        "g (float[1, 4] x) => (float[1, 5] scores, int64[1, 5] ids) { p = MatMul (x, w) scores, ids = TopK (p, k) }",
        w=weights,
        k=np.array([5]),
    )
    inputs = rng.normal(size=(40, 1, 4)).astype(np.float32)
    best = np.argsort(-(inputs[:, 0] @ weights), axis=1)[:, :10]
    labels = best[np.arange(40), rng.integers(0, 10, 40)]
    (tmp_path / "samples").mkdir()
    for number, (x, label) in enumerate(zip(inputs, labels, strict=True)):
        np.savez(tmp_path / "samples" / f"{number:02}.npz", x=x, label=label)
    bundle = edgekit.package(model, "onnxruntime", data=tmp_path / "samples", quantize="none", output=tmp_path / "out")
    found = float((best[:, :5] == labels[:, None]).any(axis=1).mean())
    assert 0.2 < found < 0.8
    task = bundle.manifest["accuracy"]["task"]
    assert task == {
        "metric": "top-5 accuracy", "output": "ids", "reference": found, "built": found, "drop": 0.0, "listed": 5,
    }  # fmt: skip
    assert bundle.manifest.get("classes") is None
    np.testing.assert_array_equal(edgekit.load(bundle).run({"x": inputs[0]})["ids"][0], best[0, :5])
    again = edgekit.verify(bundle, data=tmp_path / "samples").labels
    assert again is not None
    assert again.built == found
