"""What only cycles hold is freed once it is large."""

import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

from edgekit.processes.memory import GROWTH, free_unused, resident

pytestmark = pytest.mark.skipif(not resident(), reason="this system does not tell what a process has in memory")


class Node:
    """Refers to itself, as nodes of a graph do by way of their values."""

    def __init__(self, size: int) -> None:
        self.itself = self
        self.weights = np.ones(size, np.uint8)


@pytest.fixture
def no_search() -> Iterator[None]:
    """Python does not search by itself, and what was free before is gone."""
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
