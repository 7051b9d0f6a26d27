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
"""How many samples are kept even if they exceed KEPT_BYTES: four pictures hold too few boxes to count."""
MOST_BYTES = 128 * 2**20
"""How many bytes the LEAST_KEPT samples may take."""
MOST_READ_AGAIN = 256
"""The maximum number of scored samples if their inputs have to be read again for every pass."""
MOST_LEFT_OUT = 64
"""The maximum number of samples that are not kept on which a candidate is run before it ships."""

SIZES_AMONG = 16
"""The number of samples among which samples of different sizes are searched."""

Feeds = dict[str, np.ndarray]
Again = Callable[[Collection[int]], Iterable[Feeds]]
"""Reads the inputs of the samples at some indices, counted from 0, again, in order."""


@dataclass(frozen=True)
class Reference:
    """A sample with the float model's answer."""

    feeds: Feeds
    outputs: dict[str, np.ndarray]
    label: int | None = None
    name: str = "calibration sample"
    """The name of the sample in error messages."""


class References:
    """Evenly spread samples, as many as fit into :data:`KEPT_BYTES`, or :data:`LEAST_KEPT` into :data:`MOST_BYTES`.

    If outputs are small and inputs are large, as for a picture classifier, only outputs are kept, and every pass reads
    the inputs again, because with few decisions a single one weighs too much. References can be pickled if ``again``
    can.

    Args:
        expected: The number of samples.
        again: Reads samples again; None if that is not possible.
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
        """References of the given samples, as many as fit."""
        made = cls(len(references))
        for reference in references:
            made.offer(reference)
        return made

    def offer(self, reference: Reference) -> None:
        """Keep the next sample if it is due and fits."""
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
            # Copies: a runtime's own arrays would keep all memory of its session allocated.
            outputs = {name: array.copy() for name, array in reference.outputs.items()}
            self._kept[self._count] = replace(reference, feeds=feeds, outputs=outputs)
        self._count += 1

    def _step(self, size: int) -> int:
        """N such that every N-th sample is kept, if each takes ``size`` bytes."""
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
        """The samples as they are kept, possibly without their inputs."""
        yield from self._kept.values()

    @property
    def left_out(self) -> int:
        """The number of samples that are not kept and can be read again."""
        return self._count - len(self._kept) if self._again is not None else 0

    def feeds_left_out(self) -> Iterator[Feeds]:
        """The inputs of the samples that are not kept; at most :data:`MOST_LEFT_OUT`, drawn with a fixed seed.

        They are drawn at random because kinds of samples may alternate: with a fixed step, all might be of one kind.
        """
        if self._again is None:
            return
        places = [place for place in range(self._count) if place not in self._kept]
        drawn = np.random.default_rng(0).permutation(places)[:MOST_LEFT_OUT].tolist()
        for feeds in self._again(drawn):
            tell_step()
            yield feeds

    def without_padding(self, padding: Padding) -> References:
        """The same samples, with answers only at the positions that are not padding."""
        made = References(self._expected, self._again)
        answers = zip(self._kept.items(), self, strict=True)
        made._kept = {
            place: replace(kept, outputs=padding.without(whole.feeds, whole.outputs))
            for (place, kept), whole in answers
        }
        made._reads, made._count, made._every = self._reads, self._count, self._every
        return made

    def every_other(self) -> tuple[References, int]:
        """The kept samples with even or with odd indices, whichever are more, and the parity of their indices.

        They can score what was fitted to the samples of the other parity; none of those counts as left out.
        """
        odd = int(2 * sum(place % 2 for place in self._kept) > len(self._kept))
        return self._with({place: kept for place, kept in self._kept.items() if place % 2 == odd}), odd

    def spread(self, most: int) -> References:
        """At most ``most`` of the samples, evenly spread over all."""
        count = min(len(self), most)
        numbers = {number * len(self) // count for number in range(count)}
        return self._with({place: kept for number, (place, kept) in enumerate(self._kept.items()) if number in numbers})

    def parted(self, step: int) -> tuple[References, References]:
        """Every ``step``-th sample, beginning with the first, and the others."""
        first = {place: kept for number, (place, kept) in enumerate(self._kept.items()) if number % step == 0}
        rest = {place: kept for place, kept in self._kept.items() if place not in first}
        return self._with(first), self._with(rest)

    def _with(self, kept: dict[int, Reference]) -> References:
        """References of some of the samples; the others do not count as left out."""
        made = References(self._expected, self._again)
        made._kept, made._reads, made._count = kept, self._reads, len(kept)
        return made

    @property
    def example(self) -> Feeds:
        """The inputs of the first sample."""
        return next(iter(self)).feeds

    def of_sizes(self, most: int) -> list[Feeds]:
        """The inputs of a few samples with different shapes: the smallest, the largest, and some in between.

        They are searched among :data:`SIZES_AMONG` samples; if these all have the same shapes, the result is the first.

        Args:
            most: The maximum number of samples, at least 2.
        """
        first: dict[tuple[tuple[int, ...], ...], Feeds] = {}
        for reference in self.spread(SIZES_AMONG):
            first.setdefault(tuple(array.shape for array in reference.feeds.values()), reference.feeds)
        by_size = sorted(first.values(), key=lambda feeds: sum(array.size for array in feeds.values()))
        count = min(len(by_size), most)
        return [by_size[number * (len(by_size) - 1) // max(count - 1, 1)] for number in range(count)]
