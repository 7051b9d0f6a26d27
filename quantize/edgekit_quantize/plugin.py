"""The quantizer that ships with EdgeKit: post-training quantization, calibrated on samples."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.data.samples import Samples
from edgekit.errors import InputError
from edgekit.model import ValueSpec
from edgekit.quantizer import BudgetError, QuantizationRequest, QuantizationResult, Quantizer
from edgekit_quantize.bias_correction import input_axis
from edgekit_quantize.blocks import inputs_first
from edgekit_quantize.calibration.data import ConstantInputs, checked_feeds
from edgekit_quantize.calibration.statistics import Calibration, Scale, TensorStatistics, calibrate, largest_inputs
from edgekit_quantize.careful import careful_rounding
from edgekit_quantize.dynamic import KINDS
from edgekit_quantize.equalize import equalize
from edgekit_quantize.explain import account, account_halves
from edgekit_quantize.float16 import in_half_precision
from edgekit_quantize.layers import WEIGHTED, layers
from edgekit_quantize.per_channel import by_channel, channel_scales
from edgekit_quantize.placement import Settings, candidates, place
from edgekit_quantize.prepare import prepared
from edgekit_quantize.rounding_error import measure_rounding
from edgekit_quantize.scoring import AGREEMENT, EXPLAINED, LABELS, Scorer, decides
from edgekit_quantize.search import Bench, Outcome, Trial, search
from edgekit_quantize.sensitivity import layer_errors
from edgekit_quantize.session import SessionRunner
from edgekit_quantize.smoothquant import Smoothing, smoothable_in_all, smoothing
from edgekit_quantize.stored import RECURRENT
from edgekit_quantize.workers import Judge
from edgekit_quantize.writing import Written, write

MAX_DROP = {LABELS: 0.01, AGREEMENT: 0.01, EXPLAINED: 0.003}
"""What of the metric may be lost where the user names no budget; 0.003 of a signal's power is 25 dB."""
MAX_DROP_OF_EVALUATION = 0.01
"""Likewise, as a share of what the project's evaluation function gives for the float model."""
SECOND_LOOK = 16
"""Samples whose rounding errors are measured once ranges are known."""
FIRST_LOOK = 16
"""Samples that are looked at before calibration, where something has to be known of all channels first."""
DYNAMIC = "int8-dynamic"
"""The scheme whose matrix products quantize their activations anew every time."""
HALF = "float16"
"""The scheme that stores weights in half precision."""
STORED = {"int8-weights": ("int8", 0), "int4-weights": ("int4", 32)}
"""Schemes that only store weights as integers: the type, and how many inputs of a matrix share a scale."""
WITHOUT_SAMPLES = (*STORED, DYNAMIC, HALF)
SCHEMES = ("auto", "int8", *WITHOUT_SAMPLES)


class PostTrainingQuantizer(Quantizer):
    """Writes candidates for the target, executes them there, and keeps the fastest that holds the accuracy budget.

    Schemes: ``auto`` and ``int8`` measure the candidates of the target; ``auto`` never gives a model slower than the
    float one, ``int8`` none that only stores its weights as integers where the target has another. ``int8-weights``
    and ``int4-weights`` store weights as integers, ``float16`` in half precision; ``int8-dynamic`` multiplies matrices
    with activations that are quantized anew every time. These four need no samples; given some, the budget counts.
    """

    name: ClassVar[str] = "edgekit"

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        """Quantize as requested; see :class:`edgekit.quantizer.Quantizer`."""
        if request.scheme not in SCHEMES:
            raise InputError("unknown scheme", subject=request.scheme, expected=", ".join(SCHEMES))
        return _Run(request).result()


