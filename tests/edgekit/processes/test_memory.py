"""What only cycles hold is freed once it is large, and goes back to the system."""

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from edgekit.processes import memory
from edgekit.processes.memory import GROWTH, free_unused, resident

pytestmark = pytest.mark.skipif(not resident(), reason="this system does not tell what a process has in memory")


class Node:
    """An object that refers to itself, as nodes of a graph do through their values."""

    def __init__(self, size: int) -> None:
        self.itself = self
        self.weights = np.ones(size, np.uint8)


@pytest.fixture
def no_search() -> Iterator[None]:
    """Turns off Python's own search for cycles, and frees what was unused before."""
    gc.collect()
    gc.disable()
    free_unused()
    yield
    gc.enable()


@pytest.mark.parametrize(("size", "freed"), [(2 * GROWTH, True), (1 << 20, False)])
def test_cycles_are_freed_where_the_process_has_grown(no_search: None, size: int, freed: bool) -> None:
    node = weakref.ref(Node(size))
    assert node() is not None
    free_unused()
    assert (node() is None) == freed


@pytest.mark.skipif(memory._trim() is None, reason="this C library gives memory back by itself, or not at all")
def test_what_is_free_below_what_is_in_use_goes_back_to_the_system(no_search: None) -> None:
    size = 64 << 10  # less than what the C library asks the system for, and gives back, by itself
    arrays = [np.ones(size, np.uint8) for _ in range(3 * GROWTH // size)]
    above = np.ones(size, np.uint8)
    held = resident()
    del arrays[:]
    assert held - resident() < GROWTH
    free_unused()
    assert held - resident() > 2 * GROWTH
    assert above.all()
