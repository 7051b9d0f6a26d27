"""Runs of a decoder that go another way, foreseen from few samples, against how many do among many."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import numpy_helper

from edgekit.model import Arrays, Model
from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.search.other_ways import OtherWays
from edgekit_quantize.search.score import Score
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.workers import Judge

STEPS, WIDTH, CLASSES = 8, 12, 20
HEAD = '<ir_version: 8, opset_import: ["" : 17]>\n'
SIZES = f"float[1, {WIDTH}] x) => (float[1, {WIDTH}] z)"
STEP = "s{n} = MatMul(h{n}, out)  a{n} = ArgMax <axis = 1, keepdims = 0> (s{n})  e{n} = Gather(table, a{n})  "
STEP += "r{n} = MatMul(h{n}, back)  m{n} = Add(e{n}, r{n})  h{next} = Tanh(m{n})"
LOOP = f"""g ({SIZES} {{
    start = Tanh(x)  z = Loop <body = each (int64 i, bool go, float[1, {WIDTH}] h0) =>
        (bool on, float[1, {WIDTH}] h1) {{ {STEP.format(n=0, next=1)}  on = Identity(go) }}> (steps, yes, start) }}"""
UNROLLED = f"g ({SIZES} {{ h0 = Tanh(x)  " + "  ".join(STEP.format(n=n, next=n + 1) for n in range(STEPS))
UNROLLED += f"  z = Identity(h{STEPS}) }}"

GREATEST = UNROLLED
HARDMAX = UNROLLED
for n in range(STEPS):
    given = f"a{n} = ArgMax <axis = 1, keepdims = 0> (s{n})"
    GREATEST = GREATEST.replace(given, f"t{n}, i{n} = TopK(s{n}, one)  a{n} = Squeeze(i{n}, one)")
    looked_up = f"{given}  e{n} = Gather(table, a{n})"
    HARDMAX = HARDMAX.replace(looked_up, f"a{n} = Hardmax(s{n})  e{n} = MatMul(a{n}, table)")

RNG = np.random.default_rng(3)
WEIGHTS = {
    "table": RNG.normal(size=(CLASSES, WIDTH)).astype(np.float32),
    "out": RNG.normal(size=(WIDTH, CLASSES)).astype(np.float32),
    "back": (RNG.normal(size=(WIDTH, WIDTH)) / 3).astype(np.float32),
}
OFF = np.random.default_rng(4).normal(size=(WIDTH, CLASSES)).astype(np.float32)
OTHERS = {"steps": np.array(STEPS), "yes": np.array(True), "one": np.array([1])}


def _model(text: str, noise: float = 0.0) -> ir.Model:
    proto = onnx.parser.parse_model(HEAD + text)
    arrays = {**WEIGHTS, **OTHERS, "out": WEIGHTS["out"] + noise * OFF}
    proto.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items())
    return ir.from_proto(proto)


def _choices(x: np.ndarray, noise: float) -> np.ndarray:
    """What is chosen in each step, ``[rows, steps]``, computed with NumPy."""
    h, chosen = np.tanh(x), []
    for _ in range(STEPS):
        chosen.append((h @ (WEIGHTS["out"] + noise * OFF)).argmax(-1))
        h = np.tanh(WEIGHTS["table"][chosen[-1]] + h @ WEIGHTS["back"])
    return np.stack(chosen, -1)


def _samples(noise: float) -> list[Reference]:
    """Sixteen samples whose choices do not change, as a search among many candidates finds them."""
    rng = np.random.default_rng(6)
    found = (rng.normal(size=(1, WIDTH)).astype(np.float32) for _ in range(10_000))
    same = (x for x in found if np.array_equal(_choices(x, 0), _choices(x, noise)))
    return [Reference({"x": next(same)}, {}) for _ in range(16)]


def _kept(text: str, noise: float, samples: list[Reference]) -> float:
    ways = OtherWays.of(_model(text))
    assert ways is not None
    score = ways.counted(Score("explained", 1.0, 1.0, 40.0), _model(text, noise), samples)
    (head,) = score.heads.values()
    assert (head.decisions, head.record["inside"]) == (16, True)
    return head.share


@pytest.mark.parametrize(
    "text", [UNROLLED, LOOP, GREATEST, HARDMAX], ids=["unrolled", "loop", "the greatest", "Hardmax"]
)
def test_changes_are_foreseen_where_no_sample_shows_one(text: str) -> None:
    many = np.random.default_rng(5).normal(size=(20_000, WIDTH))
    changed = 1 - float((_choices(many, 0) == _choices(many, 0.02)).all(-1).mean())
    assert 0.05 < changed < 0.4
    assert changed / 4 < 1 - _kept(text, 0.02, _samples(0.02)) < 4 * changed


def test_what_hardly_moves_changes_next_to_nothing() -> None:
    assert _kept(UNROLLED, 1e-5, _samples(1e-5)) == pytest.approx(1, abs=2e-3)


def test_a_loop_keeps_what_its_steps_keep_in_a_row() -> None:
    assert _kept(LOOP, 0.02, _samples(0.02)) == pytest.approx(_kept(UNROLLED, 0.02, _samples(0.02)), abs=1e-5)


def test_a_change_counts_from_where_it_is() -> None:
    """One of 16 samples goes another way: the choices that it makes after this say nothing about the noise."""
    samples = _samples(0.02)
    rng = np.random.default_rng(7)
    found = (rng.normal(size=(1, WIDTH)).astype(np.float32) for _ in range(10_000))
    samples[0] = Reference({"x": next(x for x in found if (_choices(x, 0) != _choices(x, 0.02)).any())}, {})
    assert 0.4 < _kept(UNROLLED, 0.02, samples) <= 15 / 16


def test_a_model_that_goes_on_with_no_choice_has_none() -> None:
    assert OtherWays.of(_model(f"g ({SIZES} {{ z = Tanh(x) }}")) is None


def test_a_candidate_that_holds_by_luck_does_not_hold_as_it_ships() -> None:
    def answers(text: str, noise: float, feeds: Arrays) -> Arrays:
        import onnxruntime

        session = onnxruntime.InferenceSession(ir.to_proto(_model(text, noise)).SerializeToString())
        return dict(zip(["z"], session.run(["z"], feeds), strict=True))

    samples = [Reference(each.feeds, answers(LOOP, 0, each.feeds)) for each in _samples(0.02)]
    scorer = Scorer(References.of(samples), "explained", 1.0, head_weight=0.3)
    judge = Judge(scorer, None, 0.003, OtherWays.of(_model(LOOP)))
    candidate = Model(_model(LOOP, 0.02))
    first = judge.score(candidate)
    assert isinstance(first, Score)
    assert first.drop < 0.003
    assert not first.complete
    whole = judge.completed(candidate, first)
    assert isinstance(whole, Score)
    assert whole.complete
    assert whole.head is not None
    assert whole.drop > 0.01


def test_without_samples_nothing_is_told() -> None:
    ways = OtherWays.of(_model(LOOP))
    assert ways is not None
    score = Score("explained", 1.0, 1.0, 40.0)
    assert ways.counted(score, _model(LOOP, 0.02), []) is score
