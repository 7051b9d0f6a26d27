"""Compares an exported model with what its framework computed, so that errors of the export are found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgekit.comparison.acceptance.accuracy import LEAST_DB, SELF_MARGIN_DB
from edgekit.comparison.acceptance.conditioning import conditioning
from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.floors import SQNR_FLOOR_DB, Kind
from edgekit.comparison.numbers.metrics import OutputAccuracy
from edgekit.comparison.numbers.ranked import RankedRows
from edgekit.comparison.side_by_side import Executor, compare, ranked_on
from edgekit.data.samples import Sample, Samples
from edgekit.errors import InputError, RequirementError
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.suggestions import near_names


class ExportError(RequirementError):
    """The exported model does not compute what its framework computed."""


class Recording:
    """Samples with recorded outputs, and an executor that returns these outputs.

    Args:
        samples: The samples.
        outputs: The exported model's outputs; recorded ones are named as these, or by their position.
    """

    executed_by = "the outputs recorded with the samples"

    def __init__(self, samples: Samples, outputs: tuple[ValueSpec, ...]) -> None:
        self._samples = samples
        self._specs = {spec.name: spec for spec in outputs}
        self._names = tuple(self._specs)
        self._current: Arrays = {}

    @property
    def has_labels(self) -> bool:
        """Whether every sample has a label."""
        return self._samples.has_labels

    def __len__(self) -> int:
        return len(self._samples)

    def __iter__(self) -> Iterator[Sample]:
        for sample in self._samples:
            self._current = {
                self._name(key, sample.where): self._typed(array, self._specs[self._name(key, sample.where)])
                for key, array in sample.outputs.items()
            }
            yield sample

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Returns what was recorded with the sample that the iteration has reached."""
        return dict(self._current)

    def names(self) -> tuple[str, ...]:
        """The outputs that were recorded, in the model's order; empty where none were."""
        first = next(iter(self._samples), None)
        recorded = set() if first is None else {self._name(key, first.where) for key in first.outputs}
        return tuple(name for name in self._names if name in recorded)

    def _name(self, key: str, sample: str) -> str:
        if key in self._specs:
            return key
        if key.isdecimal() and int(key) < len(self._names):
            return self._names[int(key)]
        raise InputError(
            f"the model has no output {key!r}",
            subject=sample,
            expected=near_names(key, self._names),
            hint="name recorded outputs as the exported model does, or by their position: output:0",
        )

    @staticmethod
    def _typed(array: np.ndarray, spec: ValueSpec) -> np.ndarray:
        """Returns the array in the output's type if only the width differs: frameworks widen some types."""
        same_kind = array.dtype.name != spec.dtype and spec.dtype.rstrip("0123456789") == array.dtype.name.rstrip(
            "0123456789"
        )
        return array.astype(spec.dtype) if same_kind else array


@dataclass(frozen=True)
class ExportCheck:
    """How near an export is to what its framework computed."""

    outputs: tuple[OutputAccuracy, ...]

    def as_record(self) -> list[dict[str, Any]]:
        """Plain data for the manifest."""
        return [output.as_record() for output in self.outputs]

    @property
    def summary(self) -> str:
        """How near, in words."""
        decibels = [output.worst_sample_db for output in self.outputs if output.worst_sample_db is not None]
        return "exactly" if not decibels or min(decibels) == float("inf") else f"to {min(decibels):.0f} dB"


def check_export(original: Model, reference: Executor, samples: Samples) -> ExportCheck | None:
    """Compares the exported model, executed by the reference, with the outputs that the samples hold.

    Every floating-point output has to reach the floor of a float32 build (of a float16 build if the model has half
    floats), or what the model's conditioning allows. In other outputs no larger share of elements may differ than
    between executions of the model.

    Args:
        original: The exported model.
        reference: Executes it.
        samples: Samples with recorded outputs.

    Returns:
        How near the outputs are; None if nothing was recorded.

    Raises:
        ExportError: The export computes something else.
        InputError: The model has no output of a recorded name.
    """
    recording = Recording(samples, original.returned_outputs)
    names = recording.names()
    if not names:
        return None
    flaws: list[str]
    ranked = ranked_on(samples, reference, original, _kind(original))
    try:
        outputs, _ = compare(recording, recording, reference, names, ranked=ranked)
    except RequirementError as error:
        flaws = [f"{error.message} ({error.subject}: {error.found} instead of {error.expected})"]
    else:
        flaws = _flaws(original, samples, outputs, ranked)
        if not flaws:
            return ExportCheck(outputs)
    raise ExportError(
        "does not compute what its framework computed: the fault is in the export, not in the target",
        subject=original.name,
        expected="the outputs recorded with the samples",
        found="; ".join(flaws),
        hint="export the model again, in inference mode and with another exporter or opset; "
        "`edgekit extract` cuts it to the part that differs",
    )


def _kind(original: Model) -> Kind:
    return Kind.FLOAT16 if original.has_half_floats else Kind.FLOAT32


def _flaws(
    original: Model, samples: Samples, outputs: tuple[OutputAccuracy, ...], ranked: RankedRows | None
) -> list[str]:
    kind = _kind(original)
    floor = SQNR_FLOOR_DB[kind]
    counted = None if ranked is None or kind is not Kind.FLOAT32 else ranked.result()
    near = [
        output.mismatch == 0 and (output.worst_sample_db is None or output.worst_sample_db >= floor)
        for output in outputs
    ]
    if all(near) and (counted is None or counted.shortfall() is None):
        return []
    limits = conditioning(original, samples, ranked)
    flaws = []
    if counted is not None:
        own = replace(counted, own_lost_rows=limits.lost_rows, own_lost_scores=limits.lost_scores)
        flaws = [flaw] if (flaw := own.shortfall()) is not None else []
    for output in outputs:
        if output.worst_sample_db is None:
            if output.mismatch > limits.mismatch.get(output.name, 0.0):
                flaws.append(f"output {output.name!r}: {loss_text(output.mismatch)} of the elements differ")
            continue
        asked = min(floor, max(limits.sqnr_db.get(output.name, floor) - SELF_MARGIN_DB, LEAST_DB))
        if output.mismatch or not output.worst_sample_db >= asked:
            flaws.append(
                f"output {output.name!r}: SQNR {output.worst_sample_db:.1f} dB on its worst sample "
                f"(at least {asked:.0f} dB)"
            )
    return flaws
