"""What accuracy is asked of a built model, and whether it has it.

The built model's outputs are compared with those of the original float model. A float32 build tests the conversion:
every floating-point output needs 50 dB SQNR on every sample, and all other outputs are equal, but for pictures and
quantized numbers of 8 bits, which may differ by one count in 1 % of their elements. One rule holds for whatever was
built in less, half precision or integers. An output passes

- by the labels, where the samples have some and it tells the class: the share found may fall by ``max_drop`` (1 %).
  Where nearly all samples are of one class, its probabilities have to rank them as well: 10 dB of what varies;
- by what it tells, where that is known and the samples hold 20 of it or more
  (:mod:`edgekit.comparison.meaning`): at most 5 % of a detector's boxes are one model's alone, or of a recognizer's
  characters others, and boxes of both overlap by 0.75 on average. Numbers and decisions of such outputs do not count.
  Of 5 to 9 objects of the original all have to be kept; else the numbers count;
- by its angles, where it is an embedding: the rank correlation of cosines is 0.95, 90 % of the variance is explained,
  and at most 5 % of the vectors are lost (:mod:`edgekit.comparison.embeddings.angles`);
- by its decisions, where an axis holds scores or it says yes or no (:mod:`edgekit.comparison.decisions.shared`): at
  most 5 % of them change, and no class is lost;
- by its signal: 20 dB SQNR over all samples, and 10 dB on each, whose noise is held against its own power or a tenth of
  an average sample's. So a quiet sample may have the noise that an average one may have;
- as other numbers, where at most 5 % of the elements differ.

Classes that the graph tells do not pass by their signal where less than 5 % was asked for (``max_drop``), and more
decisions change than that, and than luck may explain.

Labels count whatever was built. Those of which the original finds no more than a guess would find prove nothing, and
count as none. Without labels a ``max_drop`` that was asked for bounds the share of changed decisions, boxes and
characters in place of the 5 %, and what a rank correlation may lack of 1: no more labels can be lost. A class that the
graph tells by a Softmax or an ArgMax, and that is lost, never passes where no labels judge; neither does an output that
no longer follows its input, or is infinite or NaN where the original's is not. ``--floor`` asks for another SQNR, which
decisions, boxes, text and angles do not make up for; ``--accept`` takes what misses its floors.

Some outputs are not determined to 50 dB on some inputs: a score of 1e-7, say, that a sigmoid computes as a difference
of larger numbers. ONNX Runtime itself gives another one as soon as it optimizes the graph, or once inputs and weights
are moved by half a unit in the last place (:mod:`edgekit.comparison.acceptance.conditioning`). What executions of the
original agree on, less :data:`SELF_MARGIN_DB`, is all that is asked of such an output, on each sample of a float32
build and over all samples of others, and never less than 10 dB. Only where all samples of a float32 build together
reach the 20 dB that are asked of other builds may a single one be below that: one logit near zero may be as far off as
a large one. A file that multiplies integers rounds at every layer, and a heat map of 8 bits has several greatest
values: where its executions agree over all samples on less, that less :data:`SELF_MARGIN_DB` takes the place of the 20
dB, and never less than 10; of pictures and quantized numbers of 8 bits that is asked, too, and 20 dB at least. Of
integers twice the share that differs between executions of the original may differ in a float32 build, and 25 % at
most: what is cut to an integer changes by one where rounding does, and a code that stands for a sound's remainder
changes all that follow it. Rows by falling score are compared wherever they stand
(:mod:`edgekit.comparison.numbers.ranked`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edgekit.comparison.acceptance.trade_off import loss_text
from edgekit.comparison.decisions.label_accuracy import TaskAccuracy
from edgekit.comparison.decisions.shared import beyond_luck
from edgekit.comparison.floors import MAX_DISAGREEMENT, SQNR_FLOOR_DB, WEAKEST_BELOW_DB, Floors, Kind
from edgekit.comparison.meaning_accuracy import MeaningAccuracy, allowed_text
from edgekit.comparison.numbers.metrics import OutputAccuracy, json_number
from edgekit.comparison.numbers.orders import MAX_BROKEN
from edgekit.comparison.numbers.ranked import RankedAccuracy
from edgekit.comparison.padding import Padding

LEAST_DB = 10.0
"""What is asked of an output at least, however little the original agrees with itself."""
MOST_EXCHANGED = 4
"""How many labels that are answered as others are named."""
DECISION_DB = 3.0
"""What decisions that stay the same need beside them: less, and half of an output's power is error."""
ONE_COUNT_SHARE = 0.01
"""What of a picture's elements may differ by one count where numbers halfway between two are rounded."""
SELF_MARGIN_DB = 6.0
"""How much farther from the original a build may be than the original's executions are from each other: twice the
error."""
SELF_MARGIN = 2
"""The same of shares of unequal elements."""
MOST_UNDETERMINED = 0.25
"""The share of unequal elements that is never taken, however many differ between the original's own executions."""


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
    """Least SQNR between executions of the original, of the outputs on which that limits what can be asked: on the
    worst sample for a float32 build, over all samples for others."""
    in_single_db: Mapping[str, float] = field(default_factory=dict)
    """SQNR on the worst sample of an original that computes in float64 when it computes in float32, of the outputs that
    miss their floor then; only where a float32 build misses one, too."""
    pooled_agreement_db: Mapping[str, float] = field(default_factory=dict)
    """Least SQNR between executions of an original that multiplies integers, over all samples: of the same outputs, and
    of pictures of 8-bit integers; only of a float32 build."""
    self_mismatch: Mapping[str, float] = field(default_factory=dict)
    """Greatest share of unequal elements between executions of the original, of the outputs of other than floats on
    which a float32 build is not equal: what is cut to an integer changes by one where rounding does."""
    vanished: tuple[str, ...] = ()
    """Outputs between 0 and 1 that are 0 in the original, or that it does not determine either, and that differ by
    rounding of 1 alone: a detector's probabilities where there is nothing to find."""
    accepted: tuple[str, ...] = ()
    """The floors that are missed, where the user takes it all the same."""
    sizes: tuple[SizeAccuracy, ...] = ()
    """At each size that was tried of the open dimensions; empty where there are none."""
    meaning: MeaningAccuracy | None = None
    """What outputs tell, where that is known: boxes, text or embeddings."""
    ranked: RankedAccuracy | None = None
    """Which rows of a list by falling score both models give; None without such a list."""
    padding: Padding | None = None
    """The positions that were not compared; None where all were."""

    @property
    def worst_db(self) -> float | None:
        """The least SQNR of a floating-point output on any sample; None where all outputs are others, or vanished."""
        compared = [output for output in self.outputs if output.name not in self.vanished]
        return min((output.worst_sample_db for output in compared if output.worst_sample_db is not None), default=None)

    @property
    def others_behind_labels(self) -> list[str]:
        """Texts about scores that find the labels, and are no longer the original's."""
        if self.task is None or self.floors.max_drop is None:
            return []
        return [
            f"output {output.name!r} finds the labels with numbers that are not the original's: SQNR "
            f"{output.sqnr_db:.1f} dB over all samples; the greatest one tells the class, a probability or a threshold "
            "is another"
            for output in self.outputs
            if output.name == self.task.output and output.sqnr_db is not None and output.sqnr_db < DECISION_DB
        ]

    @property
    def label_doubt(self) -> str | None:
        """Why the labels do not count; None where they do, or where there are none."""
        if self.task is None or self.floors.max_drop is not None:
            return None
        among = "" if self.task.classes is None else f" among {self.task.classes} classes"
        return (
            f"the original finds {self.task.reference:.2%} of {self.samples} labels{among}, no more than a guess may "
            "find: they prove nothing, and the outputs are judged without them; check the labels, the order of the "
            f"classes, the preprocessing and whether output {self.task.output!r} tells the class, or give more samples"
            + self._numbering
        )

    @property
    def label_exchange(self) -> str | None:
        """Which labels the original answers as each other; None where none are."""
        if self.task is None or not self.task.exchanged:
            return None
        exchanged = self.task.exchanged
        told = [*map(str, exchanged[:MOST_EXCHANGED])]
        told += [f"and {len(exchanged) - MOST_EXCHANGED} more so"] if len(exchanged) > MOST_EXCHANGED else []
        return (
            f"labels look exchanged: the original answers {', '.join(told)}; check the order of the "
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
        """What is not reached, a text each; empty where the built model passes."""
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
        """Flaws of probabilities that give nearly all samples one class: they have to rank samples beside."""
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
        """Whether a floor is missed that may be more than the original determines."""
        if self.floors.agreement is None:
            return bool(self.shortfalls())
        return any(
            output.sqnr_db is not None and output.sqnr_db >= LEAST_DB and bool(self._flaws(output))
            for output in self.outputs
        )

    @property
    def _judged_by_meaning(self) -> Collection[str]:
        """The outputs that are judged by what they tell."""
        meaning, floors = self.meaning, self.floors
        counts = meaning is not None and meaning.judges and floors.agreement is not None and not floors.asked
        return meaning.outputs if meaning is not None and counts else ()

    @property
    def few_boxes_kept(self) -> str | None:
        """What people should know of few boxes by which a reduced build passes; None where it does not."""
        return self.meaning.few_kept if self.meaning is not None and self._judged_by_meaning else None

    @property
    def few_classes_shown(self) -> str | None:
        """What people should know of the classes of boxes by which a reduced build passes; None where nothing."""
        return self.meaning.few_classes if self.meaning is not None and self._judged_by_meaning else None

    def _flaws_of_meaning(self) -> list[str]:
        """Flaws of what outputs tell."""
        meaning, agreement = self.meaning, self.floors.agreement
        if meaning is None or agreement is None or not self._judged_by_meaning:
            return []
        flaw = meaning.shortfall(agreement)
        return [] if flaw is None else [f"{_named(meaning.outputs)}: {flaw}"]

    def _flaws_of_ranks(self) -> list[str]:
        """Flaws of a list by falling score; of other than float32 builds its numbers tell enough."""
        flaw = None if self.ranked is None or self.floors.agreement is not None else self.ranked.shortfall()
        return [] if flaw is None or self.ranked is None else [f"{_named(self.ranked.outputs)}: {flaw}"]

    def _flaws(self, output: OutputAccuracy) -> list[str]:
        """What is wrong with an output, in one text; nothing where it passes."""
        subject = f"output {output.name!r}"
        if output.name in self.vanished and not output.mismatch:
            return []
        if output.stuck:
            return [f"{subject} is the same for all samples, the original's is not"]
        if output.sqnr_db is None:
            return self._flaws_of_integers(output, subject)
        if output.mismatch > 0:
            return [f"{subject} is infinite or NaN where the original's is not, or the other way round"]
        missed = self._missed_by_float32 if self.floors.agreement is None else self._missed_by_reduced
        flaw = missed(output, output.sqnr_db)
        return [] if flaw is None else [f"{subject}: {flaw}"]

    def _missed_by_float32(self, output: OutputAccuracy, pooled_db: float) -> str | None:
        """What an output of floats misses in a float32 build, where every single sample counts."""
        floor = self.float_floor(output.name)
        reached = output.worst_sample_db if output.worst_sample_db is not None else pooled_db
        if reached >= floor or self._is_as_determined(output.name, pooled_db, reached):
            return None
        if output.name in self.undetermined and self._tells_the_same(output.name):
            return None
        return f"SQNR {reached:.1f} dB on its worst sample (at least {floor:.0f} dB)"

    def _missed_by_reduced(self, output: OutputAccuracy, pooled_db: float) -> str | None:
        """What an output of floats misses in a build of less precision, where nothing else judges it."""
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
        """How many decisions are others, where less than :data:`MAX_DISAGREEMENT` is asked and more change surely."""
        floors = self.floors
        if output.agreement is None or floors.agreement is None or floors.asked or self._is_labelled(output):
            return None
        if floors.agreement <= 1 - MAX_DISAGREEMENT or output.name in self._judged_by_meaning:
            return None
        count = output.decisions or 0
        surely = beyond_luck((1 - output.agreement) * count)
        return _changed(output, floors.agreement) if surely > (1 - floors.agreement) * count else None

    def _changed_besides(self, output: OutputAccuracy) -> str:
        """How many decisions are others, told behind what the signal misses; empty where they do not count."""
        if output.agreement is None or self.floors.agreement is None or self.floors.asked:
            return ""
        told = f", and {_changed(output, self.floors.agreement)}"
        worst = output.worst_class
        return f"{told}; {worst}" if worst is not None and worst.is_lost else told

    def _is_labelled(self, output: OutputAccuracy) -> bool:
        """Whether labels that prove something are counted by the output."""
        return self.task is not None and self.task.output == output.name and self.floors.max_drop is not None

    def _decides_the_same(self, output: OutputAccuracy, pooled_db: float) -> bool:
        """Whether the decisions of a reduced build stay, and its numbers follow the original's at all."""
        if output.agreement is None or self.floors.agreement is None or self.floors.asked:
            return False
        keeps_classes = output.worst_class is None or not output.worst_class.is_lost
        return pooled_db >= DECISION_DB and output.agreement >= self.floors.agreement and keeps_classes

    def _missed_variation(self, output: OutputAccuracy) -> str | None:
        """How far an output of quantities is from following what varies between samples; None where it does.

        Where the original determines it to less, what it determines is asked, as of other signals.
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
            f"SQNR {output.centred_db:.1f} dB of what varies between {varies} (at least {least:.0f} dB), "
            f"{output.sqnr_db:.1f} dB with what is the same {same}"
        )

    def _missed_signal(self, output: OutputAccuracy) -> str | None:
        """How far the signal of a reduced build is from its floors; None where it reaches them."""
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
        """Flaws of an output of other than floats."""
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
                if output.agreement >= self.floors.agreement
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
        """Whether what an output tells is what the original's tells: boxes, a text, or places of an embedding."""
        meaning = self.meaning
        if meaning is None or not meaning.proves or self.floors.asked or output not in meaning.outputs:
            return False
        return meaning.shortfall(1 - MAX_DISAGREEMENT) is None

    @property
    def judged_otherwise(self) -> set[str]:
        """Outputs whose signal says little: of boxes, and of rows by falling score, which change places, say."""
        told = () if self.meaning is None else self.meaning.outputs
        ranked = () if self.ranked is None else self.ranked.outputs
        return {*self.undetermined, *told, *ranked}

    @property
    def undetermined(self) -> Mapping[str, float]:
        """Outputs that the original determines too little to compare anything by, and to how many dB it does."""
        return {name: own for name, own in self.self_agreement_db.items() if own - SELF_MARGIN_DB < LEAST_DB}

    def float_floor(self, output: str) -> float:
        """The SQNR in dB that a floating-point output has to reach, in a float32 build on every sample."""
        limit = self.self_agreement_db.get(output, math.inf) - SELF_MARGIN_DB
        return min(self.floors.sqnr_db, max(limit, LEAST_DB))

    def integer_floor(self, output: OutputAccuracy) -> float:
        """The share of a float32 build's elements, of other than floats, that may differ."""
        own = (
            0.0 if self.floors.asked else min(SELF_MARGIN * self.self_mismatch.get(output.name, 0.0), MOST_UNDETERMINED)
        )
        return max(own, 0.0 if output.picture_db is None else ONE_COUNT_SHARE)


def _named(outputs: Collection[str]) -> str:
    return f"output{'s' if len(outputs) > 1 else ''} {', '.join(map(repr, outputs))}"


def _lost_class(output: OutputAccuracy) -> str | None:
    """What is missing of a class that the graph tells; None where every class is kept."""
    worst = output.worst_class
    return str(worst) if worst is not None and worst.told and worst.is_lost else None


def _lost_column(output: OutputAccuracy) -> str | None:
    """Which number of several quantities no longer follows its own; None where all do."""
    column = output.worst_column
    if (
        column is None
        or column.is_channel
        or not column.tells_nothing
        or (output.worst_class is not None and output.worst_class.told)
    ):
        return None
    return f"column {column.column} of {column.columns} keeps nothing of what tells its samples apart"


def _lost_order(output: OutputAccuracy) -> str | None:
    """How many rows of quantities are out of order; None where few are."""
    order = output.order
    return f"{order} ({allowed_text(MAX_BROKEN, order.rows)})" if order is not None and order.is_lost else None


def _changed(output: OutputAccuracy, least_agreement: float) -> str:
    """How many decisions are others, and how many may be."""
    agreement, count = output.agreement or 0.0, output.decisions or 0
    changed = round((1 - agreement) * count)
    return f"{changed} of {count} decisions changed ({allowed_text(round(1 - least_agreement, 9), count)})"
