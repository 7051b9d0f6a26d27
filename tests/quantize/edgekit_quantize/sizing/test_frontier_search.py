"""The smallest model that holds a budget, and the most accurate one of a size."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.errors import InputError
from edgekit.graph.reading.onnx_file import write_model
from edgekit.model import Model
from edgekit.quantizer import CandidateError, Opened, QuantizationRequest, QuantizationResult
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.search.score import EXPLAINED, Score
from edgekit_quantize.sizing.allocation import Allocation
from edgekit_quantize.sizing.frontier_search import Sizing

NETWORK = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 8, 8, 8] x, int64[1, 4] words) => (float[1, 4, 32] y) {
  c = Conv<pads = [1, 1, 1, 1]>(x, w1, b1)
  r = Relu(c)
  d = Conv<group = 64, pads = [1, 1, 1, 1]>(r, w2, b2)
  p = GlobalAveragePool(d)
  f = Flatten(p)
  m = MatMul(f, w3)
  e = Gather(table, words)
  s = Add(m, e)
  y = MatMul(s, w4)
}"""
SHAPES = {
    "w1": (64, 8, 3, 3),
    "b1": (64,),
    "w2": (64, 1, 3, 3),
    "b2": (64,),
    "w3": (64, 32),
    "table": (100, 32),
    "w4": (32, 32),
}
INTEGERS = [{"name": "int8", "bits": 8}, {"name": "blocks", "bits": 4, "block": 32}]
PALETTES = [
    {"name": "palette", "bits": 4, "palette": True},
    {"name": "small palette", "bits": 2, "palette": True},
]


class Drawn:
    has_labels = False

    def __len__(self) -> int:
        return 24

    def __iter__(self) -> Iterator[Sample]:
        rng = np.random.default_rng(3)
        for number in range(24):
            x = rng.normal(size=(1, 8, 8, 8)).astype(np.float32) * rng.uniform(0.2, 2)
            yield Sample(str(number), {"x": x.astype(np.float32), "words": rng.integers(0, 100, (1, 4))})


@pytest.fixture
def network(parse: Callable[..., ir.Model], rng: np.random.Generator) -> Model:
    arrays = {name: (rng.normal(size=shape) * 0.2).astype(np.float32) for name, shape in SHAPES.items()}
    return Model(parse(NETWORK, **arrays))


Ask = Callable[..., QuantizationResult]


@pytest.fixture
def ask(network: Model) -> Ask:
    def quantize(*, integers_alone: bool = False, float_weights: str = "float32", **asked: Any) -> QuantizationResult:
        forms = INTEGERS if integers_alone else INTEGERS + PALETTES
        stored = {"float_bytes": 4 if integers_alone else 2, "forms": forms}
        placement = {"stored_forms": stored, "float_weights": float_weights}
        request = QuantizationRequest(network, "auto", Drawn(), placement=placement, **asked)
        return PostTrainingQuantizer().quantize(request)

    return quantize


def _sqnr(network: Model, result: QuantizationResult) -> float:
    signal = noise = 0.0
    before, after = SessionRunner(network.graph_model), SessionRunner(result.model.graph_model)
    for sample in Drawn():
        expected, found = before.run(sample.feeds)["y"], after.run(sample.feeds)["y"]
        signal, noise = signal + float(np.sum(expected**2)), noise + float(np.sum((found - expected) ** 2))
    return 10 * np.log10(signal / noise)


def test_where_integers_lose_too_much_weights_are_stored_in_half_precision_for_a_target_that_widens_them(
    ask: Ask, network: Model
) -> None:
    wide, narrow = (
        ask(smallest=True, max_drop=1e-6, integers_alone=True, float_weights=each) for each in ("float32", "float16")
    )
    assert set(wide.record["forms"]) == {"float"}
    assert narrow.record["forms"] == wide.record["forms"]
    large = sum(np.prod(shape) for shape in SHAPES.values() if np.prod(shape) >= 512)
    assert network.weight_bytes - wide.model.weight_bytes == 0
    assert network.weight_bytes - narrow.model.weight_bytes == 2 * large
    assert _sqnr(network, narrow) > 60


def test_the_smallest_holds_its_budget_and_a_larger_budget_is_smaller(ask: Ask, network: Model) -> None:
    strict, loose = ask(smallest=True, max_drop=0.001), ask(smallest=True, max_drop=0.05)

    def bytes_of(result: QuantizationResult) -> int:
        return int(
            next(
                each["weight_bytes"] for each in result.record["curve"] if each["candidate"] == result.record["chosen"]
            )
        )

    assert _sqnr(network, strict) > 28
    assert 12 < _sqnr(network, loose) < _sqnr(network, strict)
    assert bytes_of(loose) < bytes_of(strict) < 2 * sum(int(np.prod(shape)) for shape in SHAPES.values())
    assert {point["candidate"] for point in strict.record["curve"]} >= {
        "int8 for all weights",
        "palette for all weights",
    }
    assert [point["weight_bytes"] for point in strict.record["frontier"]] == sorted(
        (point["weight_bytes"] for point in strict.record["frontier"]), reverse=True
    )


