"""Which form of a model ships: candidates are tried in turn, the best first, and what became of each is recorded.

``--quantize auto`` ends with a bundle if the float model can be packaged. If a candidate cannot be built, loaded or
run, misses its floors, or is larger or slower than the float model, the next one is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

import onnx_ir as ir

from edgekit.bundle import Bundle
from edgekit.comparison.acceptance.refusal import InaccurateError
from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.meaning_accuracy import allowed_text
from edgekit.errors import (
    EdgeKitError,
    InputError,
    InternalError,
    RequestError,
    RequirementError,
    UnsupportedOpsError,
)
from edgekit.files.disk_space import is_out_of_space
from edgekit.graph.integer_products import multiplies_integers
from edgekit.graph.reading.onnx_file import sha256
from edgekit.graph.sizes.shapes import operations_digest
from edgekit.model import Model
from edgekit.packaging.float_form import AUTO, FLOAT32, SAME_SPEED, NotWorthItError, SlowerError
from edgekit.quantizer import is_smaller
from edgekit.reporting.summary import stage_record
from edgekit.stages.build import Built
from edgekit.stages.bundle import loaded_bytes
from edgekit.stages.quantize import NONE, Quantize, Quantized
from edgekit.stages.verify import Verified
from edgekit.units import bytes_text, bytes_texts

STORED_INTEGERS = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4)
FLOAT = "float"
"""The name of a float model whose precision the target chooses."""
_MEASURED = ("curve", "failed")
COUNTED = {"accuracy": "labels", "agreement": "decisions"}
"""What a metric counts, for metrics whose name does not say it."""
SHARED_OF = {"explained": "the signal"}
"""What a metric is a share of, for metrics whose name does not say it."""


class CandidateOutcome(StrEnum):
    """What became of a candidate."""

    SHIPS = "ships"
    REFUSED = "refused"
    """It was built and executed, and does not meet the requirements."""
    FAILED = "failed"
    """It cannot be built, loaded or run."""
    SPARE = "not needed"
    """It meets the requirements, but another one is better."""


_COUNTED_TO = 1e-3
"""How far a number of lost items may be from a whole number to count as one; otherwise it is an expected value."""


@dataclass(frozen=True)
class Candidate:
    """A form of the model that may ship."""

    name: str
    quantized: Quantized
    precision: str
    """The value of :attr:`edgekit.target.BuildOptions.precision` to build it with."""


@dataclass
class CandidateOutcomes:
    """What became of every candidate, in the order in which they were tried."""

    given: str = "the float model"
    """What candidates are compared with, in words."""
    _records: dict[str, dict[str, Any]] = field(default_factory=dict)

    def measured(self, record: Mapping[str, Any]) -> None:
        """Records what became of the candidates that a quantizer measured.

        Args:
            record: The quantizer's record, with the ``curve`` of its candidates, and those that ``failed``.
        """
        max_drop = record.get("max_drop")
        for failure in record.get("failed", ()):
            self.record(failure["candidate"], CandidateOutcome.FAILED, failure["reason"])
        for trial in record.get("curve", ()):
            fate, reason = _of_trial(trial, max_drop, self.given)
            self._records[trial["candidate"]] = {**_row(trial["candidate"], fate, reason), **_figures(trial)}

    def measured_since(self, before: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        """Records what became of the candidates that a quantizer measured after one of its forms was given up.

        Args:
            before: The record of the form that was given up.
            record: The record of the quantizer's next form.
        """
        known = {row["candidate"] for key in _MEASURED for row in before.get(key, ())}
        new = {key: [row for row in record.get(key, ()) if row["candidate"] not in known] for key in _MEASURED}
        self.measured({**record, **new})

    def record(self, name: str, fate: CandidateOutcome, reason: str = "") -> None:
        """Records what became of a candidate."""
        self._records[name] = {**self._records.get(name, {}), **_row(name, fate, reason)}

    def warned(self, name: str, texts: Sequence[str]) -> None:
        """Records the warnings of the stages of a candidate that was given up: they are not among the bundle's own."""
        if texts:
            self._records[name]["warnings"] = list(texts)

    def as_record(self) -> list[dict[str, Any]]:
        """The manifest's ``candidates``."""
        return list(self._records.values())


