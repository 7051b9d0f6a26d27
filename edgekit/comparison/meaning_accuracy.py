"""What a built model tells against what the original tells, as counts: boxes, anchors, characters, vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgekit.comparison.boxes.beside import BesideAccuracy
from edgekit.comparison.embeddings.angles import Angles

ANCHORS = "anchors"
BOXES = "boxes"
TEXT = "characters"
LEAST_OVERLAP = 0.75
"""What boxes that both models find have to overlap on average."""
FEWEST = 20
"""How many boxes or characters prove something: of fewer, one is more than the 5 % that may differ."""
FEWEST_KEPT = 5
"""How many objects tell something where both models find all of them, and no others: a detector that loses every other
object keeps five once in 32 times."""
ENOUGH_CLASSES = 5
"""Boxes of as many classes say something of the others: a detector's classes share all layers but the last."""


@dataclass(frozen=True)
class MeaningAccuracy:
    """What a built model tells against what the original tells, over all samples."""

    kind: str
    """What is counted: ``anchors``, ``boxes``, ``characters`` or ``embeddings``."""
    outputs: tuple[str, ...]
    """The outputs that tell it."""
    read_as: str
    """How they are read, for people."""
    count: int
    """Boxes or anchors that count, of both models; characters of the original; vectors."""
    wrong: int
    """Boxes or anchors that one of the models lacks; characters to put in, leave out or exchange; lost vectors."""
    overlap: float | None
    """Intersection over union of the boxes, or of those of the anchors, that both have, on average; None for others."""
    boxes: Mapping[str, Any] | None = None
    """How programs read the boxes: :meth:`edgekit.comparison.boxes.reading.Detector.as_record`; None for others."""
    angles: Angles | None = None
    """How near embeddings are; None for others."""
    beside: BesideAccuracy | None = None
    """How near key points, masks or angles of the boxes are that both models find; None without any."""
    of_original: int | None = None
    """Boxes or anchors of :attr:`count` that are the original's; None for others."""
    shown_classes: int | None = None
    """Of how many classes these are; None for others, and where it is not known how many there are."""
    known_classes: int | None = None
    """Of how many classes boxes or anchors may be; None for others, and where that is not known."""

    @property
    def agreement(self) -> float:
        """The share that is right, or that of the angles; less than 0 where a text is longer than the original's."""
        if self.angles is not None:
            return self.angles.agreement
        return 1 - self.wrong / self.count if self.count else 1.0

    @property
    def proves(self) -> bool:
        """Whether the original tells enough on these samples to judge by it, however much of it is lost."""
        if self.angles is not None:
            return self.angles.tells
        return (self.count if self.of_original is None else 2 * self.of_original) >= FEWEST

    @property
    def keeps_few(self) -> bool:
        """Whether few boxes are found, and all of them by both models, where they belong."""
        if self.of_original is None or self.proves or self.of_original < FEWEST_KEPT:
            return False
        return self.wrong == 0 and self.shortfall(1.0) is None

    @property
    def judges(self) -> bool:
        """Whether a build is judged by it."""
        return self.proves or self.keeps_few

    @property
    def too_few(self) -> str | None:
        """What to do where too few boxes are found for them to count; None where there are enough, and for others."""
        if self.kind not in (ANCHORS, BOXES) or self.proves:
            return None
        return f"{self._few_found}: {self.kind} are judged as numbers; give samples that show more"

    @property
    def few_kept(self) -> str | None:
        """What people should know of boxes that pass though they are few; None of others."""
        if not self.keeps_few:
            return None
        return f"{self._few_found}: all of them are kept, which proves little; give samples that show more"

    @property
    def few_classes(self) -> str | None:
        """What people should know of boxes that are of few classes, and of half of them at most; None of others."""
        shown, known = self.shown_classes, self.known_classes
        if not shown or shown >= ENOUGH_CLASSES or known is None or known < 2 * shown:
            return None
        return (
            f"the original's {self.kind} on the samples are of {shown} of {known} classes, and prove nothing of the "
            f"other{'s' if known - shown > 1 else ''}: give samples that show more of them"
        )

    @property
    def _few_found(self) -> str:
        found = self.of_original or 0
        what = "object" if self.kind == BOXES else "anchor"
        return (
            f"{found} {what}{' is' if found == 1 else 's are'} found on the samples, fewer than the {FEWEST // 2} that "
            "tell something"
        )

    def shortfall(self, least_agreement: float) -> str | None:
        """What is not reached, in words; None where it is near enough.

        Args:
            least_agreement: The share that has to be right.
        """
        if self.angles is not None:
            if self.angles.flaw is not None or self.angles.rank is None or self.angles.rank >= least_agreement:
                return self.angles.flaw
            return f"rank correlation of cosines {self.angles.rank:.4f} (at least {least_agreement:.4g})"
        if self.agreement < least_agreement:
            allowed = allowed_text(round(1 - least_agreement, 9), self.count)
            return f"{self.wrong} of {self.count} {self.kind} differ ({allowed})"
        if self.overlap is not None and self.overlap < LEAST_OVERLAP:
            return f"boxes overlap by {self.overlap:.2f} on average (at least {LEAST_OVERLAP})"
        return None if self.beside is None else self.beside.flaw

    def counted(self) -> dict[str, Any]:
        """What was counted alone, as plain data."""
        return {"kind": self.kind, "count": self.count, "wrong": self.wrong, "agreement": self.agreement}

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        record = {**asdict(self), "outputs": list(self.outputs), "agreement": self.agreement, "judges": self.judges}
        left_out = ("angles", "beside", "of_original", "shown_classes", "known_classes")
        return {key: value for key, value in record.items() if key not in left_out or value is not None}


def allowed_text(share: float, count: int) -> str:
    """How many of N items a share allows, in words."""
    percent = f"{100 * share:.4g} %"
    return f"the budget {percent} allows {math.floor(share * count + 1e-9)}"
