"""Rounds the weights of recurrent nodes adaptively, from the inputs of their two products in a pass over the samples.

The input weights multiply the node's input, the recurrence weights its state after the previous step. The hidden gate
of a GRU with ``linear_before_reset = 0`` multiplies the state times the reset gate; the state itself is used instead.
Biases are not corrected, so the moments ``E[x x']`` are taken about zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.inner_values import reachable
from edgekit_quantize.calibration.moments import LONGEST_ROW, ROWS
from edgekit_quantize.graph.nodes import constant, home, integer
from edgekit_quantize.integers.qparams import QParams
from edgekit_quantize.integers.stored_weights import recurrent_name, recurrent_weights
from edgekit_quantize.rounding.adaptive import Chosen
from edgekit_quantize.rounding.held_out import EVERY_OTHER, Basis, Halves, Parts

INITIAL_STATE = 5
"""The index of the input of LSTM, GRU and RNN that holds the state before the first step."""

Rows = Callable[[np.ndarray], np.ndarray]
"""Returns the rows of an observed tensor that one direction multiplies."""


@dataclass
class _Product:
    """One of a node's matrix products, in one direction."""

    moments: Halves
    sources: Mapping[str, Rows]
    """The tensors that the product's rows come from, by name."""


def adaptively_rounded_recurrence(
    model: ir.Model, feeds: Callable[[], Iterable[Mapping[str, np.ndarray]]], parts: Parts = EVERY_OTHER
) -> Chosen:
    """Integers for the weights of recurrent nodes, by :func:`~edgekit_quantize.integers.stored_weights.recurrent_name`.

    Weights whose inputs cannot be observed on the samples are left out: the node is in a branch that no sample takes,
    or does not output its states. So are weights of which the samples show too little
    (:mod:`edgekit_quantize.rounding.held_out`).

    Args:
        model: The prepared float model.
        feeds: Reads the samples; not called if there is nothing to observe.
        parts: How the samples are divided.
    """
    found = {
        recurrent_name(node, index): (node, index, params, [*_products(node, index)])
        for node, index, params in recurrent_weights(model)
        if home(node) in reachable(model.graph)
    }
    takers: dict[str, list[tuple[Halves, Rows]]] = {}
    for *_, products in found.values():
        for product in products:
            for name, rows in product.sources.items():
                takers.setdefault(name, []).append((product.moments, rows))
    chosen = Chosen()
    if not takers:
        return chosen
    place = 0

    def take(name: str, array: np.ndarray) -> None:
        for moments, rows in takers[name]:
            taken = rows(array)
            if len(taken):
                some = np.ascontiguousarray(taken[:: -(-len(taken) // ROWS)], np.float32)
                moments.update(some, place, parts)

    def turn(done: int) -> None:
        nonlocal place
        place = done

    observe(model, takers.keys(), feeds(), take, turn)
    for name, (node, index, params, products) in found.items():
        weights = constant(node.inputs[index])
        if weights is None or not products:
            continue
        each = [_rounded(*of_direction, params, parts) for of_direction in zip(weights, products, strict=True)]
        rounded = [integers for integers, _ in each if integers is not None]
        if len(rounded) == len(products):
            chosen.integers[name] = np.stack(rounded)
            if any(basis is Basis.PART for _, basis in each):
                chosen.of_part.add(name)
    return chosen


def _rounded(weights: np.ndarray, product: _Product, params: QParams, parts: Parts) -> tuple[np.ndarray | None, Basis]:
    seconds = product.moments.seconds
    return (None, Basis.NONE) if seconds is None else seconds.rounded(weights, params, parts)


def _products(node: ir.Node, index: int) -> Iterator[_Product]:
    """One product per direction; nothing if the rows that a product multiplies cannot be observed."""
    weights = constant(node.inputs[index])
    if weights is None or weights.shape[-1] > LONGEST_ROW or integer(node, "layout", 0):
        return
    direction = node.attributes.get("direction")
    reverse = direction is not None and direction.as_string() == "reverse"
    for place in range(len(weights)):
        sources = _inputs(node) if index == 1 else _states(node, place, backwards=reverse or place == 1)
        if not sources:
            return
        yield _Product(Halves(weights.shape[-1]), sources)


def _inputs(node: ir.Node) -> dict[str, Rows]:
    fed = node.inputs[0]
    return {} if fed is None or not fed.name else {fed.name: lambda array: array.reshape(-1, array.shape[-1])}


def _states(node: ir.Node, place: int, *, backwards: bool) -> dict[str, Rows]:
    """The states before each step: the initial state, and the node's output after every step but the last.

    A constant initial state, or none, is left out.
    """

    def initial(array: np.ndarray) -> np.ndarray:
        rows: np.ndarray = array[place].reshape(-1, array.shape[-1])
        return rows

    def given(array: np.ndarray) -> np.ndarray:
        steps: np.ndarray = array[1:, place] if backwards else array[:-1, place]
        rows: np.ndarray = steps.reshape(-1, array.shape[-1])
        return rows

    states = node.outputs[0]
    if not states.name:
        return {}
    first = node.inputs[INITIAL_STATE] if len(node.inputs) > INITIAL_STATE else None
    known = first is None or not first.name or constant(first) is not None
    return {states.name: given} if known or first is None else {states.name: given, str(first.name): initial}