def _row(name: str, fate: CandidateOutcome, reason: str) -> dict[str, Any]:
    return {"candidate": name, "fate": str(fate), "reason": reason}


def _figures(trial: Mapping[str, Any]) -> dict[str, Any]:
    """What a trial measured, under the names of the manifest."""
    kept = ("metric", "value", "float_value", "sqnr_db", "latency_ms", "float_latency_ms", "weight_bytes")
    return {key: trial[key] for key in kept if trial.get(key) is not None}


def _of_trial(trial: Mapping[str, Any], max_drop: float | None, given: str) -> tuple[CandidateOutcome, str]:
    if max_drop is not None and trial["drop"] > max_drop:
        return CandidateOutcome.REFUSED, _lost_text(trial, max_drop)
    size, float_size = trial["weight_bytes"], trial.get("float_weight_bytes")
    if size == float_size == 0:
        return CandidateOutcome.REFUSED, "no weights that could be stored in fewer bits"
    has_integers = trial.get("integer_layers") != 0
    if float_size is not None and not is_smaller(size, float_size, multiplies_integers=has_integers):
        hardly = "hardly" if size < float_size else "no"
        both = " in place of ".join(bytes_texts(size, float_size))
        sizes = f"{bytes_text(size)} each" if size == float_size else both
        return CandidateOutcome.REFUSED, f"{hardly} smaller than {given}: {sizes}"
    latency, of_float = trial.get("latency_ms"), trial.get("float_latency_ms")
    if trial.get("is_slower", bool(latency and of_float and latency > of_float * SAME_SPEED)):
        return CandidateOutcome.REFUSED, f"slower than {given}"  # by how much is a measurement
    return CandidateOutcome.SPARE, ""


def _lost_text(trial: Mapping[str, Any], max_drop: float) -> str:
    """In words, what a trial lost: a number of items if the metric counts items, else a share."""
    count, metric = trial.get("count"), trial["metric"]
    if (lost_class := trial.get("lost_class")) is not None:
        return str(lost_class)
    if (head := trial.get("head")) is not None:
        kept = trial["heads"][head]
        what, lost = "signal" if kept["decisions"] is None else "decisions", 1 - float(kept["kept"])
        allowed = max_drop * lost / trial["drop"]
        if kept.get("inside"):
            return (
                f"{loss_text(lost)} of the runs take another path, since the model continues with its own choice "
                f"{head!r}; {loss_text(allowed)} is allowed"
            )
        return f"{loss_text(lost)} of the {what} of output {head!r} lost, {loss_text(allowed)} is allowed"
    if count is None:
        return f"{loss_text(trial['drop'])} of {SHARED_OF.get(metric, metric)} lost, {loss_text(max_drop)} is allowed"
    counted = COUNTED.get(metric, metric)
    lost = trial["drop"] * count
    if abs(lost - round(lost)) > _COUNTED_TO:
        return f"{loss_text(trial['drop'])} of {count} {counted} lost, {loss_text(max_drop)} is allowed"
    return f"{round(lost)} of {count} {counted} lost ({allowed_text(max_drop, count)})"


def why(error: Exception) -> tuple[CandidateOutcome, str]:
    """The fate of a candidate that raised an error, and the reason in one line."""
    if not isinstance(error, EdgeKitError):
        return CandidateOutcome.FAILED, " ".join(f"{type(error).__name__}: {error}".split())
    text = error.message if error.found is None else f"{error.message}: {error.found}"
    fate = CandidateOutcome.REFUSED if isinstance(error, RequirementError) else CandidateOutcome.FAILED
    return fate, " ".join(text.split())


