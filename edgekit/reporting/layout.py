"""Places the nodes of a graph in layers from top to bottom, and routes the edges between them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fast_sugiyama import from_edges
from fast_sugiyama.layout import Layouts

Point = tuple[int, int]
Edge = tuple[int, int]

COLUMN = 180
"""Units from a node to its neighbor in the same layer."""
ROW = 72
"""Units from layer to layer."""
_ROUTE_WIDTH = 0.25
"""Width that is left for an edge in the layers that it passes, as a share of a column."""


@dataclass(frozen=True)
class Layout:
    """Positions and routes, in units that are pixels at zoom 1; y grows downwards."""

    nodes: tuple[Point, ...]
    """The center of each node."""
    routes: Mapping[Edge, tuple[Point, ...]]
    """The bends of an edge between its two nodes, for edges that are not straight."""


def layered_layout(count: int, edges: Iterable[Edge]) -> Layout:
    """Sugiyama's layered layout of an acyclic graph; parts that are not connected are placed side by side.

    Args:
        count: How many nodes there are; they are numbered from 0.
        edges: Edges from node to node.
    """
    wanted = sorted({edge for edge in edges if edge[0] != edge[1]})
    connected = sorted({node for edge in wanted for node in edge})
    numbers = {node: number for number, node in enumerate(connected)}  # higher numbers are points that the library adds
    places: dict[int, Point] = {}
    routes: dict[Edge, tuple[Point, ...]] = {}
    left = 0
    for positions, _, _, segments in _parts([(numbers[start], numbers[end]) for start, end in wanted]):
        least_x, highest_y = min(x for _, (x, _) in positions), max(y for _, (_, y) in positions)
        part = {
            int(number): (left + round((x - least_x) * COLUMN), round((highest_y - y) * ROW))
            for number, (x, y) in positions
        }
        ways = _routes(len(connected), part, [(int(start), int(end)) for start, end in segments or ()])
        routes |= {(connected[start], connected[end]): way for (start, end), way in ways.items()}
        places |= {connected[number]: place for number, place in part.items() if number < len(connected)}
        left = max(x for x, _ in part.values()) + COLUMN
    for node in range(count):
        if node not in places:
            places[node] = (left, 0)
            left += COLUMN
    return Layout(tuple(places[node] for node in range(count)), routes)


def _parts(edges: list[Edge]) -> Layouts:
    """The layouts of the graph's connected parts; lengths count columns and layers, y grows upwards."""
    if not edges:
        return Layouts()
    return from_edges(edges, vertex_spacing=1, dummy_size=_ROUTE_WIDTH, check_layout=False)


def _routes(count: int, places: Mapping[int, Point], segments: Iterable[Edge]) -> dict[Edge, tuple[Point, ...]]:
    """Joins the segments of edges that span several layers; the points between have numbers from ``count`` on."""
    segments = list(segments)
    onward = {start: end for start, end in segments if start >= count}
    found = {}
    for start, end in segments:
        if start < count <= end:
            way = []
            last = end
            while last >= count:
                way.append(places[last])
                last = onward[last]
            found[start, last] = _without_straight_points([places[start], *way, places[last]])
    return found


def _without_straight_points(points: list[Point]) -> tuple[Point, ...]:
    """The inner points at which the route bends."""
    kept = []
    for before, point, after in zip(points, points[1:], points[2:], strict=False):
        cross = (point[0] - before[0]) * (after[1] - point[1]) - (point[1] - before[1]) * (after[0] - point[0])
        if cross != 0:
            kept.append(point)
    return tuple(kept)
