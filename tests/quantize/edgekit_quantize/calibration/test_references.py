from __future__ import annotations

import functools
from collections.abc import Collection, Iterator

import numpy as np
import pytest

from edgekit_quantize.calibration import references
from edgekit_quantize.calibration.references import Feeds, Reference, References

SAMPLES = 10


def _feeds(size: int) -> Iterator[Feeds]:
    for number in range(SAMPLES):
        yield {"x": np.full(size, number, np.float32)}


def _feeds_at(size: int, places: Collection[int]) -> Iterator[Feeds]:
    return (feeds for place, feeds in enumerate(_feeds(size)) if place in places)


def _noted(fed: int, answered: int, *, again: bool) -> References:
    found = References(SAMPLES, functools.partial(_feeds_at, fed) if again else None)
    for number, feeds in enumerate(_feeds(fed)):
        found.offer(Reference(feeds, {"y": np.full(answered, number, np.float32)}, number))
    return found


def _numbers(found: References) -> list[tuple[float, float, int | None]]:
    return [(float(each.feeds["x"][0]), float(each.outputs["y"][0]), each.label) for each in found]


@pytest.fixture(autouse=True)
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "KEPT_BYTES", 4000)
    monkeypatch.setattr(references, "LEAST_KEPT", 3)
    monkeypatch.setattr(references, "MOST_BYTES", 8000)
    monkeypatch.setattr(references, "MOST_READ_AGAIN", 5)


@pytest.mark.parametrize(
    ("fed", "answered", "again", "kept"),
    [
        (50, 50, True, range(10)),  # 4,000 bytes in all
        (100, 100, False, range(0, 10, 2)),  # twice as many
        (200, 1, True, range(0, 10, 2)),  # outputs alone have room, but no more than five samples are read again
        (200, 1, False, range(0, 10, 3)),
        (1, 330, True, range(0, 10, 4)),  # reading again is no help
        (1, 600, True, range(0, 10, 4)),  # three have 7,212 bytes
        (1, 900, True, range(0, 10, 5)),  # two have 7,208 bytes
        (1, 9000, False, range(1)),
    ],
)
def test_what_is_kept(fed: int, answered: int, again: bool, kept: range) -> None:
    found = _noted(fed, answered, again=again)

    assert _numbers(found) == [(number, number, number) for number in kept]
    assert len(found) == len(kept)
    assert _numbers(found) == _numbers(found)


def test_answers_are_told_without_reading_inputs_again() -> None:
    read = []

    def again(places: Collection[int]) -> Iterator[Feeds]:
        for feeds in _feeds_at(200, places):
            read.append(int(feeds["x"][0]))
            yield feeds

    found = References(SAMPLES, again)
    for number, feeds in enumerate(_feeds(200)):
        found.offer(Reference(feeds, {"y": np.full(1, number, np.float32)}, number))

    assert [(answer.label, answer.feeds) for answer in found.answers()] == [(label, {}) for label in range(0, 10, 2)]
    assert not read
    assert found.example["x"][0] == 0
    assert read == [0]
    first, rest = found.parted(2)
    assert [answer.label for answer in first] == [0, 4, 8]
    assert [answer.label for answer in rest] == [2, 6]
    assert read == [0, 0, 4, 8, 2, 6]


def test_what_is_kept_does_not_hold_the_memory_of_the_run() -> None:
    answer = np.arange(4, dtype=np.float32)

    (kept,) = References.of([Reference({"x": answer[:1]}, {"y": answer})]).answers()

    assert not np.shares_memory(kept.outputs["y"], answer)
    np.testing.assert_array_equal(kept.outputs["y"], answer)


@pytest.mark.parametrize(
    ("fed", "answered", "kept", "odd"),
    [(50, 50, range(0, 10, 2), 0), (200, 1, range(0, 10, 2), 0), (1, 330, range(0, 10, 4), 0)],
)
def test_every_other_sample_is_apart_from_those_in_between(fed: int, answered: int, kept: range, odd: int) -> None:
    apart, found = _noted(fed, answered, again=True).every_other()

    assert found == odd
    assert _numbers(apart) == [(number, number, number) for number in kept]
    assert len(apart) == len(kept)


def test_the_more_of_the_samples_are_taken() -> None:
    found = References.of([Reference({"x": np.zeros(1)}, {"y": np.zeros(1)}, number) for number in range(4)])
    found._kept.pop(0)

    apart, odd = found.every_other()

    assert odd == 1
    assert [answer.label for answer in apart.answers()] == [1, 3]


def test_samples_that_are_left_out_are_read_again() -> None:
    found = _noted(1, 330, again=True)

    assert found.left_out == 7
    assert [int(feeds["x"][0]) for feeds in found.feeds_left_out()] == [1, 2, 3, 5, 6, 7, 9]
    assert _noted(1, 330, again=False).left_out == 0
    assert not [*_noted(1, 330, again=False).feeds_left_out()]


def test_of_many_that_are_left_out_some_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(references, "MOST_LEFT_OUT", 4)

    found = [int(feeds["x"][0]) for feeds in _noted(1, 330, again=True).feeds_left_out()]

    assert len(set(found)) == 4
    assert set(found) < {1, 2, 3, 5, 6, 7, 9}


def test_those_in_between_are_not_left_out() -> None:
    apart, _ = _noted(1, 330, again=True).every_other()

    assert apart.left_out == 0


def test_samples_of_several_sizes_the_smallest_and_the_largest_among_them() -> None:
    def kept(*sizes: int) -> References:
        feeds = [{"x": np.full(size, number, np.float32)} for number, size in enumerate(sizes)]
        return References.of([Reference(each, {"y": each["x"]}) for each in feeds])

    assert [feeds["x"].tolist() for feeds in kept(2, 2, 2).of_sizes(3)] == [[0, 0]]
    assert [len(feeds["x"]) for feeds in kept(5, 2, 5, 3, 9, 7).of_sizes(3)] == [2, 5, 9]
    assert [len(feeds["x"]) for feeds in kept(9, 2, 9).of_sizes(3)] == [2, 9]
