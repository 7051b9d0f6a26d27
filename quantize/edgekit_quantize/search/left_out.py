"""Samples that did not fit among the kept ones; a candidate that would ship is scored on them too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from edgekit.comparison.padding import Padding
from edgekit.model import Arrays
from edgekit_quantize.calibration.references import KEPT_BYTES, Reference, References
from edgekit_quantize.search.scoring import Run


@dataclass
class LeftOut:
    """The samples with the float model's answers; up to :data:`KEPT_BYTES` of answers are kept after the first use."""

    references: References
    """Knows which samples are not kept."""
    opened: Callable[[], Run]
    """Opens the float model if an answer is missing."""
    padding: Padding | None = None
    """Positions that are not scored."""
    _answers: dict[int, Arrays] = field(default_factory=dict, init=False)
    _room: int = field(default_factory=lambda: KEPT_BYTES, init=False)

    def __call__(self) -> Iterator[Reference]:
        """The samples in order."""
        run: Run | None = None
        for place, feeds in enumerate(self.references.feeds_left_out()):
            answers = self._answers.get(place)
            if answers is None:
                run = run or self.opened()
                answers = run(feeds)
                answers = answers if self.padding is None else self.padding.without(feeds, answers)
                self._keep(place, answers)
            yield Reference(feeds, dict(answers))

    def _keep(self, place: int, answers: Arrays) -> None:
        size = sum(array.nbytes for array in answers.values())
        if size <= self._room:
            self._room -= size
            self._answers[place] = {name: array.copy() for name, array in answers.items()}