class _Run:
    """One request on its way."""

    def __init__(self, request: QuantizationRequest) -> None:
        self._request = request
        self._candidates = _asked(request, candidates(request.placement))
        self._model = prepared(
            request.model.graph_model,
            padded_shifts_as_convolutions=self._candidates[0][1].padded_shifts_as_convolutions,
        )
        if request.scheme != HALF and self._candidates[0][1].equalize:
            equalize(self._model.graph)
        if self._candidates[0][1].block:
            inputs_first(self._model)
        self._candidates = _different(self._candidates, self._model.graph)

    def result(self) -> QuantizationResult:
        request = self._request
        if request.samples is None:
            if request.scheme not in WITHOUT_SAMPLES:
                raise InputError(
                    "quantization of activations needs samples",
                    hint="give a folder of samples, or ask for int8-weights, which needs none",
                )
            ((_, settings),) = self._candidates
            written = in_half_precision(self._model) if request.scheme == HALF else write(self._model, settings, {})
            layers = self._accounts(settings, written, {})
            return self._done(written, {"scheme": request.scheme, "layers": layers, "samples": 0, "warnings": []})
        calibration = self._calibrate(request.samples)
        scorer = self._scorer(calibration, request.samples)
        max_drop = request.max_drop
        if max_drop is None:
            max_drop = MAX_DROP.get(scorer.metric, MAX_DROP_OF_EVALUATION)
        outcome = self._search(calibration, scorer, max_drop)
        common = {
            "samples": calibration.samples,
            "warnings": [*calibration.warnings, *([scorer.doubt] if scorer.doubt else [])],
            "max_drop": max_drop,
            "curve": [trial.as_record() for trial in outcome.curve],
        }
        if outcome.best is not None:
            scheme = request.scheme
            if scheme in {"auto", "int8"}:
                scheme = "int8" if outcome.best.written.quantized else "int8-weights"
            chosen = {"scheme": scheme, "chosen": outcome.best.name, "layers": self._layers(outcome.best, calibration)}
            return self._done(outcome.best.written, {**chosen, **common})
        nearest = min(outcome.curve, key=lambda trial: trial.score.drop)
        common["layers"] = self._layers(nearest, calibration)
        if request.scheme == "auto":
            reason = _why_float(outcome, max_drop)
            return QuantizationResult(request.model, {"scheme": "none", "reason": reason, **common})
        raise BudgetError(common, max_drop)

    def _scorer(self, calibration: Calibration, samples: Samples) -> Scorer:
        request = self._request
        if request.evaluation is None:
            return Scorer.by_references(calibration.references, classes=decides(request.model.graph))
        original = SessionRunner(request.model.graph_model)
        return Scorer.by_evaluation(calibration.references, request.evaluation, samples, original.run)

    def _calibrate(self, samples: Samples) -> Calibration:
        progress = self._request.progress
        wanted: dict[str, set[int]] = {}
        for layer in layers(self._model.graph):
            if layer.data.name and layer.data.dtype in (None, ir.DataType.FLOAT):
                wanted.setdefault(layer.data.name, set()).add(input_axis(layer))
        for _, settings in self._candidates:
            for name in place(self._model.graph, settings).observed():
                wanted.setdefault(name, set())
        constants = ConstantInputs()
        factors = self._smoothing(samples)
        plans = [place(self._model.graph, settings) for _, settings in self._candidates]
        scales: dict[str, Scale] = {
            name: functools.partial(channel_scales, readers=readers, settings=self._candidates[0][1])
            for name, readers in by_channel(plans).items()
        }

        def feeds() -> Iterator[tuple[dict[str, Any], int | None]]:
            for feed, label in checked_feeds(samples, self._request.model.inputs):
                constants.watch(feed)
                yield feed, label

        def done(count: int) -> None:
            if progress is not None:
                progress("calibrating", count, len(samples))

        again = functools.partial(_feeds_of, samples, self._request.model.inputs)
        calibration = calibrate(self._model, wanted, feeds(), len(samples), done, factors, scales, again)
        if not calibration.samples:
            raise InputError("there are no samples", hint="the folder is empty")
        if self._candidates[0][1].correct_rounding:
            some = itertools.islice(checked_feeds(samples, self._request.model.inputs), SECOND_LOOK)
            measure_rounding(self._model, plans[0], calibration.tensors, (feeds for feeds, _ in some))
        calibration.warnings = [*constants.warnings(calibration.samples), *calibration.warnings]
        return calibration

    def _feeds(self) -> Iterator[dict[str, np.ndarray]]:
        """The samples once more, progress shown."""
        samples, progress = self._request.samples, self._request.progress
        if samples is None:
            return
        for count, (feeds, _) in enumerate(checked_feeds(samples, self._request.model.inputs)):
            if progress is not None:
                progress("rounding with care", count, len(samples))
            yield feeds

    def _smoothing(self, samples: Samples) -> dict[str, Smoothing]:
        """What activations are divided by, from a first look at some of the samples."""
        plans = [place(self._model.graph, settings) for _, settings in self._candidates]
        tensors = smoothable_in_all(plans)
        if not tensors:
            return {}
        axes = {name: input_axis(readers[0]) for name, readers in tensors.items()}
        some = itertools.islice(checked_feeds(samples, self._request.model.inputs), FIRST_LOOK)
        largest = largest_inputs(self._model, axes, (feeds for feeds, _ in some))
        return smoothing(tensors, largest, self._candidates[0][1].smoothing)

    def _search(self, calibration: Calibration, scorer: Scorer, max_drop: float) -> Outcome:
        request = self._request

        rounding: dict[str, np.ndarray] = {}

        def written(settings: Settings, keep_float: Collection[str], careful: bool) -> Written:
            if request.scheme == HALF:
                return in_half_precision(self._model)
            if careful and not rounding:
                plan = place(self._model.graph, settings)
                rounding.update(careful_rounding(self._model, plan, calibration.tensors, self._feeds()))
            return write(self._model, settings, calibration.tensors, keep_float, rounding if careful else None)

        def sensitive(of: Written, settings: Settings) -> Sequence[str]:
            errors = layer_errors(place(self._model.graph, settings), calibration.tensors)
            return [error.layer for error in errors if error.layer in of.quantized]

        judge = Judge(scorer, request.execute)
        timed = request.latency_counts and request.execute is not None
        bench = Bench(
            judge, request.model, judge.open(request.model) if timed else None, request.executor, request.progress
        )
        return search(
            bench,
            self._candidates,
            written,
            sensitive,
            max_drop,
            speed_counts=request.latency_counts and request.scheme == "auto",
        )

    def _done(self, written: Written, record: dict[str, Any]) -> QuantizationResult:
        return QuantizationResult(
            self._request.model.with_graph(written.model),
            {**record, "quantized": written.quantized, "stored": written.stored, "float": written.kept_float},
        )

    def _layers(self, trial: Trial, calibration: Calibration) -> list[dict[str, Any]]:
        return self._accounts(trial.settings, trial.written, calibration.tensors, careful=trial.careful)

    def _accounts(
        self, settings: Settings, written: Written, tensors: Mapping[str, TensorStatistics], *, careful: bool = False
    ) -> list[dict[str, Any]]:
        """What became of every layer of a candidate, the largest error first, as plain data."""
        if self._request.scheme == HALF:
            accounts = account_halves(self._model, written)
        else:
            accounts = account(self._model, settings, written, tensors, rounded_with_care=careful)
        return [entry.as_record() for entry in accounts]


