"""What steps from one place to the next lead to."""

from edgekit.graph.traversal import reached

READERS = {"a": ["b", "c"], "b": ["d"], "c": ["d", None], "d": [], "e": ["a"]}


def test_every_place_comes_once_and_depth_first() -> None:
    assert list(reached(["a"], READERS.__getitem__)) == ["a", "c", "d", "b"]
    assert list(reached(["d", None, "b", "d"], READERS.__getitem__)) == ["d", "b"]
    assert list(reached([None], READERS.__getitem__)) == []


def test_a_cycle_ends() -> None:
    around = {0: [1], 1: [2], 2: [0]}
    assert list(reached([0], around.__getitem__)) == [0, 1, 2]


def test_nothing_behind_the_place_that_is_looked_for_is_asked_for() -> None:
    asked = []

    def step(number: int) -> list[int]:
        asked.append(number)
        return [number + 1]

    assert any(number == 3 for number in reached([0], step))
    assert asked == [0, 1, 2]
