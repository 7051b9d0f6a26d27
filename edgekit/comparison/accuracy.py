"""What accuracy is asked of a built model, and whether it has it.

The built model's outputs are compared with those of the original float model. What has to be reached depends on what
was built:

==========  =============================================================================================
kind        floor
==========  =============================================================================================
float32     every floating-point output 50 dB SQNR on every sample; all other outputs equal
float16     every floating-point output 25 dB SQNR on every sample; all other outputs equal
quantized   every floating-point output 10 dB SQNR over all samples, or, where its last axis holds scores, the same
            decision as the original in 95 % of the cases; 95 % of the elements of other outputs equal
==========  =============================================================================================

Where the samples have labels, the share of labels found may fall by ``max_drop`` (1 % where nothing else is asked),
whatever the kind, and a quantized model's output that tells the class is judged by that alone. Labels of which the
original finds no more than a guess would find prove nothing, and count as none. Without labels a
``max_drop`` that was asked for bounds the share of changed decisions in place of the 5 %: no more labels can be lost.
An output that no longer follows its input, or is infinite or NaN where the original's is not, never passes.

Some outputs are not determined to 50 dB on some inputs: a score of 1e-7, say, that a sigmoid computes as a difference
of larger numbers. ONNX Runtime itself gives another one as soon as it optimizes the graph. What the original's two
executions agree on, less :data:`SELF_MARGIN_DB`, is all that is asked of such an output, and never less than of a
quantized one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import numpy as np

from edgekit.comparison.metrics import Comparison, LabelCount, OutputAccuracy, TaskAccuracy, class_output, json_number
from edgekit.data.samples import Samples
from edgekit.execution.recurrence import restart
from edgekit.model import Arrays


class Kind(StrEnum):
    """What the accuracy of a built model is judged as."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    QUANTIZED = "quantized"


SQNR_FLOOR_DB = {Kind.FLOAT32: 50.0, Kind.FLOAT16: 25.0, Kind.QUANTIZED: 10.0}
SELF_MARGIN_DB = 6.0
"""How much farther from the original a build may be than the original's two executions are from each other: twice the
error."""
MAX_DROP = 0.01
MAX_DISAGREEMENT = 0.05