@dataclass(frozen=True)
class Choice:
    """What was chosen when a bundle was packaged."""

    candidate: str | None
    """The quantizer's name for the chosen candidate; None if there was nothing to choose."""
    in_float: bool
    """Whether the float model ships."""
    precision: str | None = None
    """The precision of the float model that ships; None for a quantized model."""
    target: str | None = None
    """The name of the target that built the bundle; None if it does not matter."""
    source: tuple[str, str] | None = None
    """The file of the bundle's model, and its SHA-256; None if they do not matter."""
    profile: str | None = None
    """The device that the bundle is for; None if it does not matter."""

    @classmethod
    def of(cls, bundle: Bundle) -> Choice:
        """The choice that a bundle's manifest records."""
        manifest = bundle.manifest
        record = stage_record(manifest, Quantize.name)
        in_float = record.get("scheme", NONE) == NONE
        precision = manifest["model"]["kind"] if in_float else None
        file = manifest["source"]["files"][0]
        source = file["path"], file["sha256"]
        target = manifest["target"]
        return cls(record.get("chosen"), in_float, precision, target["name"], source, target["profile"])

    def require_target(self, target: str | None) -> None:
        """Checks that the candidates to choose among are those of the bundle's target.

        Args:
            target: The name of the target that the candidates are for; None if they are for no target.

        Raises:
            InputError: The candidates are for another target, or for none.
        """
        if target is None and self.target is not None:
            raise InputError(
                "is a bundle of a target, which has candidates of its own",
                subject="--like",
                expected=f"--target {self.profile}, or another device that {self.target} builds for",
                found="no --target",
                hint=f"give --target {self.profile}",
            )
        if self.target not in {None, target}:
            raise InputError(
                "is a bundle of another target, which has other candidates",
                subject="--like",
                expected=f"a bundle that {target} built",
                found=self.target,
                hint="leave --like out",
            )

    def of_another_model(self, model: Path) -> str | None:
        """A warning if the model is not the bundle's; None if it is, or if the bundle's model does not matter."""
        if self.source is None or self.source[1] == sha256(model):
            return None
        return (
            f"--like names a bundle of another model ({self.source[0]}): the candidate chosen for that model is "
            "used for this one, too"
        )

    def first(self, precisions: Sequence[str]) -> Sequence[str]:
        """The precisions in the order in which the float model is tried: the chosen one before the others.

        If the target decides on the precision (:data:`AUTO`), it does not decide by latencies, and decides as before.
        """
        if AUTO in precisions:
            return precisions
        return sorted(precisions, key=lambda precision: precision != self.precision)


def require_size(built: Built, most: int, *, searched: bool = False) -> None:
    """Checks that what was built is as small as was asked for.

    Args:
        built: What was built.
        most: How many bytes it may take.
        searched: Whether a form of that size was searched for already.

    Raises:
        NotWorthItError: The build is larger.
    """
    size = loaded_bytes(built.artifact)
    if size > most:
        found, allowed = bytes_texts(size, most)
        raise NotWorthItError(
            "is larger than --max-size allows",
            subject=built.artifact.main.name,
            expected=f"at most {allowed}",
            found=found,
            hint="no form of that size was accurate enough when it was built; allow more bytes, or a larger --max-drop"
            if searched
            else "--quantize auto with samples in --data searches for a model of that size",
        )


def candidates(quantized: Quantized, floats: Sequence[str], precisions: Sequence[str]) -> Iterator[Candidate]:
    """The forms of a model in the order in which they are tried.

    Args:
        quantized: What the quantizer made of the model; it may know what to try next.
        floats: The precisions to build the float model in, in order; empty if only a quantized model is to ship. A
            model that the quantization scheme leaves in float is then built in ``precisions``.
        precisions: The precisions to build the rest of a quantized model in, in order.
    """
    last, current = quantized, None if quantized.stays_float else quantized
    while current is not None:
        for precision in precisions:
            name = current.candidate if precision == precisions[0] else f"{current.candidate}, the rest in {precision}"
            yield Candidate(name, current, precision)
        following = None if current.next_best is None else current.next_best()
        last = following or current
        current = None if following is None or following.stays_float else following
    in_float = last.in_float()
    for precision in floats or (precisions if quantized.stays_float else ()):
        yield Candidate(FLOAT if precision == AUTO else precision, in_float, precision)


