"""Refuses what is not accurate enough, and says what may help."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from edgekit.comparison.acceptance.accuracy import Accuracy
from edgekit.comparison.acceptance.fed_back import FedBackAccuracy
from edgekit.comparison.acceptance.recorded import ExportCheck
from edgekit.comparison.floors import Kind
from edgekit.errors import RequirementError


class InaccurateError(RequirementError):
    """What was built is not accurate enough."""

    def __init__(
        self,
        message: str,
        *,
        precision: str,
        worst_samples: Collection[int] = (),
        too_few: str | None = None,
        **details: Any,
    ) -> None:
        super().__init__(message, **details)
        self.precision = precision
        """The precision that it was built in."""
        self.worst_samples = worst_samples
        """On which samples outputs are farthest from the original's, counted from 0."""
        self.too_few = too_few
        """What the samples show too little of to judge by, and what to do; None if they show enough."""


def blame_target(error: RequirementError, export: ExportCheck | None) -> None:
    """Adds to an error's hint that the target is at fault, if the export computes the recorded outputs.

    Args:
        error: Why what was built is refused.
        export: How near the export is to the recorded outputs; None if nothing was recorded.
    """
    if export is not None:
        right = (
            f"the export computes the recorded outputs {export.summary}: the fault is in the target, not in the export"
        )
        error.hint = right if error.hint is None else f"{right}; {error.hint}"


def require_accuracy(accuracy: Accuracy, kind: Kind, precision: str, subject: object) -> None:
    """Refuses a build that is not accurate enough.

    Args:
        accuracy: The measured accuracy.
        kind: What was built.
        precision: The precision that it was built in.
        subject: What to call it in the error.

    Raises:
        InaccurateError: Floors are missed; all of them are named.
    """
    shortfalls = accuracy.shortfalls()
    if shortfalls:
        raise InaccurateError(
            f"what was built as {kind} is not accurate enough, executed by {accuracy.executed_by}",
            precision=precision,
            worst_samples=sorted({at for output in accuracy.outputs if (at := output.worst_sample) is not None}),
            subject=subject,
            expected=f"the original model's outputs, by {accuracy.reference}",
            found="; ".join(shortfalls),
            too_few=_too_few(accuracy, kind),
            hint=_hint(accuracy, kind),
        )


def require_sequel(
    sequel: FedBackAccuracy | None, accuracy: Accuracy, kind: Kind, precision: str, subject: object
) -> None:
    """Refuses a build that departs from the original where each is fed its own states.

    Args:
        sequel: How near the build stays to the original; None if there is no sequence.
        accuracy: How near single steps are.
        kind: What was built.
        precision: The precision that it was built in.
        subject: What to call it in the error.

    Raises:
        InaccurateError: The build departs too far.
    """
    if sequel is not None and sequel.flaws:
        raise InaccurateError(
            f"what was built as {kind} is not accurate enough, executed by {accuracy.executed_by}",
            precision=precision,
            subject=subject,
            expected=f"the original model's outputs, by {accuracy.reference}, fed its own states",
            found="; ".join(sequel.flaws),
            hint=_hint(accuracy, kind),
        )


def _hint(accuracy: Accuracy, kind: Kind) -> str:
    if accuracy.label_doubt is not None:
        return accuracy.label_doubt
    if accuracy.in_single_db:
        reached = ", ".join(f"{name!r} {db:.1f} dB" for name, db in accuracy.in_single_db.items())
        return (
            f"the original computes in float64, and misses the floor when it is executed in float32 ({reached}): "
            "export it for smaller numbers, for example times since a recent day in place of 1970, or package it "
            "for a device that has float64"
        )
    shortfalls = "; ".join(accuracy.shortfalls())
    badly = ", ".join(f"{name!r}" for name in accuracy.self_agreement_db if f"{name!r}" in shortfalls)
    if accuracy.seeded:
        if badly:
            return (
                f"random inputs determine {badly} badly, but the difference is larger than that explains: give real "
                "samples with --data; --accept and then `edgekit verify --layers` show which layer differs"
            )
        return "random inputs may be unlike the data that the model was trained on: give real samples with --data"
    too_few = _too_few(accuracy, kind)
    if too_few is not None:
        return too_few
    if kind is Kind.QUANTIZED:
        return (
            "give more samples, allow more with --max-drop or --floor DB, take it with --accept, or keep it in float "
            "with --quantize none"
        )
    if kind is Kind.FLOAT16:
        return "build it with --precision float32, or ask for less with --floor DB"
    if badly:
        return (
            f"rounding alone changes {badly} much on these samples, but the difference is larger than that explains: "
            "--accept and then `edgekit verify --layers` show which layer differs"
        )
    return "this points to a fault in the conversion: `edgekit extract` helps to find the node"


def _too_few(accuracy: Accuracy, kind: Kind) -> str | None:
    meaning = accuracy.meaning
    if meaning is None or meaning.judges or kind is Kind.FLOAT32 or accuracy.floors.asked:
        return None
    return meaning.too_few