class Executor(Protocol):
    """Runs a model: the original's reference session, or a built artifact's runner."""

    @property
    def executed_by(self) -> str:
        """What really executes."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""


@dataclass(frozen=True)
class Floors:
    """What has to be reached."""

    sqnr_db: float
    agreement: float | None
    """Share of equal decisions that also does; None where the SQNR alone decides."""
    max_drop: float | None
    """Share of the samples whose labels may be lost; None without labels that prove something."""
    exact_integers: bool

    @classmethod
    def of(cls, kind: Kind, *, labelled: bool, max_drop: float | None) -> Floors:
        """The floors for what was built.

        Args:
            kind: What was built.
            labelled: Whether the samples have labels that prove something.
            max_drop: What the user allows, as a fraction; None where nothing was said.
        """
        quantized = kind is Kind.QUANTIZED
        return cls(
            sqnr_db=SQNR_FLOOR_DB[kind],
            agreement=1 - (MAX_DISAGREEMENT if max_drop is None or labelled else max_drop) if quantized else None,
            max_drop=(MAX_DROP if max_drop is None else max_drop) if labelled else None,
            exact_integers=not quantized,
        )

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Floors:
        """The floors that a manifest holds."""
        return cls(**record)


@dataclass(frozen=True)
class SizeAccuracy:
    """How accurate a built model is where its open dimensions have certain sizes."""

    sizes: Mapping[str, int]
    samples: int
    outputs: tuple[OutputAccuracy, ...]

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "sizes": dict(self.sizes),
            "samples": self.samples,
            "outputs": [output.as_record() for output in self.outputs],
        }


@dataclass(frozen=True)
class Accuracy:
    """How accurate a built model is: the manifest's ``accuracy``."""

    executed_by: str
    """What really executed the built model."""
    reference: str
    """What it was compared with."""
    seeded: bool
    """Whether the inputs were drawn from a seed, because there were no samples."""
    samples: int
    floors: Floors
    outputs: tuple[OutputAccuracy, ...]
    task: TaskAccuracy | None
    """None without labels."""
    self_agreement_db: Mapping[str, float] = field(default_factory=dict)
    """SQNR between two executions of the original, of the outputs on which that limits what can be asked."""
    sizes: tuple[SizeAccuracy, ...] = ()
    """At each size that was tried of the open dimensions; empty where there are none."""

    @property
    def worst_db(self) -> float | None:
        """The least SQNR of a floating-point output on any sample; None where all outputs are others."""
        return min(
            (output.worst_sample_db for output in self.outputs if output.worst_sample_db is not None), default=None
        )

    @property
    def label_doubt(self) -> str | None:
        """Why the labels do not count; None where they do, or where there are none."""
        if self.task is None or self.floors.max_drop is not None:
            return None
        among = "" if self.task.classes is None else f" among {self.task.classes} classes"
        return (
            f"the original finds {self.task.reference:.2%} of {self.samples} labels{among}, no more than a guess may "
            "find: they prove nothing, and the outputs are judged without them; "
            "check the labels, the order of the classes and the preprocessing, or give more samples"
        )

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "executed_by": self.executed_by,
            "reference": self.reference,
            "data": {"kind": "seeded" if self.seeded else "samples", "samples": self.samples},
            "floors": asdict(self.floors),
            "outputs": [output.as_record() for output in self.outputs],
            "task": None if self.task is None else self.task.as_record(),
            "self_agreement_db": {name: json_number(value) for name, value in self.self_agreement_db.items()},
            "sizes": [size.as_record() for size in self.sizes],
        }

    def shortfalls(self) -> list[str]:
        """What is not reached, a text each; empty where the built model passes."""
        flaws = [flaw for output in self.outputs for flaw in self._flaws(output)]
        if self.task is not None and self.floors.max_drop is not None and not self.task.drop <= self.floors.max_drop:
            flaws.append(
                f"top-1 accuracy {self.task.built:.2%} instead of {self.task.reference:.2%} on {self.samples} samples "
                f"(a drop of {self.floors.max_drop:.2%} is allowed)"
            )
        return flaws

    def _flaws(self, output: OutputAccuracy) -> list[str]:
        subject = f"output {output.name!r}"
        if output.stuck:
            return [f"{subject} is the same for all samples, the original's is not"]
        if output.sqnr_db is None:
            allowed = 0.0 if self.floors.exact_integers else MAX_DISAGREEMENT
            enough = output.mismatch <= allowed
            return (
                [] if enough else [f"{subject}: {output.mismatch:.2%} of the elements differ (at most {allowed:.0%})"]
            )
        if output.mismatch > 0:
            return [f"{subject} is infinite or NaN where the original's is not, or the other way round"]
        if self.floors.agreement is None:  # a float build: every single sample counts
            floor = self.float_floor(output.name)
            reached = output.worst_sample_db if output.worst_sample_db is not None else output.sqnr_db
            if reached >= floor:
                return []
            return [f"{subject}: SQNR {reached:.1f} dB on its worst sample (at least {floor:.0f} dB)"]
        judged_by_labels = (
            self.task is not None and self.task.output == output.name and self.floors.max_drop is not None
        )
        agrees = output.agreement is not None and output.agreement >= self.floors.agreement
        if judged_by_labels or agrees or output.sqnr_db >= self.floors.sqnr_db:
            return []
        agreement = (
            ""
            if output.agreement is None
            else (
                f", and the same decision in {output.agreement:.1%} of the cases (at least {self.floors.agreement:.1%})"
            )
        )
        return [f"{subject}: SQNR {output.sqnr_db:.1f} dB (at least {self.floors.sqnr_db:.0f} dB){agreement}"]

    def float_floor(self, output: str) -> float:
        """The SQNR in dB that a floating-point output of a float build has to reach on every sample."""
        limit = self.self_agreement_db.get(output, math.inf) - SELF_MARGIN_DB
        return min(self.floors.sqnr_db, max(limit, SQNR_FLOOR_DB[Kind.QUANTIZED]))


def compare(
    samples: Samples,
    original: Executor,
    built: Executor,
    outputs: tuple[str, ...],
    step: Callable[[str, int, int], None] | None = None,
) -> tuple[tuple[OutputAccuracy, ...], TaskAccuracy | None]:
    """Runs both models on all samples; to models with states, they are the steps of one sequence.

    Args:
        samples: What to run them on.
        original: The float model.
        built: What was built from it.
        outputs: The original's outputs, in order.
        step: Told how many samples are done.

    Returns:
        One accuracy an output, and the share of labels found where the samples have labels and an output tells the
        class (see :func:`edgekit.comparison.metrics.class_output`).

    Raises:
        edgekit.errors.RequirementError: The built model lacks an output, or an output's shape or dtype is another one.
        edgekit.errors.InputError: A sample cannot be read, or its label is no class.
    """
    comparison = Comparison(outputs)
    restart(original)
    restart(built)
    counts: tuple[LabelCount, LabelCount] | None = None
    for done, sample in enumerate(samples, 1):
        wanted, got = original.run(sample.feeds), built.run(sample.feeds)
        comparison.add(wanted, got)
        if sample.label is not None:
            if counts is None and (name := class_output({output: wanted[output] for output in outputs})) is not None:
                counts = LabelCount(name), LabelCount(name)
            for count, arrays in zip(counts or (), (wanted, got), strict=False):
                count.add(sample.label, arrays, sample.name)
        if step is not None:
            step("sample", done, len(samples))
    if counts is None:
        return comparison.results(), None
    reference, found = counts
    return comparison.results(), TaskAccuracy(reference.output, reference.accuracy, found.accuracy, reference.classes)