def first_accepted(
    forms: Iterator[Candidate],
    attempt: Callable[[Candidate], Verified],
    outcomes: CandidateOutcomes,
    fall_back: Callable[[Candidate, Candidate, str], Sequence[str]],
    *,
    whatever_fails: bool,
) -> Verified:
    """The first of the candidates that can be built and meets the requirements, built and verified.

    Args:
        forms: The candidates in the order in which they are tried.
        attempt: Builds a candidate, and checks it.
        outcomes: Records what becomes of each candidate.
        fall_back: Called before the next candidate is tried, with the failed one, the next one, and a message about
            the failed one; returns the warnings of the failed one's stages.
        whatever_fails: Whether the next candidate is tried whatever error the failed one raised; otherwise only if the
            failed one was built in half precision or multiplies integers, and is not accurate enough for that reason.

    Raises:
        edgekit.errors.EdgeKitError: The error of the last candidate, or one that no other candidate can avoid.
    """
    failed: tuple[Candidate, Exception] | None = None
    slow: dict[tuple[str, str], Candidate] = {}  # candidates slower than the float model, by their operations
    for form in forms:
        if failed is not None:
            before, error = failed
            if not _may_help(form, before, error, whatever_fails=whatever_fails):
                continue
            if form.quantized is not before.quantized:
                outcomes.measured_since(before.quantized.record, form.quantized.record)
            as_slow = slow.get(_operations(form)) if slow else None
            if as_slow is not None:
                why_not = (
                    f"not tried: it has the operations of {_quoted(as_slow.name)}, which is slower than the float model"
                )
                outcomes.record(form.name, CandidateOutcome.REFUSED, why_not)
                continue
            warned = fall_back(
                before, form, f"{_failure_text(before, error)}: {_in_place_of(before, form, error)} instead"
            )
            outcomes.warned(_name(before, error), warned)
        try:
            verified = attempt(form)
        except RequestError:
            raise
        except Exception as error:
            if is_out_of_space(error):  # no other form would fit either
                raise
            outcomes.record(_name(form, error), *why(error))
            failed = form, error
            if isinstance(error, SlowerError):
                slow[_operations(form)] = form
        else:
            outcomes.record(form.name if form.name != FLOAT else verified.artifact.precision, CandidateOutcome.SHIPS)
            return verified
    if failed is None:
        raise InternalError("there is no candidate")
    raise failed[1]


def _operations(form: Candidate) -> tuple[str, str]:
    """A key that forms of the same latency share: rounding weights differently does not change the latency."""
    return operations_digest(form.quantized.model), form.precision


def _may_help(form: Candidate, before: Candidate, error: Exception, *, whatever_fails: bool) -> bool:
    """Whether a form may succeed although the one before raised this error."""
    if form.quantized is not before.quantized:
        return whatever_fails
    if isinstance(error, InaccurateError):
        return error.precision != FLOAT32 or (form.precision == FLOAT32 and _holds_integers(form.quantized.model))
    return whatever_fails and not isinstance(error, UnsupportedOpsError)


def _holds_integers(model: Model) -> bool:
    """Whether a model multiplies or stores matrices of integers: runtimes may compute it with fewer bits."""
    return multiplies_integers(model) or any(
        value.dtype is not None and value.dtype in STORED_INTEGERS and value.shape is not None and len(value.shape) > 1
        for value in model.graph.initializers.values()
    )


def _name(form: Candidate, error: Exception) -> str:
    """A candidate's name; for a float model whose precision the target chose, the name of that precision."""
    return error.precision if form.name == FLOAT and isinstance(error, InaccurateError) else form.name


def _in_place_of(before: Candidate, form: Candidate, error: Exception) -> str:
    """What is tried next, by name; if the failed one has the same name, the option that asks for the precision."""
    same = _name(before, error) == form.name
    return f"--precision {form.precision}" if same else _quoted(form.name)


def _failure_text(form: Candidate, error: Exception) -> str:
    """In words, what happened to a candidate."""
    name = _quoted(_name(form, error))
    if isinstance(error, InaccurateError):
        subject = str(error.subject or "")
        requirements = f" {subject}" if subject.startswith("with ") else ""  # an instruction set
        reasons = "; ".join(filter(None, [error.found, error.too_few]))
        return f"{name} is not accurate enough{requirements} ({reasons})"
    if isinstance(error, NotWorthItError):
        beside = "" if error.found is None else f" ({error.found}; it has to be {error.expected})"
        return f"{name} {error.message}{beside}"
    return f"{name} does not work ({why(error)[1]})"


def _quoted(name: str) -> str:
    """A candidate's name for a sentence: a name of several words, such as 'weights only', is put in quotes."""
    return f"'{name}'" if " " in name else name
