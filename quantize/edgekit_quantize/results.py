"""The quantizer's results: a written model and its record."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Any

import onnx_ir as ir

from edgekit.model import Model
from edgekit.quantizer import TURNED_DOWN, BudgetError, CandidateError, QuantizationRequest, QuantizationResult
from edgekit_quantize.accounts.account import largest_error_first
from edgekit_quantize.accounts.explain import with_errors
from edgekit_quantize.calibration.statistics import Calibration, TensorStatistics
from edgekit_quantize.graph.quantized_already import quantized_already
from edgekit_quantize.schemes import HALF, STORED
from edgekit_quantize.search.bench import Bench, Trial
from edgekit_quantize.search.search import Outcome
from edgekit_quantize.search.timing import busy_warning
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written

STORES_ALONE = (
    "int8 only stores weights as integers here, as int8-weights does: no layer of the model computes with integers"
)


@dataclass(frozen=True)
class Results:
    """The results that a search leads to, the best first.

    Args:
        request: The request for quantization.
        model: The float model in the form from which candidates are written.
        calibration: What samples showed.
        bench: What measured the candidates.
        outcome: The trials of the search.
        max_drop: The budget: how much of the metric may be lost.
        in_float: Returns the float model that ships where no candidate does.
    """

    request: QuantizationRequest
    model: ir.Model
    calibration: Calibration
    bench: Bench
    outcome: Outcome
    max_drop: float
    in_float: Callable[[], Model]

    def best(self) -> QuantizationResult:
        """The best candidate with its record; if none holds the budget, the float model for ``auto``.

        Raises:
            BudgetError: No candidate holds the budget, and another scheme than ``auto`` was asked for.
            CandidateError: No candidate could be run, and another scheme than ``auto`` was asked for.
        """
        outcome = self.outcome
        best = self._first_of(outcome.held)
        if best is not None:
            return best
        record = self._recorded()
        if outcome.curve:
            record["layers"] = self._layers_of(min(outcome.curve, key=lambda trial: trial.score.drop))
        if self.request.scheme == "auto":
            came = "float" if self._already is None else "the model as it came, quantized already"
            return self._unquantized(outcome.why_float(self.max_drop, came), record)
        if not outcome.curve:
            raise CandidateError("; ".join(f"{name!r} {reason}" for name, reason in outcome.failed.items()))
        unread = self.bench.judge.scorer.unread
        raise BudgetError({**record, "warnings": [*record["warnings"], *filter(None, [unread])]}, self.max_drop)

    def _first_of(self, held: Sequence[Trial]) -> QuantizationResult | None:
        """The first of these trials that holds the budget in all settings and on all samples; None if none does."""
        held = [*dropwhile(lambda trial: not self.bench.complete(trial) or trial.score.drop > self.max_drop, held)]
        if not held:
            last, self.outcome.last = self.outcome.last, None
            return None if last is None else self._first_of(last())
        best = held[0]
        record = {**self._recorded(best), "layers": self._layers_of(best)}
        none = no_smaller(self.request, best.written, {**self._recorded(), "layers": record["layers"]})
        if none is not None:
            return none
        scheme = self._scheme_of(best)
        left = self.bench.judge.scorer.left_to_verify
        if left:
            record["left_to_verify"] = left
        if self.request.scheme == "int8" and scheme == "int8-weights":
            record["warnings"] = [*record["warnings"], STORES_ALONE]
        chosen = {"scheme": scheme, "chosen": best.name, **record}
        after = functools.partial(self._after, held[1:])
        return replace(result_of(self.request, best.written, chosen), next_best=after)

    def _after(self, held: Sequence[Trial]) -> QuantizationResult:
        """The first of these trials that holds the budget, or the float model, after a better one was turned down."""
        return self._first_of(held) or self._unquantized(TURNED_DOWN, self._recorded())

    def _unquantized(self, reason: str, record: Mapping[str, Any]) -> QuantizationResult:
        return QuantizationResult(self.in_float(), {"scheme": "none", "reason": reason, **record})

    def _scheme_of(self, trial: Trial) -> str:
        """The scheme that a trial is of, where the request leaves that open."""
        if self.request.scheme not in {"auto", "int8"}:
            return self.request.scheme
        stored = HALF if trial.settings.is_half else "int8-weights"
        return "int8" if trial.written.quantized else stored

    def _recorded(self, ships: Trial | None = None) -> dict[str, Any]:
        """What the record says of the search, and of the calibration of the trial that ships."""
        calibration, outcome = self.calibration, self.outcome
        narrow = calibration.narrow if ships is not None and ships.written.has_fixed_ranges else ()
        busy = busy_warning(max((trial.spread for trial in outcome.curve), default=0.0))
        doubts = (self.bench.judge.scorer.doubt, self._already, busy)
        record = {
            "samples": calibration.samples,
            "warnings": [*calibration.warnings, *narrow, *filter(None, doubts)],
            "max_drop": self.max_drop,
            "curve": [trial.as_record() for trial in outcome.curve],
            "failed": [{"candidate": name, "reason": reason} for name, reason in outcome.failed.items()],
        }
        return record if outcome.unrestricted is None else {**record, "unrestricted": outcome.unrestricted.as_record()}

    def _layers_of(self, trial: Trial) -> list[dict[str, Any]]:
        return layer_records(self.model, trial.settings, trial.written, self.calibration.tensors)

    @functools.cached_property
    def _already(self) -> str | None:
        """A warning if the given model is quantized already."""
        return quantized_already(self.request.model.graph_model)


def result_of(request: QuantizationRequest, written: Written, record: Mapping[str, Any]) -> QuantizationResult:
    """A written model as a result, whose record also counts the layers by what became of them."""
    done = {"quantized": written.quantized, "stored": written.stored, "float": written.kept_float}
    return QuantizationResult(request.model.with_graph(written.model), {**record, **done})


def no_smaller(request: QuantizationRequest, written: Written, record: Mapping[str, Any]) -> QuantizationResult | None:
    """The unchanged model if a scheme that only stores weights makes them no smaller; None otherwise.

    Args:
        request: The request for quantization.
        written: The model that the scheme writes.
        record: The record of the written model.
    """
    if request.scheme not in {*STORED, HALF}:
        return None
    before, after = request.model.weight_bytes, request.model.with_graph(written.model).weight_bytes
    if after < before and not written.is_float:
        return None
    found = f"{after} bytes, {before} bytes before" if after >= before else "all of them stay float"
    reason = f"{request.scheme} does not make the weights smaller: {found}"
    warnings = [*record["warnings"], f"left as it is: {reason}"]
    return QuantizationResult(request.model, {**record, "scheme": "none", "reason": reason, "warnings": warnings})


def layer_records(
    model: ir.Model, settings: Settings, written: Written, tensors: Mapping[str, TensorStatistics]
) -> list[dict[str, Any]]:
    """The account of every layer of a candidate as plain data, the largest error first.

    Args:
        model: The float model that the candidate was written from.
        settings: The candidate's settings.
        written: The candidate.
        tensors: What samples showed of activations, by name; empty without samples.
    """
    if settings.is_half:
        accounts = largest_error_first(written.accounts)
    else:
        accounts = with_errors(written.accounts, model, settings, tensors)
    return [account.as_record() for account in accounts]
