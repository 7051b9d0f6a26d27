"""What rounding the inputs of one layer adds to a model's outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.calibration.statistics import calibrate
from edgekit_quantize.placement import place
from edgekit_quantize.search import output_noise
from edgekit_quantize.search.output_noise import SwitchedModel, noise_between, noise_of_inputs
from edgekit_quantize.settings import Preparation, Settings

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x) => (float[1, 4] y, float[1, 4] p) {
  [first] a = MatMul(x, w)
  r = Relu(a)
  [second] b = MatMul(r, v)
  y = Mul(b, half)
  p = Softmax(b)
}"""
SETTINGS = Settings(Preparation(ranges={"MatMul": "minmax"}), layers={"MatMul": "input"})


@pytest.fixture
def weights(rng: np.random.Generator) -> dict[str, np.ndarray]:
    drawn = {name: rng.normal(size=(4, 4)).astype(np.float32) for name in "wv"}
    return {**drawn, "half": np.float32(0.5)}


def rounded(array: np.ndarray, low: float, high: float) -> np.ndarray:
    """Numbers rounded to 256 steps between the extremes, zero among the steps."""
    low, high = min(low, 0.0), max(high, 0.0)
    scale = np.float32((high - low) / 255)
    zero = np.rint(-low / scale)
    return ((np.clip(np.rint(array / scale) + zero, 0, 255) - zero) * scale).astype(np.float32)


def test_the_error_of_each_layer_is_that_of_its_rounded_inputs_at_the_outputs(
    parse: Callable[..., ir.Model], rng: np.random.Generator, weights: dict[str, np.ndarray]
) -> None:
    model = parse(MODEL, **weights)
    samples = [{"x": rng.normal(size=(1, 4)).astype(np.float32)} for _ in range(4)]
    plan = place(model.graph, SETTINGS)
    tensors = calibrate(model, dict.fromkeys(plan.observed(), ()), ((feeds, None) for feeds in samples), 4).tensors

    noises = noise_of_inputs(model, plan, tensors, References.of([Reference(feeds, {}) for feeds in samples]))

    x = np.concatenate([feeds["x"] for feeds in samples])
    hidden = np.maximum(x @ weights["w"], 0)
    right = hidden @ weights["v"]
    wrong = {
        "first": np.maximum(rounded(x, x.min(), x.max()) @ weights["w"], 0) @ weights["v"],
        "second": rounded(hidden, hidden.min(), hidden.max()) @ weights["v"],
    }
    variance = np.sum((right - right.mean(0)) ** 2)
    # y is half of b, p is made of b by Softmax: both have the same error for their variance
    expected = {name: 2 * np.sum((found - right) ** 2) / variance for name, found in wrong.items()}
    assert noises == {name: pytest.approx(noise, rel=0.02) for name, noise in expected.items()}


def test_parts_of_a_model_tell_what_the_whole_model_does(
    parse: Callable[..., ir.Model], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An output in the middle, one behind a Softmax, a layer in a branch, and a value that is read far behind."""
    drawn = {f"w{number}": rng.normal(size=(4, 4)).astype(np.float32) / 2 for number in range(8)}
    model = parse(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 4] x, bool yes) => (float[1, 4] middle, float[1, 4] p, float[1, 4] last) {
          [n0] a0 = MatMul(x, w0)
          s0 = Sin(a0)
          [n1] a1 = MatMul(s0, w1)
          middle = Relu(a1)
          [n2] a2 = MatMul(middle, w2)
          b = If(yes) <
            then_branch = then () => (float[1, 4] t) { t0 = Sin(a2) [n3] t = MatMul(t0, w3) },
            else_branch = other () => (float[1, 4] e) { e = Identity(a1) }
          >
          [n4] a4 = MatMul(b, w4)
          p = Softmax(a4)
          [n5] a5 = MatMul(p, w5)
          sum = Add(a5, s0)
          [n6] a6 = MatMul(sum, w6)
          [n7] last = MatMul(a6, w7)
        }""",
        **drawn,
    )
    samples = [{"x": rng.normal(size=(1, 4)).astype(np.float32), "yes": np.array(True)} for _ in range(3)]
    plan = place(model.graph, SETTINGS)
    tensors = calibrate(model, dict.fromkeys(plan.observed(), ()), ((feeds, None) for feeds in samples), 3).tensors
    references = References.of([Reference(feeds, {}) for feeds in samples])
    executed: list[int] = []
    begin = output_noise._begin_at
    monkeypatch.setattr(output_noise, "_begin_at", lambda graph, at: (begin(graph, at), executed.append(len([*graph]))))
    told: list[tuple[int, int]] = []

    whole = noise_of_inputs(model, plan, tensors, references)
    monkeypatch.setattr(output_noise, "LAYERS_A_PART", 1)
    executed.clear()
    in_parts = noise_of_inputs(model, plan, tensors, references, lambda done, total: told.append((done, total)))

    assert [*whole] == [*in_parts] == [f"n{number}" for number in range(8)]
    assert in_parts == pytest.approx(whole, rel=1e-3)
    assert min(whole.values()) > 0
    assert executed[1] > executed[2] > executed[-1]  # after the whole model, parts that get shorter and shorter
    assert len(executed) > output_noise.MOST_PARTS - 1
    assert told == [(number + 1, 8) for number in range(8)]