def test_sizes_of_candidates_and_of_float_are_of_the_same_weights(ask: Ask) -> None:
    """A Gather's table, convolutions and products have forms; biases have none, and are left out of both."""
    curve = ask(smallest=True, max_drop=0.05).record["curve"]
    numbers = sum(int(np.prod(shape)) for shape in SHAPES.values() if np.prod(shape) >= 512)
    integers = next(each for each in curve if each["candidate"] == "int8 for all weights")
    assert integers["float_weight_bytes"] == 4 * numbers
    assert 1 <= integers["weight_bytes"] / numbers < 1.1  # a byte each, and scales


def test_of_a_model_without_weights_of_some_size_nothing_is_smaller(parse: Callable[..., ir.Model]) -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 4] x) => (float[1, 2] y) { y = MatMul(x, w) }'
    tiny = Model(parse(text, w=np.ones((4, 2), np.float32)))

    class Rows:
        has_labels = False

        def __len__(self) -> int:
            return 24

        def __iter__(self) -> Iterator[Sample]:
            rng = np.random.default_rng(3)
            return (Sample(str(n), {"x": rng.normal(size=(1, 4)).astype(np.float32)}) for n in range(24))

    request = QuantizationRequest(tiny, "auto", Rows(), smallest=True)
    record = PostTrainingQuantizer().quantize(request).record
    assert (record["scheme"], record["reason"]) == (
        "none",
        "the model has no weights that could be stored in fewer bits",
    )
    with pytest.raises(InputError, match="has no weights that could be stored in fewer bits") as refused:
        PostTrainingQuantizer().quantize(replace(request, smallest=False, max_bytes=10))
    assert refused.value.hint == "leave --max-size out: such a model is as small as it gets"


