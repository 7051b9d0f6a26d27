from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event

import pytest

from edgekit.stages.instruction_sets import one_ahead


class Devices:
    """Notes what is opened and closed; some names cannot be opened."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.log: list[str] = []
        self.opened = {name: Event() for name in "abc"}

    @contextmanager
    def opening(self, name: str) -> Iterator[str]:
        if name in self.broken:
            raise KeyError(name)
        self.log.append(f"{name} opened")
        self.opened[name].set()
        try:
            yield name
        finally:
            self.log.append(f"{name} closed")


def test_the_next_one_is_opened_while_one_is_used_and_no_more() -> None:
    devices = Devices()
    for name, opened in one_ahead("abc", devices.opening):
        assert opened() == name
        following = {"a": "b", "b": "c"}.get(name)
        assert following is None or devices.opened[following].wait(30)
        devices.log.append(f"{name} used")
    assert devices.log == [
        *("a opened", "b opened", "a used", "a closed"),
        *("c opened", "b used", "b closed"),
        *("c used", "c closed"),
    ]


def test_what_cannot_be_opened_says_so_when_it_is_asked_for() -> None:
    devices = Devices("b")
    used = []
    for name, opened in one_ahead("abc", devices.opening):
        if name == "b":
            with pytest.raises(KeyError, match="b"):
                opened()
        else:
            used.append(opened())
    assert used == ["a", "c"]
    assert sorted(devices.log) == ["a closed", "a opened", "c closed", "c opened"]


def test_all_are_closed_where_one_is_the_last_that_is_wanted() -> None:
    devices = Devices()
    with closing(one_ahead("abc", devices.opening)) as each:
        _, opened = next(each)
        assert opened() == "a"
    assert sorted(devices.log) in (
        ["a closed", "a opened", "b closed", "b opened"],
        ["a closed", "a opened"],  # the next was not begun yet
    )
