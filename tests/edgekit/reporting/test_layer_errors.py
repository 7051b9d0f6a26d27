from typing import Any

import pytest

from edgekit.reporting.layer_errors import Loss, carried_errors, largest_losses


@pytest.fixture
def graph() -> dict[str, Any]:
    """x -> MatMul -> p; Add(p, x) -> s; Relu -> r; Conv -> y."""
    names = ("x", "p", "s", "r", "y")
    nodes = [
        {"name": "product", "op": "MatMul", "inputs": [0], "outputs": [1]},
        {"name": "sum", "op": "Add", "inputs": [1, 0], "outputs": [2]},
        {"name": "relu", "op": "Relu", "inputs": [2], "outputs": [3]},
        {"name": "conv", "op": "Conv", "inputs": [3, None], "outputs": [4]},
    ]
    return {"values": [{"name": name} for name in names], "nodes": nodes, "inputs": [0], "outputs": [4]}


def test_an_error_that_the_next_node_evens_out_is_none(graph: dict[str, Any]) -> None:
    carried = carried_errors(graph, {"p": -14.0, "s": 45.0, "r": 44.0, "y": 20.0})
    assert carried == {"p": 45.0, "s": 45.0, "r": 44.0, "y": 20.0}
    assert largest_losses(graph, carried, 5) == [
        Loss("conv", "Conv", 44.0, 20.0),
        Loss("product", "MatMul", 60.0, 45.0),
    ]


def test_one_that_goes_on_counts(graph: dict[str, Any]) -> None:
    carried = carried_errors(graph, {"p": 10.0, "s": 12.0, "y": 11.0})
    assert carried == {"p": 12.0, "s": 12.0, "y": 11.0}
    assert [(loss.node, loss.db) for loss in largest_losses(graph, carried, 5)] == [("product", 48.0)]


def test_one_that_goes_on_in_a_single_branch_counts(graph: dict[str, Any]) -> None:
    graph["values"].append({"name": "other"})
    graph["nodes"].append({"name": "negation", "op": "Neg", "inputs": [1], "outputs": [5]})
    carried = carried_errors(graph, {"p": 10.0, "s": 45.0, "other": 12.0})
    assert carried["p"] == 12.0


def test_outputs_count_as_they_are_and_what_was_not_compared_evens_nothing_out(graph: dict[str, Any]) -> None:
    graph["outputs"] = [1, 4]
    assert carried_errors(graph, {"p": 5.0, "s": 50.0, "y": "inf"}) == {"p": 5.0, "s": 50.0, "y": float("inf")}


def test_what_was_not_compared_counts_as_what_it_is_made_of(graph: dict[str, Any]) -> None:
    losses = largest_losses(graph, carried_errors(graph, {"s": 30.0, "y": 20.0}), 1)
    assert losses == [Loss("sum", "Add", 60.0, 30.0)]
    assert largest_losses(graph, {"s": 30.0, "y": 20.0}, 2)[1] == Loss("conv", "Conv", 30.0, 20.0)


def test_few_decibels_name_nobody(graph: dict[str, Any]) -> None:
    assert largest_losses(graph, {"p": 59.0, "s": 57.5, "r": 56.0}, 5) == []
