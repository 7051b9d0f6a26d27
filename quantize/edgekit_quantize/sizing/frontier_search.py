"""Finds the smallest model that holds the accuracy budget, or the most accurate one of at most a size."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.comparison.numbers.metrics import json_number
from edgekit.errors import InputError
from edgekit.files.atomic import temporary_folder
from edgekit.graph.reading.onnx_file import write_model
from edgekit.model import Model
from edgekit.quantizer import CandidateError, Opened, QuantizationRequest, QuantizationResult, timed_of
from edgekit.target import Runner
from edgekit_quantize.calibration.statistics import Calibration
from edgekit_quantize.graph.quantized_already import quantized_already
from edgekit_quantize.integers.stored_weights import FEWEST
from edgekit_quantize.rounding.held_out import Parts
from edgekit_quantize.rounding.recurrent import adaptively_rounded_recurrence
from edgekit_quantize.search.score import Score
from edgekit_quantize.search.scoring import Scorer
from edgekit_quantize.search.timing import latencies
from edgekit_quantize.search.workers import Judge
from edgekit_quantize.settings import Placement
from edgekit_quantize.shared_calibration import feeds_of
from edgekit_quantize.sizing.allocation import Allocation, frontier
from edgekit_quantize.sizing.forms import Form, Storage
from edgekit_quantize.sizing.sensitivity import measured_choices
from edgekit_quantize.sizing.weights import FLOAT_FORM, measure_moments, weights_of, write_stored
from edgekit_quantize.writing.float16 import halve_weights
from edgekit_quantize.writing.written import Written

MOMENT_SAMPLES = 64
"""The maximum number of samples on which the moments of products' inputs are measured."""
STEP_BACK = 0.03
"""The share by which the next allocation differs in size from one that misses the budget, or fails, on the target."""
MOST_STEPS_BACK = 12
"""The maximum number of allocations that are tried on the target."""
MOST_BUILDS = 5
"""The maximum number of builds by which the estimated size is corrected to meet a size limit."""
_FEW_BYTES = 1000
"""A size limit below this number of bytes may be meant in another unit."""
FRONTIER_POINTS = 24
"""The number of the frontier's points that go into the record."""


