"""Compares what a built model finds with what the original finds, as counts: boxes, peaks, characters, vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgekit.comparison.boxes.attributes import AttributeAccuracy
from edgekit.comparison.embeddings.angles import Angles
from edgekit.comparison.floors import LOSS_DIGITS

ANCHORS = "anchors"
BOXES = "boxes"
PEAKS = "peaks"
TEXT = "characters"
LEAST_OVERLAP = 0.75
"""The least intersection over union, on average, of the boxes that both models find."""
FEWEST = 20
"""The least number of boxes or characters to judge by: of fewer, one is more than the 5 % that may differ."""
FEWEST_KEPT = 5
"""The least number of objects to judge by if both models find exactly the same: a detector that loses half of all
objects keeps five by chance once in 32 times."""
ENOUGH_CLASSES = 5
"""Boxes of this many classes say something of the other classes: a detector's classes share all layers but the last."""


@dataclass(frozen=True)
class MeaningAccuracy:
    """What a built model finds against what the original finds, over all samples."""

    kind: str
    """What is counted: ``anchors``, ``boxes``, ``characters``, ``embeddings`` or ``peaks``."""
    outputs: tuple[str, ...]
    """The outputs that hold what is counted."""
    read_as: str
    """How the outputs are read, in words."""
    count: int
    """The number of boxes, anchors or peaks that count, of both models together; of the original's characters; or of
    vectors."""
    wrong: int
    """Boxes, anchors or peaks that one of the models lacks; characters to insert, delete or replace; lost vectors."""
    overlap: float | None
    """The mean intersection over union of boxes, or of anchors' boxes, that both models find; None for other kinds."""
    boxes: Mapping[str, Any] | None = None
    """How programs read the boxes: :meth:`edgekit.comparison.boxes.reading.Detector.as_record`; None for other
    kinds."""
    angles: Angles | None = None
    """How near embeddings are to the original's; None for other kinds."""
    beside: AttributeAccuracy | None = None
    """How near the key points, masks or angles of boxes that both models find are to the original's; None without
    any."""
    of_original: int | None = None
    """How many of the boxes, anchors or peaks in :attr:`count` are the original's; None for other kinds."""
    shown_classes: int | None = None
    """To how many classes the original's boxes or anchors belong; None for other kinds, and without
    :attr:`known_classes`."""
    known_classes: int | None = None
    """To how many classes boxes or anchors may belong; None for other kinds, and if that is not known."""

    @property
    def agreement(self) -> float:
        """The share that is right, or the angles' agreement; below 0 if more characters are wrong than there are."""
        if self.angles is not None:
            return self.angles.agreement
        return 1 - self.wrong / self.count if self.count else 1.0

    @property
    def proves(self) -> bool:
        """Whether the original finds enough on these samples to judge by, whatever the built model finds."""
        if self.angles is not None:
            return self.angles.tells
        return (self.count if self.of_original is None else 2 * self.of_original) >= FEWEST

    @property
    def keeps_few(self) -> bool:
        """Whether the original finds few boxes, 5 to 9, and both models find exactly these, at the same places."""
        if self.of_original is None or self.proves or self.of_original < FEWEST_KEPT:
            return False
        return self.wrong == 0 and self.shortfall(1.0) is None

    @property
    def judges(self) -> bool:
        """Whether a build is judged by these counts."""
        return self.proves or self.keeps_few

    @property
    def too_few(self) -> str | None:
        """Advice if boxes, anchors or peaks are too few to judge by; None if there are enough, and for other kinds."""
        if self.kind not in (ANCHORS, BOXES, PEAKS) or self.proves:
            return None
        return f"{self._few_found}: {self.kind} are judged as numbers; give samples that show more"

    @property
    def few_kept(self) -> str | None:
        """A remark if boxes pass although they are few (:attr:`keeps_few`); else None."""
        if not self.keeps_few:
            return None
        return (
            f"{self._few_found}: the built model finds all of them, but they are too few to rely on; give samples "
            "that show more"
        )

    @property
    def few_classes(self) -> str | None:
        """A remark if the boxes are of fewer than 5 classes, and of at most half of the known ones; else None."""
        shown, known = self.shown_classes, self.known_classes
        if not shown or shown >= ENOUGH_CLASSES or known is None or known < 2 * shown:
            return None
        return (
            f"the original's {self.kind} on the samples are of {shown} of {known} classes, which leaves the "
            f"other{'s' if known - shown > 1 else ''} untested: give samples that show more classes"
        )

    @property
    def _few_found(self) -> str:
        found = self.of_original or 0
        what = {BOXES: "object", PEAKS: "peak"}.get(self.kind, "anchor")
        return (
            f"{found} {what}{' is' if found == 1 else 's are'} found on the samples, fewer than the {FEWEST // 2} "
            "that a judgement needs"
        )

    def shortfall(self, least_agreement: float) -> str | None:
        """Returns which floor is missed, in words, or None if none is.

        Args:
            least_agreement: The share that has to be right.
        """
        if self.angles is not None:
            if self.angles.flaw is not None or self.angles.rank is None or self.angles.rank >= least_agreement:
                return self.angles.flaw
            return f"rank correlation of cosines {self.angles.rank:.4f} (at least {least_agreement:.4g})"
        if round(self.agreement, LOSS_DIGITS) < least_agreement:
            allowed = allowed_text(round(1 - least_agreement, LOSS_DIGITS), self.count)
            return f"{self.wrong} of {self.count} {self.kind} differ ({allowed})"
        if self.overlap is not None and self.overlap < LEAST_OVERLAP:
            return f"boxes overlap by {self.overlap:.2f} on average (at least {LEAST_OVERLAP})"
        return None if self.beside is None else self.beside.flaw

    def counted(self) -> dict[str, Any]:
        """Returns the counts alone, as plain data."""
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
