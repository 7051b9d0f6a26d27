"""What samples are filled up with is not judged; what merely looks like a mask is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

import edgekit
from edgekit.comparison.decisions.shared import Decision
from edgekit.comparison.padding import Padding, padding_on
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import Sample, Samples, open_samples
from edgekit.execution.reference import Reference
from edgekit.model import Model

LENGTH = 16
WORDS = "float[8, 3] words = {3,0,0, 0,3,0, 0,0,3, 2,1,0, 0,2,1, 1,0,2, -3,-2,-1, 4,-4,4}"
TAGGER = f"""
g (int64[1, {LENGTH}] ids, int64[1, {LENGTH}] real) => (float[1, {LENGTH}, 3] tags, float[1, 3] whole)
<{WORDS}, int64[1] two = {{2}}, int64[1] one = {{1}}> {{
    x = Gather <axis = 0> (words, ids)
    factor = Cast <to = 1> (real)
    column = Unsqueeze (factor, two)
    kept = Mul (x, column)
    sum = ReduceSum <keepdims = 1> (kept, one)
    count = ReduceSum <keepdims = 1> (column, one)
    mean = Div (sum, count)
    tags = Add (x, mean)
    whole = Squeeze (mean, one)
}}
"""
"""The mean of the words that count is added to each word."""
FLAGGED = f"""
g (int64[1, {LENGTH}] ids, int64[1, {LENGTH}] real) => (float[1, {LENGTH}, 3] tags)
<{WORDS}, int64[1] two = {{2}}> {{
    x = Gather <axis = 0> (words, ids)
    factor = Cast <to = 1> (real)
    column = Unsqueeze (factor, two)
    tags = Add (x, column)
}}
"""
"""The flag says something of each word, and no word of another."""
FILLED = f"""
g (float[1, {LENGTH}, 3] x, int64[1, {LENGTH}] real) => (float[1, {LENGTH}, 3] tags)
<int64[1] two = {{2}}, int64[1] one = {{1}},
 float[{LENGTH}, 3] places = {{{", ".join(map(str, range(LENGTH * 3)))}}}> {{
    factor = Cast <to = 1> (real)
    column = Unsqueeze (factor, two)
    kept = Mul (x, column)
    sum = ReduceSum <keepdims = 1> (kept, one)
    there = Add (kept, places)
    tags = Add (there, sum)
}}
"""
"""Values that are missing are filled in, out of those that are there."""


def loaded(file: Path) -> Model:
    return Model(ir.load(file))


def samples(folder: Path, model: Model, counts: list[int], left: bool = False) -> Samples:
    folder.mkdir()
    for number, count in enumerate(counts):
        rng = np.random.default_rng(number)
        real = np.arange(LENGTH)[np.newaxis] < count
        arrays = {"ids": rng.integers(0, 8, (1, LENGTH)), "x": rng.normal(size=(1, LENGTH, 3)).astype(np.float32)}
        arrays["real"] = (real[:, ::-1] if left else real).astype(np.int64)
        np.savez(folder / f"{number}.npz", **{spec.name: arrays[spec.name] for spec in model.inputs})
    return open_samples(folder, model.inputs)


class Wrong:
    """Gives the original's tags, and others at some positions."""

    executed_by = "a test"

    def __init__(self, original: Reference, where: Callable[[np.ndarray], np.ndarray]) -> None:
        self._original = original
        self._where = where

    def run(self, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        outputs = {name: np.array(array) for name, array in self._original.run(feeds).items()}
        wrong = self._where(feeds["real"] != 0)
        outputs["tags"][wrong] = np.roll(outputs["tags"][wrong], 1, axis=-1)
        return outputs


@pytest.mark.parametrize(("tail", "judged"), [("y = Identity (rows)", ()), ("y = Sigmoid (rows)", ("y",))])
def test_where_an_answer_begins_may_be_anywhere(
    onnx_file: Callable[..., Path], tmp_path: Path, tail: str, judged: tuple[str, ...]
) -> None:
    """One number per position: of logits only the largest counts; yes or no counts at each position."""
    graph = TAGGER.replace(f"float[1, {LENGTH}, 3] tags, float[1, 3] whole", f"float[1, {LENGTH}] y").replace(
        "whole = Squeeze (mean, one)",
        f"first = Gather <axis = 2> (tags, zero) column_of = Identity (first) rows = Squeeze (column_of, two) {tail}",
    )
    model = loaded(onnx_file(graph.replace("int64[1] one", "int64[1] zero = {0}, int64[1] one")))
    found = padding_on(samples(tmp_path / "data", model, [4, 9]), Reference(model), model)
    assert (found.outputs if found else ()) == judged


def test_several_texts_at_once(onnx_file: Callable[..., Path]) -> None:
    model = loaded(
        onnx_file(TAGGER.replace(f"[1, {LENGTH}", f"[2, {LENGTH}").replace("float[1, 3] whole", "float[2, 3] whole"))
    )
    real = (np.arange(LENGTH) < np.array([[4], [9]])).astype(np.int64)
    feeds = {"ids": np.random.default_rng(0).integers(0, 8, (2, LENGTH)), "real": real}

    class One(list[Sample]):
        has_labels = False

    found = padding_on(One([Sample("two", feeds)]), Reference(model), model)
    assert found == Padding("real", ("tags",))
    assert found.without(feeds, Reference(model).run(feeds))["tags"].shape == (1, 4 + 9, 3)


@pytest.mark.parametrize("left", [False, True])
def test_the_mask_is_found_and_nothing_else(onnx_file: Callable[..., Path], tmp_path: Path, left: bool) -> None:
    model = loaded(onnx_file(TAGGER))
    data = samples(tmp_path / "data", model, [LENGTH, 4, 9], left)
    assert padding_on(data, Reference(model), model) == Padding("real", ("tags",))


@pytest.mark.parametrize(
    ("graph", "counts"),
    [(FLAGGED, [4, 9]), (FILLED, [4, 9]), (TAGGER, [LENGTH, LENGTH])],
    ids=["a flag", "missing values", "no sample is filled up"],
)
def test_what_is_no_padding(onnx_file: Callable[..., Path], tmp_path: Path, graph: str, counts: list[int]) -> None:
    model = loaded(onnx_file(graph))
    assert padding_on(samples(tmp_path / "data", model, counts), Reference(model), model) is None


@pytest.mark.parametrize("wrong", ["padding", "words"])
def test_padding_neither_blames_nor_excuses(onnx_file: Callable[..., Path], tmp_path: Path, wrong: str) -> None:
    """Three of 16 positions count: errors there are few of all 16, and errors in the padding do not count."""
    model, counts = loaded(onnx_file(TAGGER)), [3] * 8
    data, original = samples(tmp_path / "data", model, counts), Reference(model)

    def first_word(real: np.ndarray) -> np.ndarray:
        return np.arange(LENGTH)[np.newaxis] == 0

    built = Wrong(original, first_word if wrong == "words" else np.logical_not)
    decisions = {"tags": Decision(are_scores=True), "whole": None}
    found = {
        padding: {
            each.name: each
            for each in compare(data, original, built, ("tags", "whole"), decisions=decisions, padding=padding)[0]
        }["tags"]
        for padding in (None, padding_on(data, original, model))
    }
    (_, judged) = found.values()
    assert judged.decisions == sum(counts)
    if wrong == "padding":
        assert judged.agreement == 1.0
        assert judged.exact
        assert found[None].agreement is not None
        assert found[None].agreement < 0.5
    else:
        assert judged.agreement == pytest.approx(2 / 3)
        assert found[None].agreement == pytest.approx(15 / 16)


def test_the_bundle_says_what_is_not_judged(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    model, counts = onnx_file(TAGGER), [3, 5, 2, 7, 4, 6, 3, 5]
    samples(tmp_path / "data", loaded(model), counts)
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "out", data=tmp_path / "data", quantize="int8-weights")
    accuracy = bundle.manifest["accuracy"]
    assert accuracy["padding"] == {"mask": "real", "outputs": ["tags"]}
    assert accuracy["outputs"][0]["decisions"] in (None, sum(counts))
    report = (bundle.path / "report.md").read_text()
    assert "| not judged | positions of tags where 'real' is 0: padding |" in report
    again = edgekit.verify(bundle, data=tmp_path / "data", model=model).accuracy
    assert again is not None
    assert again.padding == Padding("real", ("tags",))
