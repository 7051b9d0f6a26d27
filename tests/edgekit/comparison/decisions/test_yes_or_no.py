from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.decisions.from_graph import decisions_of
from edgekit.comparison.decisions.shared import DecidedBy, Decision
from edgekit.comparison.decisions.yes_or_no import yes_or_no_outputs
from edgekit.comparison.floors import Floors, Kind
from edgekit.comparison.numbers.metrics import OutputAccuracy, OutputComparison
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import Sample
from edgekit.execution.reference import Reference
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]
WEIGHTS = {
    "w1": np.random.default_rng(0).standard_normal((8, 1)).astype(np.float32),
    "w3": np.ones((8, 3), np.float32),
    "k": np.ones((1, 8, 1), np.float32),
    "last": np.array([-1]),
    "less": np.array(3, np.float32),
    "twenty": np.array(20, np.float32),
}


def model(onnx_model: OnnxModel, body: str, outputs: str = "float[2, 5] y", inputs: str = "float[2, 5, 8] x") -> Model:
    graph = f"g ({inputs}) => ({outputs}) {{ {body} }}"
    return Model(ir.from_proto(onnx_model(graph, **{name: each for name, each in WEIGHTS.items() if name in graph})))


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("h = MatMul (x, w1) y = Sigmoid (h)", "float[2, 5, 1] y"),
        ("h = MatMul (x, w1) p = Sigmoid (h) y = Squeeze (p, last)", "float[2, 5] y"),
        ("h = MatMul (x, w1) s = Squeeze (h, last) p = Sigmoid (s) y = Identity (p)", "float[2, 5] y"),
        ("t = Transpose <perm = [0, 2, 1]> (x) h = Conv (t, k) y = Sigmoid (h)", "float[2, 1, 5] y"),
    ],
)
def test_one_probability_a_position_is_an_answer(onnx_model: OnnxModel, body: str, outputs: str) -> None:
    assert yes_or_no_outputs(model(onnx_model, body, outputs)) == {"y"}


@pytest.mark.parametrize(
    ("body", "outputs"),
    [
        ("h = MatMul (x, w3) y = Sigmoid (h)", "float[2, 5, 3] y"),  # classes, or a mask
        ("h = MatMul (x, w1) y = Squeeze (h, last)", "float[2, 5] y"),  # may be scores of places: where a span begins
        ("h = MatMul (x, w1) s = Squeeze (h, last) y = Softmax (s)", "float[2, 5] y"),
        ("h = MatMul (x, w1) p = Sigmoid (h) q = Mul (p, less) y = Squeeze (q, last)", "float[2, 5] y"),
    ],
)
def test_what_is_none(onnx_model: OnnxModel, body: str, outputs: str) -> None:
    assert yes_or_no_outputs(model(onnx_model, body, outputs)) == frozenset()


def crossing(reference: list[float], built: list[float], shape: tuple[int, ...] = (1, -1, 1)) -> OutputAccuracy:
    comparison = OutputComparison("y", Decision(DecidedBy.CROSSING))
    comparison.add(np.array(reference, np.float32).reshape(shape), np.array(built, np.float32).reshape(shape))
    return comparison.result()


def test_the_rarer_answers_of_both_models_count() -> None:
    """Of 100 positions 20 are yes in the original; what was built misses two of them and has one more."""
    found = crossing([0.9] * 20 + [0.2] * 80, [0.4] * 2 + [0.7] * 19 + [0.3] * 79)
    assert found.decisions == 20 + 19
    assert found.agreement == pytest.approx(1 - 3 / 39)
    turned = crossing([0.1] * 20 + [0.8] * 80, [0.6] * 2 + [0.3] * 19 + [0.7] * 79)
    assert (turned.decisions, turned.agreement) == (found.decisions, found.agreement)


def test_to_answer_no_everywhere_agrees_with_nothing() -> None:
    found = crossing([0.9] * 20 + [0.2] * 980, [0.2] * 1000)
    assert (found.decisions, found.agreement) == (20, 0)


@pytest.mark.parametrize("reference", [[0.2] * 100, [0.9] * 9 + [0.2] * 91])
def test_few_answers_prove_nothing(reference: list[float]) -> None:
    found = crossing(reference, reference)
    assert (found.decisions, found.agreement) == (None, None)


class Sequences:
    """Eight normal inputs."""

    has_labels = False

    def __len__(self) -> int:
        return 8

    def __iter__(self) -> Iterator[Sample]:
        for seed in range(len(self)):
            yield Sample(str(seed), {"x": np.random.default_rng(seed).standard_normal((1, 40, 8)).astype(np.float32)})


SURE = "m = MatMul (x, w1) h = Mul (m, twenty) p = Sigmoid (h)"
FORMS = {
    "original": f"{SURE} y = Squeeze (p, last)",
    "less sure": "h = MatMul (x, w1) p = Sigmoid (h) y = Squeeze (p, last)",
    "one later": f"{SURE} a, b = Split <axis = 1> (p, cut) r = Concat <axis = 1> (b, a) y = Squeeze (r, last)",
    "nothing": f"{SURE} n = Sub (p, p) y = Squeeze (n, last)",
}


def judged(onnx_model: OnnxModel, form: str) -> Accuracy:
    extra = {"cut": np.array([1, 39])} if "cut" in FORMS[form] else {}

    def of(body: str) -> Model:
        graph = f"g (float[1, 40, 8] x) => (float[1, 40] y) {{ {body} }}"
        used = {name: array for name, array in {**WEIGHTS, **extra}.items() if name in graph}
        return Model(ir.from_proto(onnx_model(graph, **used)))

    original = of(FORMS["original"])
    answers = decisions_of(original)
    outputs, _ = compare(Sequences(), Reference(original), Reference(of(FORMS[form])), ("y",), decisions=answers)
    return Accuracy("", "", False, 8, Floors.of(Kind.QUANTIZED, labelled=False, max_drop=None), outputs, None)


def test_answers_that_stay_the_same_are_enough(onnx_model: OnnxModel) -> None:
    found = judged(onnx_model, "less sure")
    (output,) = found.outputs
    assert output.sqnr_db is not None
    assert output.sqnr_db < 20
    assert output.agreement == 1
    assert output.decisions is not None
    assert 20 < output.decisions <= 320  # of 320 positions the rarer answer, of each model
    assert found.shortfalls() == []


@pytest.mark.parametrize("form", ["one later", "nothing"])
def test_other_answers_are_refused(onnx_model: OnnxModel, form: str) -> None:
    """The largest entry of a sequence would be elsewhere too; it is the answers that are told."""
    (flaw,) = judged(onnx_model, form).shortfalls()
    assert "decisions changed" in flaw or "is the same for all samples" in flaw
