"""Samples with the float model's answers, which candidates are scored against."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgekit.comparison.padding import Padding
from edgekit.processes.supervision import tell_step

KEPT_BYTES = 24 * 2**20
"""How many bytes of the float model's inputs and outputs are kept."""
LEAST_KEPT = 16
"""How many samples are kept where they are larger: four pictures hold too few boxes to count."""
MOST_BYTES = 128 * 2**20
"""How many bytes these may take."""
MOST_READ_AGAIN = 256
"""How many samples are scored at most where their inputs have to be read again every time."""
MOST_LEFT_OUT = 64
"""How many samples that are not kept a candidate may be run on before it ships."""

SIZES_AMONG = 16
"""Among how many samples those of different sizes are looked for."""

Feeds = dict[str, np.ndarray]
Again = Callable[[Collection[int]], Iterable[Feeds]]
"""Reads once more what samples feed that are at some places, counted from 0, in order."""


@dataclass(frozen=True)
class Reference:
    """A sample with what the float model answers to it."""

    feeds: Feeds
    outputs: dict[str, np.ndarray]
    label: int | None = None
    name: str = "calibration sample"
    """What errors call it."""


class References:
    """Evenly spread samples, as many as fit into :data:`KEPT_BYTES`, or :data:`LEAST_KEPT` into :data:`MOST_BYTES`.

    Where outputs are small and inputs are not, as those of a classifier of pictures, only outputs are kept, and every
    walk reads the inputs again: of few decisions a single one weighs too much. It can be pickled, where what reads the
    inputs can.

    Args:
        expected: How many samples there are.
        again: Reads samples once more; None where that cannot be done.
    """

    def __init__(self, expected: int, again: Again | None = None) -> None:
        self._expected = expected
        self._again = again
        self._kept: dict[int, Reference] = {}
        self._reads = False
        self._every = 0
        self._count = 0

    @classmethod
    def of(cls, references: Sequence[Reference]) -> References:
        """These samples, as many as fit."""
        made = cls(len(references))
        for reference in references:
            made.offer(reference)
        return made

    def offer(self, reference: Reference) -> None:
        """Take note of the next sample."""
        if not self._every:
            fed, answered = (
                sum(array.nbytes for array in part.values()) for part in (reference.feeds, reference.outputs)
            )
            self._every = self._step(fed + answered)
            if self._every > 1 and self._again is not None:
                every = max(self._step(answered), -(-self._expected // MOST_READ_AGAIN))
                self._reads = every < self._every
                self._every = min(every, self._every)
        if self._count % self._every == 0:
            feeds = {} if self._reads else reference.feeds
            # Copies: a runtime's own arrays keep all of the memory that its session took.
            outputs = {name: array.copy() for name, array in reference.outputs.items()}
            self._kept[self._count] = replace(reference, feeds=feeds, outputs=outputs)
        self._count += 1

    def _step(self, size: int) -> int:
        """Every which sample is kept, where each takes so many bytes."""
        count = max(KEPT_BYTES // max(size, 1), min(LEAST_KEPT, MOST_BYTES // max(size, 1)), 1)
        return max(1, -(-self._expected // count))

    def __iter__(self) -> Iterator[Reference]:
        if not self._reads or self._again is None:
            yield from self.answers()
            return
        for kept, feeds in zip(self._kept.values(), self._again(self._kept.keys()), strict=True):
            yield replace(kept, feeds=feeds)

    def __len__(self) -> int:
        return len(self._kept)

    def answers(self) -> Iterator[Reference]:
        """The samples as they are kept, which may be without what they feed."""
        yield from self._kept.values()

    @property
    def left_out(self) -> int:
        """How many samples are not kept, and can be read again."""
        return self._count - len(self._kept) if self._again is not None else 0

    def feeds_left_out(self) -> Iterator[Feeds]:
        """What the samples feed that are not kept; :data:`MOST_LEFT_OUT` of them, drawn with a fixed seed.

        Drawn, since samples may come in turns: of every third one that is left out, again, all may be of a kind.
        """
        if self._again is None:
            return
        places = [place for place in range(self._count) if place not in self._kept]
        drawn = np.random.default_rng(0).permutation(places)[:MOST_LEFT_OUT].tolist()
        for feeds in self._again(drawn):
            tell_step()
            yield feeds

    def without_padding(self, padding: Padding) -> References:
        """The same samples, with answers at the positions that count alone."""
        made = References(self._expected, self._again)
        answers = zip(self._kept.items(), self, strict=True)
        made._kept = {
            place: replace(kept, outputs=padding.without(whole.feeds, whole.outputs))
            for (place, kept), whole in answers
        }
        made._reads, made._count, made._every = self._reads, self._count, self._every
        return made

    def every_other(self) -> tuple[References, int]:
        """Those among the even or among the odd samples, whichever are more, and 0 or 1 for which they are.

        What is fitted to the samples in between can be judged by these; none of those is among the ones left out.
        """
        odd = int(2 * sum(place % 2 for place in self._kept) > len(self._kept))
        return self._with({place: kept for place, kept in self._kept.items() if place % 2 == odd}), odd

    def spread(self, most: int) -> References:
        """As many of them at most, evenly spread over all."""
        count = min(len(self), most)
        numbers = {number * len(self) // count for number in range(count)}
        return self._with({place: kept for number, (place, kept) in enumerate(self._kept.items()) if number in numbers})

    def parted(self, step: int) -> tuple[References, References]:
        """Every ``step``-th of them, the first one among these, and the others."""
        first = {place: kept for number, (place, kept) in enumerate(self._kept.items()) if number % step == 0}
        rest = {place: kept for place, kept in self._kept.items() if place not in first}
        return self._with(first), self._with(rest)

    def _with(self, kept: dict[int, Reference]) -> References:
        """Some of the samples, none of which is left out."""
        made = References(self._expected, self._again)
        made._kept, made._reads, made._count = kept, self._reads, len(kept)
        return made

    @property
    def example(self) -> Feeds:
        """What the first of the samples feeds."""
        return next(iter(self)).feeds

    def of_sizes(self, most: int) -> list[Feeds]:
        """What a few samples feed, no two of the same shapes: the smallest, the largest, and such in between.

        They are looked for among :data:`SIZES_AMONG` samples; where these are all of one size, it is the first one.

        Args:
            most: How many there are at most, two or more.
        """
        first: dict[tuple[tuple[int, ...], ...], Feeds] = {}
        for reference in self.spread(SIZES_AMONG):
            first.setdefault(tuple(array.shape for array in reference.feeds.values()), reference.feeds)
        by_size = sorted(first.values(), key=lambda feeds: sum(array.size for array in feeds.values()))
        count = min(len(by_size), most)
        return [by_size[number * (len(by_size) - 1) // max(count - 1, 1)] for number in range(count)]
