import itertools
import random

import pytest

from edgekit.reporting.layout import COLUMN, ROW, layered_layout


def test_a_chain_is_a_straight_line() -> None:
    layout = layered_layout(3, [(0, 1), (1, 2)])
    assert layout.nodes == ((0, 0), (0, ROW), (0, 2 * ROW))
    assert layout.routes == {}


def test_a_shortcut_goes_around_what_it_passes() -> None:
    layout = layered_layout(3, [(0, 1), (1, 2), (0, 2), (0, 2), (1, 1)])
    (bend,) = layout.routes[0, 2]
    assert bend[1] == layout.nodes[1][1]
    assert bend[0] != layout.nodes[1][0]
    assert set(layout.routes) == {(0, 2)}


def test_nodes_without_edges_have_places_of_their_own() -> None:
    layout = layered_layout(6, [(1, 4), (4, 5), (1, 5)])
    assert len(set(layout.nodes)) == 6
    assert layout.nodes[1][1] < layout.nodes[4][1] < layout.nodes[5][1]
    assert layered_layout(2, []).nodes == ((0, 0), (COLUMN, 0))
    assert layered_layout(0, []).nodes == ()


@pytest.mark.parametrize("seed", range(5))
def test_edges_lead_down_and_nodes_do_not_overlap(seed: int) -> None:
    numbers = random.Random(seed)
    edges = [(start, end) for end in range(1, 120) for start in numbers.choices(range(max(0, end - 12), end), k=2)]
    layout = layered_layout(120, edges)
    for start, end in edges:
        way = [layout.nodes[start], *layout.routes.get((start, end), ()), layout.nodes[end]]
        assert [y for _, y in way] == sorted({y for _, y in way})
    by_row: dict[int, list[int]] = {}
    for x, y in layout.nodes:
        by_row.setdefault(y, []).append(x)
    for row in by_row.values():
        row.sort()
        assert all(right - left >= COLUMN * 0.99 for left, right in itertools.pairwise(row))
