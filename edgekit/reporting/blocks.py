"""Coarser views of a graph: layers with the nodes that follow them, and blocks by the namespaces in nodes' names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgekit.reporting.layout import Edge
from edgekit.reporting.operator_families import COMPUTING, family

MOST_BLOCKS = 40
"""Most parts of a view by blocks, so that it can be seen at a glance."""
LEAST_NODES = 4
"""A block of fewer nodes than this is not divided."""
MOST_SHARE = 1 / 16
"""A block with at most this share of all nodes is not divided."""
LEAST_REPEATS = 3
"""At least this many consecutive blocks of the same operators are drawn as one part."""


@dataclass(frozen=True)
class Part:
    """The nodes that a view draws as one box."""

    name: str
    members: tuple[int, ...]
    """Numbers of the part's nodes."""
    repeats: int = 1
    """How many consecutive blocks of the same operators the part contains."""


def layers(operators: Sequence[str], names: Sequence[str], edges: Sequence[Edge]) -> list[Part]:
    """One part for each node that computes with weights, together with the nodes that follow it up to the next one.

    Args:
        operators: The nodes' operators; each node comes after those whose results it reads.
        names: The nodes' names.
        edges: Edges from node to node.
    """
    makers: dict[int, list[int]] = {}
    for start, end in edges:
        makers.setdefault(end, []).append(start)
    head: dict[int, int] = {}
    last: dict[int, int] = {}
    for node, operator in enumerate(operators):
        before = {head[maker] for maker in makers.get(node, ()) if maker in head}
        follows = len(before) == 1 and family(operator) not in COMPUTING
        head[node] = before.pop() if follows else node
        last[head[node]] = node
    members: dict[int, list[int]] = {}
    for node in range(len(operators)):
        members.setdefault(head[node], []).append(node)
    return [Part(names[first], tuple(inside)) for first, inside in members.items()]


def blocks(operators: Sequence[str], names: Sequence[str], edges: Sequence[Edge]) -> list[Part]:
    """Parts by the namespaces of nodes' names, such as ``/encoder/layer.0/attention``; repeated blocks are one part.

    Args:
        operators: The nodes' operators.
        names: The nodes' names, with slashes between namespaces.
        edges: Edges from node to node.
    """
    paths = [tuple(name.strip("/").split("/")) for name in names]
    groups: dict[tuple[str, ...], list[int]] = {(): list(range(len(names)))}
    closed: set[tuple[str, ...]] = set()
    small = max(LEAST_NODES - 1, MOST_SHARE * len(names))
    while True:
        open_groups = [path for path in groups if path not in closed and len(groups[path]) > small]
        if not open_groups:
            break
        path = max(open_groups, key=lambda one: len(groups[one]))
        inner = _by_next_segment(path, groups[path], paths)
        if len(groups) - 1 + len(inner) > MOST_BLOCKS or list(inner) == [path]:
            closed.add(path)
        else:
            del groups[path]
            groups |= inner
            closed |= _repeated(inner, operators)
    found = [Part("/".join(path), tuple(inside)) for path, inside in groups.items()]
    return _joined_repeats(sorted(found, key=lambda part: part.members), operators, edges)


def _by_next_segment(
    path: tuple[str, ...], members: Sequence[int], paths: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], list[int]]:
    """The members, grouped by one more segment of their names than ``path`` has."""
    inner: dict[tuple[str, ...], list[int]] = {}
    for member in members:
        inner.setdefault(paths[member][: len(path) + 1], []).append(member)
    return inner


def _repeated(siblings: dict[tuple[str, ...], list[int]], operators: Sequence[str]) -> set[tuple[str, ...]]:
    """The siblings of which at least :data:`LEAST_REPEATS` have the same operators: they are not divided further."""
    signatures = {path: tuple(operators[member] for member in members) for path, members in siblings.items()}
    counts = Counter(signatures.values())
    return {path for path, signature in signatures.items() if counts[signature] >= LEAST_REPEATS}


def _joined_repeats(parts: list[Part], operators: Sequence[str], edges: Sequence[Edge]) -> list[Part]:
    """The parts, with each chain of parts of one namespace that have the same operators joined into one."""
    place = {member: number for number, part in enumerate(parts) for member in part.members}
    follow = {(place[start], place[end]) for start, end in edges}
    kinds = [(part.name.rpartition("/")[0], tuple(operators[member] for member in part.members)) for part in parts]
    joined: list[Part] = []
    for run in _runs(follow, kinds):
        first, last = parts[run[0]], parts[run[-1]]
        if len(run) < LEAST_REPEATS or len(first.members) < 2:
            joined += [parts[number] for number in run]
        else:
            members = tuple(member for number in run for member in parts[number].members)
            joined.append(Part(f"{first.name} … {last.name}", members, len(run)))
    return joined


def _runs(follow: set[tuple[int, int]], kinds: Sequence[object]) -> Iterator[list[int]]:
    """Yields runs of numbers of parts of one kind that follow each other."""
    run = [0] if kinds else []
    for number in range(1, len(kinds)):
        if kinds[number] == kinds[run[-1]] and (run[-1], number) in follow:
            run.append(number)
        else:
            yield run
            run = [number]
    if run:
        yield run


def part_edges(parts: Sequence[Part], edges: Sequence[Edge]) -> list[Edge]:
    """Edges between parts; an edge that leads backwards is reversed, so that there are no cycles."""
    place = {member: number for number, part in enumerate(parts) for member in part.members}
    between = {(place[start], place[end]) for start, end in edges if place[start] != place[end]}
    return sorted({(min(edge), max(edge)) for edge in between})
