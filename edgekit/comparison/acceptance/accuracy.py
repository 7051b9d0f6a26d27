"""What accuracy is asked of a built model, and whether the model reaches it.

The built model's outputs are compared with those of the original float model. A float32 build tests the conversion:
every floating-point output needs 50 dB SQNR on every sample, and all other outputs have to be equal. Pictures and
quantized numbers of 8 bits, though, may differ by one count in 1 % of their elements. One rule holds for all builds of
less precision, half precision or integers. An output passes

- by the labels, if the samples have labels and the output tells the class: the share of labels found may fall by
  ``max_drop`` (1 %). If nearly all samples are of one class, the class's probabilities have to rank the samples as
  well: 10 dB of what varies;
- by its meaning, if that is known and the samples show 20 items or more (:mod:`edgekit.comparison.meaning`): at most
  5 % of a detector's boxes are found by one model alone, or at most 5 % of a recognizer's characters differ, and boxes
  of both models overlap by 0.75 on average. Numbers and decisions of such outputs do not count. If the original finds 5
  to 9 objects, all of them have to be kept; else the numbers count;
- by its angles, if it is an embedding: the rank correlation of cosines is at least 0.95, at least 90 % of the variance
  is explained, and at most 5 % of the vectors are lost (:mod:`edgekit.comparison.embeddings.angles`);
- by its decisions, if an axis holds scores or the output says yes or no (:mod:`edgekit.comparison.decisions.shared`):
  at most 5 % of them change, no class is lost, and the SQNR is at least 3 dB;
- by its signal: 20 dB SQNR over all samples, and 10 dB on each sample, whose noise is compared with its own power or
  with a tenth of an average sample's power, whichever is more. So a quiet sample may have as much noise as an average
  one;
- as other numbers, if at most 5 % of the elements differ.

If the user asks for less than 5 % (``max_drop``), an output of classes that the graph declares fails in spite of its
signal if more decisions change than that, and than chance may explain.

Labels count for every kind of build. If the original finds no more labels than a guess would find, the labels prove
nothing, and are ignored. Without labels, a ``max_drop`` that was asked for replaces the 5 % of changed decisions, boxes
and characters, and bounds how far a rank correlation may be below 1: no more labels than that can be lost. If no labels
judge, an output never passes that loses a class which the graph declares by a Softmax or an ArgMax. With or without
labels, an output never passes that no longer depends on its input, or that is infinite or NaN where the original's is
not. ``--floor`` asks for another SQNR, which decisions, boxes, text and angles cannot replace; ``--accept`` takes a
build that misses its floors.

Some outputs are not determined to 50 dB on some inputs, such as a score of 1e-7 that a sigmoid computes as a difference
of larger numbers. ONNX Runtime itself gives another score when it optimizes the graph, or when inputs and weights are
moved by half a unit in the last place (:mod:`edgekit.comparison.acceptance.conditioning`). Such an output only has to
reach the SQNR between executions of the original, less :data:`SELF_MARGIN_DB` and never less than 10 dB: on each sample
of a float32 build, and over all samples of other builds. A single sample of a float32 build may be below 10 dB only if
all samples together reach the 20 dB that are asked of other builds: one logit near zero may have as large an error as a
large logit. A file that multiplies integers rounds at every layer, and a heat map of 8 bits has several greatest
values. If executions of such a file agree to less over all samples, that agreement less :data:`SELF_MARGIN_DB`, and
never less than 10 dB, replaces the 20 dB; pictures and quantized numbers of 8 bits have to reach it, too, and at least
20 dB. In outputs of integers, a float32 build may differ in twice the share of elements that differs between executions
of the original, and in 25 % at most: a number that is cut to an integer changes by one where rounding changes it, and a
code for the remainder of a sound changes all codes that follow it. Rows by falling score are compared wherever they
stand (:mod:`edgekit.comparison.numbers.ranked`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.decisions.label_accuracy import TaskAccuracy
from edgekit.comparison.decisions.shared import beyond_luck
from edgekit.comparison.floors import LOSS_DIGITS, MAX_DISAGREEMENT, SQNR_FLOOR_DB, WEAKEST_BELOW_DB, Floors, Kind
from edgekit.comparison.meaning_accuracy import MeaningAccuracy, allowed_text
from edgekit.comparison.numbers.metrics import OutputAccuracy, json_number
from edgekit.comparison.numbers.orders import MAX_BROKEN
from edgekit.comparison.numbers.ranked import RankedAccuracy
from edgekit.comparison.padding import Padding

LEAST_DB = 10.0
"""The least SQNR in dB that any output has to reach, however little executions of the original agree."""
MOST_EXCHANGED = 4
"""The largest number of exchanged labels that a message names."""
DECISION_DB = 3.0
"""The SQNR in dB that an output needs to pass by its decisions: below it, more than half of its power is error."""
ONE_COUNT_SHARE = 0.01
"""The share of a picture's elements that may differ by one count, where numbers halfway between two are rounded."""
SELF_MARGIN_DB = 6.0
"""How many dB farther from the original a build may be than the original's executions are from each other: twice the
error."""
SELF_MARGIN = 2
"""A float32 build may differ in this many times the share of elements in which the original's executions differ."""
MOST_UNDETERMINED = 0.25
"""The largest share of unequal elements that passes, however many differ between the original's own executions."""