@dataclass
class Sizing:
    """One search for the smallest model, or for the most accurate one within a size.

    Args:
        request: The request for quantization.
        model: The prepared float model.
        placement: The target's placement; stored weights are written as its first candidate writes them.
        calibration: The calibration on the samples.
        scorer: Scores candidates.
        max_drop: The budget: how much of the metric may be lost.
        fits: See :attr:`fits`.
    """

    request: QuantizationRequest
    model: ir.Model
    placement: Placement
    calibration: Calibration
    scorer: Scorer
    max_drop: float
    fits: Callable[[int], bool] | None = None
    """Whether the sample with a number, counted from 0, may be used to round weights; None allows all samples."""
    _curve: list[dict[str, Any]] = field(default_factory=list)
    _scores: dict[int, Score] = field(default_factory=dict)
    _alone: list[tuple[Allocation, Score]] = field(default_factory=list)

    def run(self) -> QuantizationResult:
        """The best model that meets the request, with all candidates in its record.

        If no weights can be stored in fewer bits, the float model is the smallest.

        Raises:
            InputError: No weights can be stored in fewer bits, and a size is requested.
            CandidateError: No allocation is small enough, or accurate enough.
        """
        request = self.request
        self._storage = Storage.read(request.placement)
        self._forms: dict[str, Form | None] = {form.name: form for form in self._storage.forms} | {FLOAT_FORM: None}
        self._weights = weights_of(self.model)
        if not self._weights:
            return self._in_float()
        parts = Parts(self.calibration.samples, apart=self.fits is not None)
        self._recurrence = adaptively_rounded_recurrence(self.model, self._fitting, parts).integers
        measure_moments(self.model, self._weights, self._fitting())
        references = self.calibration.references
        tell = functools.partial(self._tell, "measuring weights")
        choices = measured_choices(self.model, self._weights, self._storage, references, tell)
        self._frontier = frontier(choices)
        self._uniform(choices)
        place = self._smallest_here() if request.max_bytes is None else self._largest_within(request.max_bytes)
        return self._on_target(place)

    def _in_float(self) -> QuantizationResult:
        """The float model, as no weights can be stored in fewer bits.

        Raises:
            InputError: A size is requested.
        """
        none, request = "no weights that could be stored in fewer bits", self.request
        if request.max_bytes is not None:
            raise InputError(
                f"has {none}",
                subject=request.model.name,
                expected=f"weights of {FEWEST} numbers or more, for --max-size",
                hint="leave --max-size out: such a model is as small as it gets",
            )
        record = {"scheme": "none", "reason": f"the model has {none}", "samples": self.calibration.samples}
        return QuantizationResult(request.model, {**record, "warnings": [*self.calibration.warnings]})

    def _fitting(self) -> Iterator[dict[str, np.ndarray]]:
        """The inputs of the first :data:`MOMENT_SAMPLES` samples that may be used to round weights."""
        request = self.request
        if request.samples is not None:
            every = enumerate(feeds_of(request.samples, request.model))
            fitting = (feeds for place, feeds in every if self.fits is None or self.fits(place))
            yield from islice(fitting, MOMENT_SAMPLES)

    def _uniform(self, choices: Mapping[str, Any]) -> None:
        """Scores every form alone, used for all weights that it fits, as a scheme with one form would be."""
        for form in self._storage.forms:
            forms, size, noise = {}, 0.0, 0.0
            for name, found in choices.items():
                fitting = [choice for choice in found if choice.form == form.name]
                chosen = fitting[0] if fitting else min(found, key=lambda one: (one.form == FLOAT_FORM, one.noise))
                forms[name] = chosen.form
                size, noise = size + chosen.bytes, noise + chosen.noise
            alone = Allocation(forms, size, noise)
            self._alone.append((alone, self._score_here(alone, f"{form.name} for all weights")))

    def _smallest_here(self) -> int:
        """The index of the smallest allocation that holds the budget, executed with ONNX Runtime.

        It is on the frontier, or uses a single form if that is smaller: errors of weights add up only approximately, so
        a single form may hold the budget where a mixture of its size does not.
        """
        low, high = 0, len(self._frontier) - 1
        if self._holds(high):
            return high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._holds(middle) else (low, middle)
        held = [alone for alone, score in self._alone if score.drop <= self.max_drop]
        smallest = min(held, key=lambda alone: alone.bytes, default=None)
        if smallest is None or smallest.bytes >= self._frontier[low].bytes:
            return low
        place = next((at for at, one in enumerate(self._frontier) if one.bytes < smallest.bytes), len(self._frontier))
        self._frontier.insert(place, smallest)
        self._scores.clear()
        return place

    def _holds(self, place: int) -> bool:
        return self._at(place).drop <= self.max_drop

    def _at(self, place: int) -> Score:
        if place not in self._scores:
            self._scores[place] = self._score_here(self._frontier[place], self._name(place))
        return self._scores[place]

    def _largest_within(self, most: int) -> int:
        """The index of the first allocation of the frontier whose built size is at most ``most`` bytes.

        Raises:
            CandidateError: No allocation is small enough.
        """
        beside, place = 0.0, 0
        for _ in range(MOST_BUILDS):
            place = next((at for at, one in enumerate(self._frontier) if one.bytes + beside <= most), -1)
            if place < 0:
                break
            size = self._built_bytes(place)
            if size is None or size <= most:
                return place
            beside = max(size - self._frontier[place].bytes, beside + 1)
        last = len(self._frontier) - 1
        least = self._built_bytes(last)
        if least is not None and least <= most:
            return last
        raise CandidateError(
            "no form of the model is small enough",
            subject=self.request.model.name,
            expected=f"at most {most} {'byte' if most == 1 else 'bytes'}",
            found=f"{math.ceil(self._frontier[last].bytes) if least is None else least} bytes at least",
            hint=self._hint(most),
        )

    def _hint(self, most: int) -> str:
        if 0 < most < _FEW_BYTES:
            return f"a number without a unit is a number of bytes: write {most}kB or {most}MB for more"
        if self.request.execute is None:
            return "give --target NAME to try 4 bits a weight: which weights may have 4 bits depends on the device"
        return (
            "each weight has the fewest bits that its layer and the device allow: allow more bytes, or train a "
            "smaller model"
        )

    def _built_bytes(self, place: int) -> int | None:
        """The size in bytes of what the target builds, or of the ONNX file without a target; None if not known."""
        model = self._model_of(self._frontier[place])[0]
        if self.request.execute is None:
            return _file_bytes(model)
        opened = self.request.execute(model)
        return opened.bytes if isinstance(opened, Opened) else None

    def _on_target(self, place: int) -> QuantizationResult:
        """The result with the allocation, or with the next larger one that holds the budget on the target.

        With a size limit, an allocation that cannot be built, loaded or run in a setting is replaced by the next
        smaller one.

        Raises:
            CandidateError: No tried allocation holds the budget.
        """
        judge = Judge(self.scorer, self.request.execute)
        failures: list[str] = []
        for _ in range(MOST_STEPS_BACK):
            model, written = self._model_of(self._frontier[place])
            score: Score | CandidateError
            size: int | None = None
            try:
                opened = judge.open(model)
                size = opened.bytes if isinstance(opened, Opened) else None
                if self.request.execute is None:
                    size = _file_bytes(model)
                score = judge.worst_score_of(opened)
            except CandidateError as error:
                score = error
            name = f"{self._name(place)}, {'as written' if self.request.execute is None else 'on the target'}"
            if isinstance(score, CandidateError):
                failures.append(score.message)
            else:
                self._note(name, score, self._frontier[place], size)
                if score.drop <= self.max_drop:
                    self._curve[-1] |= self._latencies(judge, opened)
                    return self._result(place, name, written)
            if self.request.max_bytes is None:
                following = self._larger(place)
            else:
                following = self._smaller(place) if isinstance(score, CandidateError) else place
            if following == place:
                break
            place = following
        lost = "; ".join(failures) or f"at most {self.max_drop:.2%} may be lost"
        forms = "no smaller form" if self.request.max_bytes is None else "no form that is small enough"
        doubts = [] if failures else [*filter(None, [self.scorer.doubt, self.scorer.unread])]
        raise CandidateError(f"{forms} holds the accuracy budget: {lost}", hint="; ".join(doubts) or None)

    def _latencies(self, judge: Judge, opened: Runner) -> dict[str, Any]:
        """The latencies of a model and of the float model for the record; empty if latencies do not count here.

        They decide nothing: a matrix in few bits may take longer than a float matrix.
        """
        if not self.request.latency_counts:
            return {}
        feeds = self.scorer.references.example
        runners = [timed_of(runner) for runner in (opened, judge.open(self.request.model))]
        found = latencies(*(functools.partial(runner.run, feeds) for runner in runners))
        own, floating = found.milliseconds
        return {"latency_ms": own, "float_latency_ms": floating, "speedup_interval": [*found.times_as_fast(0, 1)]}

    def _larger(self, place: int) -> int:
        """The index of the next allocation that is larger by :data:`STEP_BACK`; 0 if there is none."""
        size = self._frontier[place].bytes * (1 + STEP_BACK)
        return next((at for at in range(place, -1, -1) if self._frontier[at].bytes >= size), 0)

    def _smaller(self, place: int) -> int:
        """The index of the next allocation that is smaller by :data:`STEP_BACK`; the last index if there is none."""
        size = self._frontier[place].bytes / (1 + STEP_BACK)
        last = len(self._frontier) - 1
        return next((at for at in range(place, last + 1) if self._frontier[at].bytes <= size), last)

    def _result(self, place: int, name: str, written: Written) -> QuantizationResult:
        forms = self._frontier[place].forms
        doubts = [self.scorer.doubt, quantized_already(self.request.model.graph_model)]
        record = {
            "scheme": "mixed",
            "chosen": name,
            "samples": self.calibration.samples,
            "warnings": [*self.calibration.warnings, *filter(None, doubts)],
            "max_drop": self.max_drop,
            "curve": [*self._curve],
            "frontier": self._points(),
            "forms": {form: sum(forms[each] == form for each in forms) for form in sorted(set(forms.values()))},
            "layers": [account.as_record() for account in written.accounts],
            "quantized": written.quantized,
            "stored": written.stored,
            "float": written.kept_float,
            **({"left_to_verify": remarks} if (remarks := self.scorer.left_to_verify) else {}),
        }
        return QuantizationResult(
            self.request.model.with_graph(written.model), record, next_best=functools.partial(self._next_best, place)
        )

    def _next_best(self, place: int) -> QuantizationResult | None:
        """The result with a larger allocation, for when the one at ``place`` fails on other samples.

        None if there is no larger one, or a size is requested.
        """
        larger = self._larger(place)
        if larger == place or self.request.max_bytes is not None:
            return None
        with suppress(CandidateError):  # it is scored only for the record
            self._at(larger)
        return self._result(larger, self._name(larger), self._model_of(self._frontier[larger])[1])

    def _points(self) -> list[dict[str, Any]]:
        """At most :data:`FRONTIER_POINTS` points of the frontier, evenly spread, for the record."""
        last = len(self._frontier) - 1
        places = sorted({round(last * number / (FRONTIER_POINTS - 1)) for number in range(FRONTIER_POINTS)})
        return [
            {"weight_bytes": round(one.bytes), "expected_noise": one.noise}
            for one in (self._frontier[at] for at in places)
        ]

    def _score_here(self, allocation: Allocation, name: str) -> Score:
        self._tell(f"evaluating {name!r}", 0, 0)
        score = Judge(self.scorer).score(self._model_of(allocation)[0])
        if isinstance(score, CandidateError):
            raise score
        self._note(name, score, allocation, None)
        return score

    def _model_of(self, allocation: Allocation) -> tuple[Any, Written]:
        settings = next(iter(self.placement.candidates.values()))
        forms = {name: self._forms[form] for name, form in allocation.forms.items()}
        written = write_stored(self.model, self._weights, forms, self.calibration.tensors, settings, self._recurrence)
        if settings.float_weights == "float16":
            halve_weights(written.model)
        return self.request.model.with_graph(written.model), written

    def _note(self, name: str, score: Score, allocation: Allocation, size: int | None) -> None:
        self._curve.append(
            {
                "candidate": name,
                "metric": score.metric,
                "value": score.share,
                "float_value": score.reference,
                "drop": score.drop,
                **score.heads_record,
                "sqnr_db": json_number(score.sqnr_db),
                "latency_ms": None,
                "float_latency_ms": None,
                "integer_layers": 0,
                "weight_bytes": round(allocation.bytes),
                "float_weight_bytes": sum(weight.matrix.nbytes for weight in self._weights.values()),
                "settings": dict(score.in_settings),
                **({} if size is None else {"bytes": size}),
            }
        )

    def _name(self, place: int) -> str:
        """The name of an allocation: its mean number of bits per weight."""
        numbers = sum(weight.matrix.size for weight in self._weights.values())
        return f"{8 * self._frontier[place].bytes / numbers:.3g} bits a weight"

    def _tell(self, what: str, done: int, total: int) -> None:
        if self.request.progress is not None:
            self.request.progress(what, done, total)


def _file_bytes(model: Model) -> int:
    """The size of the model as an ONNX file, with its external data files, in bytes."""
    with temporary_folder() as folder:
        file = folder / "model.onnx"
        write_model(model, file)
        return sum(one.stat().st_size for one in folder.iterdir())