def _feeds_of(samples: Samples, inputs: Sequence[ValueSpec]) -> Iterator[dict[str, np.ndarray]]:
    """What samples feed, without their labels."""
    return (feeds for feeds, _ in checked_feeds(samples, inputs))


def _asked(request: QuantizationRequest, of_target: Sequence[tuple[str, Settings]]) -> list[tuple[str, Settings]]:
    """The candidates of a scheme, from those of the target."""
    scheme, first = request.scheme, of_target[0][1]
    if scheme in STORED:
        return [("weights", _only_stored(first, *STORED[scheme]))]
    if scheme == DYNAMIC:
        stored = _only_stored(first, "int8", 0)
        kinds = dict.fromkeys(request.placement.get("dynamic", KINDS), "dynamic")
        return [("dynamic", replace(stored, layers={**stored.layers, **kinds}))]
    if scheme == HALF:
        return [(HALF, replace(first, layers={}, activation_products=False))]
    if scheme == "int8":
        integer = [(name, settings) for name, settings in of_target if settings.quantizes_activations]
        return integer or list(of_target)
    return list(of_target)


def _different(candidates: Sequence[tuple[str, Settings]], graph: ir.Graph) -> list[tuple[str, Settings]]:
    """The candidates without those that come to the same as one before: not every model has layers of every kind."""
    found: dict[tuple[Hashable, ...], tuple[str, Settings]] = {}
    for name, settings in candidates:
        plan = place(graph, settings)
        known = found.setdefault(plan.outcome(), (name, settings))
        if not plan.layers:  # whose name should not speak of integers that compute
            found[plan.outcome()] = (name, known[1])
    return list(found.values())


def _only_stored(settings: Settings, weights: str, block: int) -> Settings:
    """The same, but with all weights stored as integers of a type and no activation quantized."""
    kinds = (*WEIGHTED, "DepthwiseConv", "Gather", *RECURRENT)
    return replace(
        settings, layers=dict.fromkeys(kinds, "weights"), activation_products=False, weights=weights, block=block
    )


def _why_float(outcome: Outcome, max_drop: float) -> str:
    if any(trial.score.drop <= max_drop for trial in outcome.curve):
        return "the candidates that hold the accuracy budget are slower than float on this machine"
    return f"no candidate holds the accuracy budget, at most {max_drop:.2%} lost"