def test_how_fast_the_smallest_is_on_the_target_is_told(ask: Ask, network: Model) -> None:
    """The float model takes 2 ms there, and the one of few bits 6."""

    class Slow(SessionRunner):
        def __init__(self, model: Model) -> None:
            super().__init__(model.graph_model)
            self._seconds = 2e-3 if model.weight_bytes == network.weight_bytes else 6e-3

        def run(self, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            time.sleep(self._seconds)
            return super().run(feeds)

    *others, chosen = ask(smallest=True, max_drop=0.05, execute=Slow, latency_counts=True).record["curve"]

    assert chosen["candidate"].endswith("on the target")
    assert chosen["float_latency_ms"] / chosen["latency_ms"] == pytest.approx(1 / 3, rel=0.25)
    lower, upper = chosen["speedup_interval"]
    assert lower <= chosen["float_latency_ms"] / chosen["latency_ms"] <= upper
    assert {each["latency_ms"] for each in others} == {None}


def test_mixed_forms_beat_a_single_one_of_their_size(ask: Ask) -> None:
    loose = ask(smallest=True, max_drop=0.02).record
    chosen = next(each for each in loose["curve"] if each["candidate"] == loose["chosen"])
    single = [each for each in loose["curve"] if each["candidate"].endswith("for all weights")]
    holding = [each["weight_bytes"] for each in single if each["drop"] <= 0.02]
    assert chosen["drop"] <= 0.02
    assert chosen["weight_bytes"] <= min(holding)


def test_what_does_not_hold_gives_way_to_a_larger_one(ask: Ask) -> None:
    first = ask(smallest=True, max_drop=0.05)
    assert first.next_best is not None
    known = [row["candidate"] for row in first.record["curve"]]
    second = first.next_best()
    assert second is not None
    assert second.record["chosen"] in [row["candidate"] for row in second.record["curve"]]
    assert [row["candidate"] for row in first.record["curve"]] == known
    assert second is not None
    assert float(second.record["chosen"].split()[0]) > float(first.record["chosen"].split()[0])


def _built(model: Model) -> Opened:
    """Stands in for a target whose files have 1000 bytes besides the weights, which are as large as the graph's."""
    return Opened(SessionRunner(model.graph_model), bytes=1000 + model.weight_bytes)


def test_the_most_accurate_of_a_size_is_as_large_as_it_may_be(ask: Ask, network: Model) -> None:
    sizes = [16_000, 20_000, 30_000]
    found = [ask(max_bytes=size, max_drop=0.9, execute=_built, integers_alone=True) for size in sizes]
    for size, result in zip(sizes, found, strict=True):
        assert 1000 + result.model.weight_bytes <= size
    decibels = [_sqnr(network, result) for result in found]
    assert decibels == sorted(decibels)
    assert decibels[-1] > decibels[0] + 3


def test_without_a_target_the_size_is_that_of_the_file(ask: Ask, tmp_path: Path) -> None:
    for most in (16_000, 20_000):
        result = ask(max_bytes=most, max_drop=0.9, integers_alone=True)
        write_model(result.model, tmp_path / "small.onnx")
        assert (tmp_path / "small.onnx").stat().st_size <= most
        last = result.record["curve"][-1]
        assert last["candidate"].endswith(", as written")
        assert last["bytes"] == (tmp_path / "small.onnx").stat().st_size


def test_a_size_that_nothing_has_is_refused(ask: Ask) -> None:
    with pytest.raises(CandidateError) as caught:
        ask(max_bytes=1500, execute=_built)
    assert "no form of the model is small enough" in str(caught.value)
    assert "expected: at most 1500 bytes" in str(caught.value)
    assert caught.value.hint == (
        "each weight has the fewest bits that its layer and the device allow: allow more bytes, or train a smaller "
        "model"
    )
    with pytest.raises(CandidateError) as caught:
        ask(max_bytes=150, execute=_built)
    assert caught.value.hint == "a number without a unit is a number of bytes: write 150kB or 150MB for more"
    with pytest.raises(CandidateError) as caught:
        ask(max_bytes=0, execute=_built)
    assert (caught.value.hint or "").startswith("each weight has the fewest bits")
    with pytest.raises(CandidateError) as caught:
        ask(max_bytes=1500)
    assert (caught.value.hint or "").startswith("give --target NAME to try 4 bits a weight")


def test_where_nothing_holds_the_budget_a_size_is_named_only_if_one_was_asked_for(ask: Ask) -> None:
    def execute(model: Model) -> Opened:
        del model
        raise CandidateError("it does not run")

    with pytest.raises(CandidateError, match=r"^no smaller form holds the accuracy budget: it does not run"):
        ask(smallest=True, max_drop=0.05, execute=execute)


class DoesNotLoad:
    """A setting of a candidate in which it cannot be loaded."""

    def __call__(self) -> Any:
        raise CandidateError("cannot be loaded: no kernel")


def test_within_a_size_the_next_smaller_form_takes_the_place_of_one_that_a_setting_cannot_load(ask: Ask) -> None:
    most, loadable = 20_000, 17_500

    def execute(model: Model) -> Opened:
        opened = _built(model)
        assert opened.bytes is not None
        return replace(opened, open_held=DoesNotLoad()) if opened.bytes > loadable else opened

    result = ask(max_bytes=most, max_drop=0.9, execute=execute, integers_alone=True)
    assert 0.9 * loadable < 1000 + result.model.weight_bytes <= loadable
    assert result.record["curve"][-1]["candidate"] == result.record["chosen"]


def test_where_no_size_holds_the_budget_boxes_that_are_not_read_are_told(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    boxes = 'output "y" looks like a detector\'s boxes, but no boxes are read'
    monkeypatch.setattr("edgekit_quantize.plugin.nearly_recognised", lambda *given: boxes)
    with pytest.raises(CandidateError, match=r"^no form that is small enough holds the accuracy budget") as caught:
        ask(max_bytes=20_000, max_drop=1e-9, execute=_built)
    assert caught.value.hint == boxes


def test_sizes_need_samples_and_the_scheme_auto(network: Model) -> None:
    with pytest.raises(InputError) as caught:
        PostTrainingQuantizer().quantize(QuantizationRequest(network, "int8", Drawn(), smallest=True))
    assert str(caught.value) == (
        "--smallest: sizes are searched with samples, by the scheme auto\n"
        "expected: --data DIR, and no other scheme\nfound: int8"
    )
    with pytest.raises(InputError, match="--max-size: sizes are searched with samples"):
        PostTrainingQuantizer().quantize(QuantizationRequest(network, "auto", None, max_bytes=10))


@pytest.mark.parametrize(("drop", "chosen"), [(0.0, 250), (0.02, 300)])
def test_a_single_form_is_taken_where_it_holds_and_is_smaller(drop: float, chosen: int) -> None:
    class Known(Sizing):
        def _at(self, place: int) -> Score:
            lost = {400: 0.0, 300: 0.005, 200: 0.03, 100: 0.5}[round(self._frontier[place].bytes)]
            return Score(EXPLAINED, 1 - lost, 1.0, 30.0)

    search = Known(None, None, None, None, None, 0.01)  # type: ignore[arg-type]  # nothing but the budget is looked at
    search._frontier = [Allocation({}, size, 0.0) for size in (400, 300, 200, 100)]
    search._alone = [(Allocation({}, 250, 0.0), Score(EXPLAINED, 1 - drop, 1.0, 30.0))]

    place = search._smallest_here()

    assert search._frontier[place].bytes == chosen
    assert [one.bytes for one in search._frontier] == sorted((one.bytes for one in search._frontier), reverse=True)