def test_with_no_layer_rounded_the_model_computes_what_it_did(
    parse: Callable[..., ir.Model], rng: np.random.Generator, weights: dict[str, np.ndarray]
) -> None:
    model = parse(MODEL, **weights)
    x = rng.normal(size=(1, 4)).astype(np.float32)
    plan = place(model.graph, SETTINGS)
    tensors = calibrate(model, dict.fromkeys(plan.observed(), ()), iter([({"x": x}, None)]), 1).tensors

    found = SwitchedModel(model, plan, tensors).run({"x": x})

    expected = np.maximum(x @ weights["w"], 0) @ weights["v"]
    np.testing.assert_allclose(found["b"], expected, rtol=1e-5)
    np.testing.assert_allclose(found["y"], expected / 2, rtol=1e-5)
    assert "p" not in found


@pytest.mark.parametrize(("runs", "used"), [(100, 4), (2 * 3 + 1, 3), (1, 1)])
def test_how_many_samples_are_executed_hangs_on_what_they_count_and_not_on_how_long_they_take(
    parse: Callable[..., ir.Model],
    rng: np.random.Generator,
    weights: dict[str, np.ndarray],
    monkeypatch: pytest.MonkeyPatch,
    runs: int,
    used: int,
) -> None:
    """Two layers, so that a sample is executed twice; on a machine where each of them takes an hour."""
    model = parse(MODEL, **weights)
    samples = [{"x": rng.normal(size=(1, 4)).astype(np.float32)} for _ in range(8)]
    plan = place(model.graph, SETTINGS)
    tensors = calibrate(model, dict.fromkeys(plan.observed(), ()), ((feeds, None) for feeds in samples), 8).tensors
    now, seen = [0.0], set()
    run = SwitchedModel.run

    def slow(switched: SwitchedModel, feeds: dict[str, np.ndarray], rounded: str = "") -> dict[str, np.ndarray]:
        now[0] += 3600.0
        seen.add(float(feeds["x"].sum()))
        return run(switched, feeds, rounded)

    monkeypatch.setattr(SwitchedModel, "run", slow)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    of_one = SwitchedModel(model, plan, tensors).work(samples[0])
    monkeypatch.setattr(output_noise, "MOST_WORK", runs * of_one)

    noise_of_inputs(model, plan, tensors, References.of([Reference(feeds, {}) for feeds in samples]))

    assert len(seen) == used


def test_an_output_of_another_length_is_wrong_as_a_whole_and_one_without_power_does_not_count() -> None:
    expected = {"a": np.array([3.0, 4.0]), "b": np.zeros((0, 4)), "c": np.array([1.0, np.inf])}
    outputs = {"a": np.array([3.0]), "b": np.zeros((1, 4)), "c": np.array([2.0, np.inf])}
    with np.errstate(invalid="ignore"):  # the infinities' difference
        assert noise_between(expected, outputs, {"a": 5.0, "b": 0.0, "c": 2.0}) == 25 / 5 + 1 / 2


def test_a_number_that_an_error_makes_nan_or_infinite_is_wrong_as_a_whole() -> None:
    """The logarithm of a small number that rounding makes 0 or negative."""
    expected = {"a": np.array([3.0, 4.0, 2.0, np.nan])}
    outputs = {"a": np.array([np.nan, -np.inf, 2.5, np.nan])}
    assert noise_between(expected, outputs, {"a": 5.0}) == (9 + 16 + 0.25) / 5


@pytest.mark.parametrize(
    ("there", "most", "expected"), [(3, 4, [0, 1, 2]), (7, 4, [0, 1, 3, 5]), (8, 4, [0, 2, 4, 6]), (9, 2, [0, 4])]
)
def test_samples_come_from_all_parts_of_what_is_there(there: int, most: int, expected: list[int]) -> None:
    """Those of a class often stand one after the other."""
    references = References.of([Reference({"x": np.array(place)}, {}) for place in range(there)])
    assert [int(each.feeds["x"]) for each in references.spread(most)] == expected
