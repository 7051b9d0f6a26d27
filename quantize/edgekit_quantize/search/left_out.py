"""Samples that did not fit among the kept ones; a candidate that would ship is scored on them too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from edgekit.comparison.padding import Padding
from edgekit.model import Arrays
from edgekit_quantize.calibration.collect import one_ahead
from edgekit_quantize.calibration.references import KEPT_BYTES, Feeds, Reference, References
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
        """The samples in order; the float model answers the next one in a thread while the last one is used."""
        with ThreadPoolExecutor(1) as thread:
            for feeds, answers in one_ahead(self._begun(thread)):
                yield Reference(feeds, dict(answers.result()))

    def _begun(self, thread: Executor) -> Iterator[tuple[Feeds, Future[Arrays]]]:
        """The inputs of each sample, and the answers to come."""
        run: Run | None = None
        for place, feeds in enumerate(self.references.feeds_left_out()):
            known = self._answers.get(place)
            if known is None:
                run = run or self.opened()
                yield feeds, thread.submit(self._answer, run, place, feeds)
            else:
                answered: Future[Arrays] = Future()
                answered.set_result(known)
                yield feeds, answered

    def _answer(self, run: Run, place: int, feeds: Feeds) -> Arrays:
        answers = run(feeds)
        answers = answers if self.padding is None else self.padding.without(feeds, answers)
        self._keep(place, answers)
        return answers

    def _keep(self, place: int, answers: Arrays) -> None:
        size = sum(array.nbytes for array in answers.values())
        if size <= self._room:
            self._room -= size
            self._answers[place] = {name: array.copy() for name, array in answers.items()}