@dataclass(frozen=True)
class SizeAccuracy:
    """How accurate a built model is where its open dimensions have certain sizes."""

    sizes: Mapping[str, int]
    samples: int
    outputs: tuple[OutputAccuracy, ...]
    vanished: tuple[str, ...] = ()
    """See :attr:`Accuracy.vanished`."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "sizes": dict(self.sizes),
            "samples": self.samples,
            "outputs": [output.as_record() for output in self.outputs],
            **({"vanished": list(self.vanished)} if self.vanished else {}),
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
    """The least SQNR in dB between executions of the original, for the outputs whose floor it limits: on the worst
    sample for a float32 build, over all samples for other builds."""
    in_single_db: Mapping[str, float] = field(default_factory=dict)
    """The SQNR in dB, on the worst sample, of an original that computes in float64 when it is executed in float32, for
    the outputs that miss their floor then. Measured only if a float32 build misses a floor, too."""
    pooled_agreement_db: Mapping[str, float] = field(default_factory=dict)
    """The least SQNR in dB, over all samples, between executions of an original that multiplies integers, for the
    outputs of :attr:`self_agreement_db` and for pictures of 8-bit integers; only for a float32 build."""
    self_mismatch: Mapping[str, float] = field(default_factory=dict)
    """The greatest share of unequal elements between executions of the original, for outputs other than floats in which
    a float32 build differs: a number that is cut to an integer changes by one where rounding changes it."""
    vanished: tuple[str, ...] = ()
    """Outputs between 0 and 1 that are 0 in the original, or that the original does not determine, and that differ by
    no more than the rounding of 1: a detector's probabilities where there is nothing to find."""
    accepted: tuple[str, ...] = ()
    """The missed floors of a build that the user accepts nevertheless."""
    sizes: tuple[SizeAccuracy, ...] = ()
    """The accuracy at each size of the open dimensions that was tried; empty without open dimensions."""
    meaning: MeaningAccuracy | None = None
    """How near boxes, text or embeddings are to the original's; None if outputs are not known to hold any."""
    ranked: RankedAccuracy | None = None
    """Which rows of a list by falling score both models give; None without such a list."""
    padding: Padding | None = None
    """The positions that were not compared; None if all positions were."""

    @property
    def worst_db(self) -> float | None:
        """The least SQNR of a floating-point output on any sample; None if there is none, apart from vanished ones."""
        compared = [output for output in self.outputs if output.name not in self.vanished]
        return min((output.worst_sample_db for output in compared if output.worst_sample_db is not None), default=None)

    @property
    def others_behind_labels(self) -> list[str]:
        """Warnings of scores that find the labels although their numbers are no longer the original's."""
        if self.task is None or self.floors.max_drop is None:
            return []
        return [
            f"output {output.name!r} finds the labels, but its numbers are not the original's: SQNR "
            f"{output.sqnr_db:.1f} dB over all samples; rely on the class of the largest number only, for "
            "probabilities and thresholds differ"
            for output in self.outputs
            if output.name == self.task.output and output.sqnr_db is not None and output.sqnr_db < DECISION_DB
        ]

    @property
    def label_doubt(self) -> str | None:
        """Why the labels do not count; None if they count, or if there are none."""
        if self.task is None or self.floors.max_drop is not None:
            return None
        among = "" if self.task.classes is None else f" among {self.task.classes} classes"
        return (
            f"the original finds {self.task.reference:.2%} of {self.samples} labels{among}, no more than a guess may "
            "find: the labels are not used to judge the outputs; check the labels, the order of the classes, the "
            f"preprocessing and whether output {self.task.output!r} tells the class, or give more samples"
            + self._numbering
        )

    @property
    def label_exchange(self) -> str | None:
        """Which labels the original answers as each other, in words; None if there are none."""
        if self.task is None or not self.task.exchanged:
            return None
        exchanged = self.task.exchanged
        shown = [*map(str, exchanged[:MOST_EXCHANGED])]
        shown += [f"and {len(exchanged) - MOST_EXCHANGED} more labels"] if len(exchanged) > MOST_EXCHANGED else []
        return (
            f"labels look exchanged: the original answers {', '.join(shown)}; check the order of the "
            f"classes{self._numbering}"
        )

    @property
    def _numbering(self) -> str:
        numbered = None if self.task is None else self.task.numbered
        return "" if numbered is None else f"; {numbered}: --labels FILE gives the model's order"

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {
            "executed_by": self.executed_by,
            "reference": self.reference,
            "data": {"kind": "seeded" if self.seeded else "samples", "samples": self.samples},
            "floors": asdict(self.floors),
            "outputs": [output.as_record() for output in self.outputs],
            "task": None if self.task is None else self.task.as_record(),
            "meaning": None if self.meaning is None else self.meaning.as_record(),
            "self_agreement_db": {name: json_number(value) for name, value in self.self_agreement_db.items()},
            **(
                {"pooled_agreement_db": {name: json_number(value) for name, value in self.pooled_agreement_db.items()}}
                if self.pooled_agreement_db
                else {}
            ),
            **({"self_mismatch": dict(self.self_mismatch)} if self.self_mismatch else {}),
            **({"vanished": list(self.vanished)} if self.vanished else {}),
            **({} if self.ranked is None else {"ranked": self.ranked.as_record()}),
            **({} if self.padding is None else {"padding": self.padding.as_record()}),
            "accepted": list(self.accepted),
            "sizes": [size.as_record() for size in self.sizes],
        }

    def is_broken(self) -> bool:
        """Whether an output no longer follows its input, or is infinite or NaN where the original's is not."""
        return any(
            (output.stuck and output.name not in self.vanished) or (output.sqnr_db is not None and output.mismatch > 0)
            for output in self.outputs
        )

    def shortfalls(self) -> list[str]:
        """Returns a text for each floor that is missed; empty if the built model passes."""
        flaws = [flaw for output in self.outputs for flaw in self._flaws(output)]
        if self.task is not None and self.floors.max_drop is not None and not self.task.drop <= self.floors.max_drop:
            lost = self.task.drop * self.samples
            flaws.append(
                f"{self.task.metric} {self.task.built:.2%} instead of {self.task.reference:.2%}: "
                f"{lost:.0f} of {self.samples} labels lost ({allowed_text(self.floors.max_drop, self.samples)})"
            )
        worst = None if self.task is None or self.floors.max_drop is None else self.task.worst_class
        if worst is not None and not worst.drop <= (self.floors.max_drop or 0) and not flaws:
            flaws.append(f"{worst} (at most {loss_text(self.floors.max_drop or 0)})")
        flaws = flaws or self._flaws_of_order()
        return flaws + self._flaws_of_ranks() + self._flaws_of_meaning()

    def _flaws_of_order(self) -> list[str]:
        """Returns flaws of probabilities that give nearly all samples one class: they also have to rank the samples."""
        if self.floors.agreement is None or self.floors.asked:
            return []
        ranking = [output for output in self.outputs if output.are_shares and self._is_labelled(output)]
        missed = ((output, self._missed_variation(output)) for output in ranking)
        return [f"output {output.name!r}: {flaw}" for output, flaw in missed if flaw is not None]

    @property
    def by_decisions(self) -> tuple[OutputAccuracy, ...]:
        """The outputs of a reduced build that pass by their decisions alone, and not by their signal."""
        if self.floors.agreement is None or self.floors.asked:
            return ()
        return tuple(
            output
            for output in self.outputs
            if output.sqnr_db is not None
            and output.name not in self._judged_by_meaning
            and not self._is_labelled(output)
            and self._missed_signal(output) is not None
            and self._decides_the_same(output, output.sqnr_db)
        )

    def misses_a_signal(self) -> bool:
        """Whether a missed floor may be higher than what the original determines."""
        if self.floors.agreement is None:
            return bool(self.shortfalls())
        return any(
            output.sqnr_db is not None and output.sqnr_db >= LEAST_DB and bool(self._flaws(output))
            for output in self.outputs
        )

    @property
    def _judged_by_meaning(self) -> Collection[str]:
        """The outputs that are judged by their boxes, text or embeddings; empty if the numbers are judged."""
        meaning, floors = self.meaning, self.floors
        counts = meaning is not None and meaning.judges and floors.agreement is not None and not floors.asked
        return meaning.outputs if meaning is not None and counts else ()

    @property
    def few_boxes_kept(self) -> str | None:
        """A remark if a reduced build is judged by few boxes, and keeps them all; else None."""
        return self.meaning.few_kept if self.meaning is not None and self._judged_by_meaning else None

    @property
    def few_classes_shown(self) -> str | None:
        """A remark if a reduced build is judged by boxes of few of the known classes; else None."""
        return self.meaning.few_classes if self.meaning is not None and self._judged_by_meaning else None

    def _flaws_of_meaning(self) -> list[str]:
        """Returns flaws of the boxes, text or embeddings that a reduced build is judged by."""
        meaning, agreement = self.meaning, self.floors.agreement
        if meaning is None or agreement is None or not self._judged_by_meaning:
            return []
        flaw = meaning.shortfall(agreement)
        return [] if flaw is None else [f"{_named(meaning.outputs)}: {flaw}"]

    def _flaws_of_ranks(self) -> list[str]:
        """Returns flaws of a list by falling score in a float32 build; in other builds its numbers alone are judged."""
        flaw = None if self.ranked is None or self.floors.agreement is not None else self.ranked.shortfall()
        return [] if flaw is None or self.ranked is None else [f"{_named(self.ranked.outputs)}: {flaw}"]

    def _flaws(self, output: OutputAccuracy) -> list[str]:
        """Returns a list with one text that says what is wrong with an output; empty if the output passes."""
        subject = f"output {output.name!r}"
        if output.name in self.vanished and not output.mismatch:
            return []
        if output.stuck:
            return [f"{subject} is the same for all samples, while the original's differs between samples"]
        if output.sqnr_db is None:
            return self._flaws_of_integers(output, subject)
        if output.mismatch > 0:
            return [f"{subject} is infinite or NaN where the original's is not, or the other way round"]
        missed = self._missed_by_float32 if self.floors.agreement is None else self._missed_by_reduced
        flaw = missed(output, output.sqnr_db)
        return [] if flaw is None else [f"{subject}: {flaw}"]

    def _missed_by_float32(self, output: OutputAccuracy, pooled_db: float) -> str | None:
        """Returns what a floating-point output misses in a float32 build, sample by sample; None if it passes."""
        floor = self.float_floor(output.name)
        reached = output.worst_sample_db if output.worst_sample_db is not None else pooled_db
        if reached >= floor or self._is_as_determined(output.name, pooled_db, reached):
            return None
        if output.name in self.undetermined and self._tells_the_same(output.name):
            return None
        return f"SQNR {reached:.1f} dB on its worst sample (at least {floor:.0f} dB)"

    def _missed_by_reduced(self, output: OutputAccuracy, pooled_db: float) -> str | None:
        """Returns what a floating-point output misses in a reduced build; None if it passes or is judged otherwise."""
        if output.name in self._judged_by_meaning or (self._is_labelled(output) and not self.floors.asked):
            return None
        lost = _lost_class(output)
        if lost is None and not self.floors.asked:
            lost = self._missed_variation(output) or _lost_column(output) or _lost_order(output)
        if lost is not None:
            return lost
        missed = self._missed_signal(output)
        if missed is None and output.tells_classes:
            return self.changed_too_often(output)
        if missed is None or self._decides_the_same(output, pooled_db):
            return None
        return missed + self._changed_besides(output)

    def changed_too_often(self, output: OutputAccuracy) -> str | None:
        """Returns how many decisions changed if they surely exceed a bound below :data:`MAX_DISAGREEMENT`, or None."""
        floors = self.floors
        if output.agreement is None or floors.agreement is None or floors.asked or self._is_labelled(output):
            return None
        if floors.agreement <= 1 - MAX_DISAGREEMENT or output.name in self._judged_by_meaning:
            return None
        count = output.decisions or 0
        surely = beyond_luck((1 - output.agreement) * count)
        return _changed(output, floors.agreement) if surely > (1 - floors.agreement) * count else None

    def _changed_besides(self, output: OutputAccuracy) -> str:
        """Returns how many decisions changed, to follow a message about the signal; empty if decisions do not count."""
        if output.agreement is None or self.floors.agreement is None or self.floors.asked:
            return ""
        changed = f", and {_changed(output, self.floors.agreement)}"
        worst = output.worst_class
        return f"{changed}; {worst}" if worst is not None and worst.is_lost else changed

    def _is_labelled(self, output: OutputAccuracy) -> bool:
        """Whether the output is judged by labels that prove something."""
        return self.task is not None and self.task.output == output.name and self.floors.max_drop is not None

    def _decides_the_same(self, output: OutputAccuracy, pooled_db: float) -> bool:
        """Whether a reduced build keeps its decisions and classes, and reaches :data:`DECISION_DB`."""
        if output.agreement is None or self.floors.agreement is None or self.floors.asked:
            return False
        keeps_classes = output.worst_class is None or not output.worst_class.is_lost
        return (
            pooled_db >= DECISION_DB and round(output.agreement, LOSS_DIGITS) >= self.floors.agreement and keeps_classes
        )

    def _missed_variation(self, output: OutputAccuracy) -> str | None:
        """Returns how an output of quantities misses the SQNR of what varies between samples; None if it does not.

        If executions of the original agree to less, their agreement less :data:`SELF_MARGIN_DB` is asked, as of other
        signals.
        """
        if output.centred_db is None or output.sqnr_db is None or (self.seeded and output.is_field):
            return None
        offset = output.sqnr_db - output.centred_db if math.isfinite(output.sqnr_db) else 0.0
        own = self.self_agreement_db.get(output.name, math.inf) - offset
        explains_most = output.is_curve or output.is_field or output.are_shares
        asked = LEAST_DB if explains_most else self.floors.sqnr_db  # 90 %, as of an embedding
        least = min(asked, max(own - SELF_MARGIN_DB, LEAST_DB))
        if output.centred_db >= least:
            return None
        varies, same = ("places", "at all") if output.is_field else ("samples", "in all")
        return (
            f"SQNR {output.centred_db:.1f} dB for what varies between {varies} (at least {least:.0f} dB), "
            f"{output.sqnr_db:.1f} dB with what is the same {same}"
        )

    def _missed_signal(self, output: OutputAccuracy) -> str | None:
        """Returns which SQNR floor the signal of a reduced build misses, in words; None if it reaches both."""
        pooled = output.sqnr_db if output.sqnr_db is not None else math.inf
        weakest = pooled if output.weakest_db is None else output.weakest_db
        floor = self.float_floor(output.name)
        least = floor
        if self.floors.weakest_db is not None:
            least = min(self.floors.weakest_db, max(floor - WEAKEST_BELOW_DB, LEAST_DB))
        if not pooled >= floor:
            return f"SQNR {pooled:.1f} dB (at least {floor:.0f} dB)"
        if not weakest >= least:
            return f"SQNR {pooled:.1f} dB, {weakest:.1f} dB on its weakest sample (at least {least:.0f} dB)"
        return None

    def _flaws_of_integers(self, output: OutputAccuracy, subject: str) -> list[str]:
        """Returns flaws of an output that does not hold floats."""
        if output.picture_db is not None:
            if self.floors.exact_integers:
                if (output.max_abs_error or 0) <= 1 and output.mismatch <= self.integer_floor(output):
                    return []
                pooled = math.inf if self.floors.asked else self.pooled_agreement_db.get(output.name, math.inf)
                if output.picture_db >= max(pooled - SELF_MARGIN_DB, SQNR_FLOOR_DB[Kind.FLOAT16]):
                    return []
            elif output.picture_db >= self.floors.sqnr_db or self._decides_the_same(output, output.picture_db):
                return []
            return [
                f"{subject}: {loss_text(output.mismatch)} of the elements differ, "
                f"by at most {output.max_abs_error or 0:.0f} (SQNR {output.picture_db:.1f} dB)"
            ]
        judged = self._is_labelled(output) or self.floors.exact_integers
        lost = None if judged else _lost_class(output)
        if lost is not None:
            return [f"{subject}: {lost}"]
        if output.agreement is not None and self.floors.agreement is not None:
            return (
                []
                if round(output.agreement, LOSS_DIGITS) >= self.floors.agreement
                else [f"{subject}: {_changed(output, self.floors.agreement)}"]
            )
        allowed = self.integer_floor(output) if self.floors.exact_integers else MAX_DISAGREEMENT
        if output.mismatch <= allowed:
            return []
        most = f"{100 * allowed:.2g}%"
        return [f"{subject}: {loss_text(output.mismatch)} of the elements differ (at most {most})"]

    def _is_as_determined(self, output: str, pooled_db: float, worst_db: float) -> bool:
        """Whether an output follows the original over all samples, and on each as far as the original determines it."""
        own = self.self_agreement_db.get(output, math.inf)
        pooled = self.pooled_agreement_db.get(output, math.inf)
        least_pooled = min(SQNR_FLOOR_DB[Kind.FLOAT16], max(pooled - SELF_MARGIN_DB, LEAST_DB))
        follows = worst_db >= own - SELF_MARGIN_DB and pooled_db >= least_pooled
        return follows and not self.floors.asked

    def _tells_the_same(self, output: str) -> bool:
        """Whether an output's boxes, text or embeddings are the original's, by the floors of a reduced build."""
        meaning = self.meaning
        if meaning is None or not meaning.proves or self.floors.asked or output not in meaning.outputs:
            return False
        return meaning.shortfall(1 - MAX_DISAGREEMENT) is None

    @property
    def judged_otherwise(self) -> set[str]:
        """Outputs whose signal says little: undetermined ones, boxes, and rows by falling score, which may move."""
        with_meaning = () if self.meaning is None else self.meaning.outputs
        ranked = () if self.ranked is None else self.ranked.outputs
        return {*self.undetermined, *with_meaning, *ranked}

    @property
    def undetermined(self) -> Mapping[str, float]:
        """Outputs that the original determines too little to compare, with the SQNR in dB between its executions."""
        return {name: own for name, own in self.self_agreement_db.items() if own - SELF_MARGIN_DB < LEAST_DB}

    def float_floor(self, output: str) -> float:
        """The SQNR in dB that a floating-point output has to reach, in a float32 build on every sample."""
        limit = self.self_agreement_db.get(output, math.inf) - SELF_MARGIN_DB
        return min(self.floors.sqnr_db, max(limit, LEAST_DB))

    def integer_floor(self, output: OutputAccuracy) -> float:
        """Returns the share of elements that may differ in a float32 build's output that does not hold floats."""
        own = (
            0.0 if self.floors.asked else min(SELF_MARGIN * self.self_mismatch.get(output.name, 0.0), MOST_UNDETERMINED)
        )
        return max(own, 0.0 if output.picture_db is None else ONE_COUNT_SHARE)


