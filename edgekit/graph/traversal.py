"""Traversal of a graph from value to value, or from node to node, in either direction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T", bound=Hashable)


def reached(starts: Iterable[_T | None], step: Callable[[_T], Iterable[_T | None]]) -> Iterator[_T]:
    """Yields each start, and what steps from there lead to; each once, in depth-first order. None is ignored.

    Args:
        starts: The values or nodes to start from.
        step: Returns what is one step away from a value or node; called after the value or node was yielded.
    """
    waiting, seen = list(starts), set[_T]()
    while waiting:
        one = waiting.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        yield one
        waiting.extend(step(one))
