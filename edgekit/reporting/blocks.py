"""Coarser views of a graph: layers with what follows them, and blocks by the namespaces of the nodes' names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from edgekit.reporting.layout import Edge
from edgekit.reporting.operator_families import COMPUTING, family

MOST_BLOCKS = 40
"""A view by blocks has no more parts than this: it is to be seen at a glance."""
LEAST_NODES = 4
"""A block of fewer nodes than this is not taken apart."""
MOST_SHARE = 1 / 16
"""Neither is one with at most this share of all nodes."""
LEAST_REPEATS = 3
"""Blocks of the same operators in a chain are drawn as one from this number on."""


@dataclass(frozen=True)
class Part:
    """What a view draws as one."""

    name: str
    members: tuple[int, ...]
    """Numbers of its nodes."""
    repeats: int = 1
    """How many blocks of the same operators follow each other in it."""


def layers(operators: Sequence[str], names: Sequence[str], edges: Sequence[Edge]) -> list[Part]:
    """Each node that computes with weights, with the others behind it up to the next one.

    Args:
        operators: Of the nodes, in an order in which each comes after those it reads.
        names: Of the nodes.
        edges: From node to node.
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
    """The nodes by the namespaces of their names, such as ``/encoder/layer.0/attention``; equal ones in a chain as one.

    Args:
        operators: Of the nodes.
        names: Of the nodes; their parts stand between slashes.
        edges: From node to node.
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
    """The members by one more segment of their names."""
    inner: dict[tuple[str, ...], list[int]] = {}
    for member in members:
        inner.setdefault(paths[member][: len(path) + 1], []).append(member)
    return inner


def _repeated(siblings: dict[tuple[str, ...], list[int]], operators: Sequence[str]) -> set[tuple[str, ...]]:
    """Those of which there are several: they stay whole, and are told as what they are."""
    signatures = {path: tuple(operators[member] for member in members) for path, members in siblings.items()}
    counts = Counter(signatures.values())
    return {path for path, signature in signatures.items() if counts[signature] >= LEAST_REPEATS}


def _joined_repeats(parts: list[Part], operators: Sequence[str], edges: Sequence[Edge]) -> list[Part]:
    """Chains of parts of one namespace that consist of the same operators, each as one part."""
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
    """The numbers of those of one kind that follow each other."""
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
    """Edges between parts; one that would lead back is turned round, so that there is no circle."""
    place = {member: number for number, part in enumerate(parts) for member in part.members}
    between = {(place[start], place[end]) for start, end in edges if place[start] != place[end]}
    return sorted({(min(edge), max(edge)) for edge in between})