def _named(outputs: Collection[str]) -> str:
    return f"output{'s' if len(outputs) > 1 else ''} {', '.join(map(repr, outputs))}"


def _lost_class(output: OutputAccuracy) -> str | None:
    """Returns in words which class that the graph declares is lost; None if every such class is kept."""
    worst = output.worst_class
    return str(worst) if worst is not None and worst.is_known and worst.is_lost else None


def _lost_column(output: OutputAccuracy) -> str | None:
    """Returns in words which of several quantities no longer follows the original's; None if all do."""
    column = output.worst_column
    if (
        column is None
        or column.is_channel
        or not column.tells_nothing
        or (output.worst_class is not None and output.worst_class.is_known)
    ):
        return None
    return f"column {column.column} of {column.columns} keeps nothing of its variance between samples"


def _lost_order(output: OutputAccuracy) -> str | None:
    """Returns in words how many rows of quantities are out of order; None if at most :data:`MAX_BROKEN` of them are."""
    order = output.order
    return f"{order} ({allowed_text(MAX_BROKEN, order.rows)})" if order is not None and order.is_lost else None


def _changed(output: OutputAccuracy, least_agreement: float) -> str:
    """Returns in words how many decisions changed, and how many may change."""
    agreement, count = output.agreement or 0.0, output.decisions or 0
    changed = round((1 - agreement) * count)
    return f"{changed} of {count} decisions changed ({allowed_text(round(1 - least_agreement, 9), count)})"
