"""The quantization schemes that a user can choose, and the candidates of each scheme on a target."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import onnx_ir as ir

from edgekit.quantizer import Scheme
from edgekit_quantize.graph.layers import WEIGHTED
from edgekit_quantize.integers.stored_weights import RECURRENT
from edgekit_quantize.placement import place
from edgekit_quantize.settings import Placement, Settings

DYNAMIC = "int8-dynamic"
"""The scheme whose matrix products quantize their activations in every run."""
WEIGHTS_ONLY = "weights only"
"""The name of a candidate that is meant to compute with integers if no layer of the model can do so."""
DYNAMIC_KINDS = ("MatMul", "Gemm")
"""The kinds of layers that ``int8-dynamic`` applies to if a target names none."""
HALF = "float16"
"""The scheme that stores weights in half precision."""
STORED = {"int8-weights": ("int8", 0), "int4-weights": ("int4", 32)}
"""Schemes that only store weights as integers: the type, and the number of inputs that share a scale (0: all)."""
SCHEMES = (
    Scheme("auto", "the fastest form that holds the accuracy budget, or float if none does", needs_samples=True),
    Scheme("int8", "weights and activations in 8 bits", needs_samples=True),
    Scheme("int8-weights", "weights stored in 8 bits"),
    Scheme("int4-weights", "weights stored in 4 bits, in blocks"),
    Scheme(DYNAMIC, "matrix products in 8 bits, activations quantized in every run"),
    Scheme(HALF, "weights stored in half precision", has_integers=False),
)


def placement_of(scheme: str, data: Mapping[str, Any]) -> Placement:
    """The preparation and the candidates of a scheme, from a target's data.

    Args:
        scheme: The name of one of :data:`SCHEMES`.
        data: The target's placement data (:mod:`edgekit_quantize.settings`).

    Raises:
        edgekit.errors.InternalError: The target's data are wrong.
    """
    placement = Placement.read(data)
    first = next(iter(placement.candidates.values()))
    preparation, candidates = placement.preparation, placement.candidates
    if scheme in STORED:
        candidates = {"weights": _only_stored(first, *STORED[scheme])}
    elif scheme == DYNAMIC:
        stored = _only_stored(first, "int8", 0)
        kinds = dict.fromkeys(data.get("dynamic", DYNAMIC_KINDS), "dynamic")
        candidates = {"dynamic": replace(stored, layers={**stored.layers, **kinds})}
    elif scheme == HALF:
        preparation = replace(preparation, equalize=False)
        candidates = {
            HALF: replace(first, preparation=preparation, layers={}, activation_products=False, float_weights=HALF)
        }
    elif scheme == "int8":
        integer = {name: settings for name, settings in candidates.items() if settings.quantizes_activations}
        candidates = integer or candidates
    return Placement(preparation, candidates)


def with_float_weights(data: Mapping[str, Any], stored: str) -> Mapping[str, Any]:
    """A target's data, changed so that all candidates store float weights as ``float32`` or ``float16``."""
    given = [{**entry, "float_weights": stored} for entry in data.get("candidates") or ()]
    return {**data, "float_weights": stored, **({"candidates": given} if given else {})}


def each_sample_alone(candidates: Mapping[str, Settings], graph: ir.Graph) -> dict[str, Settings]:
    """The candidates, without dynamic ones if the number of samples in a run is not fixed.

    A range that is found in a run covers all samples of the run, so the answer to one sample would depend on the others
    in its batch, while candidates are scored on one sample at a time. If the batch size is fixed, candidates are scored
    on the batches that they run on, and none is left out.
    """
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    if all(value.shape is None or not len(value.shape) or isinstance(value.shape[0], int) for value in inputs):
        return dict(candidates)
    return {name: each for name, each in candidates.items() if "dynamic" not in each.layers.values()}


def different(candidates: Mapping[str, Settings], graph: ir.Graph) -> dict[str, Settings]:
    """The candidates without those that write the same model as an earlier one, as some layer kinds may be absent."""
    found, _ = _by_outcome(candidates, graph)
    return dict(found.values())


def name_among_different(choice: str, candidates: Mapping[str, Settings], graph: ir.Graph) -> str:
    """The name of a choice among the candidates that are different (:func:`different`).

    Args:
        choice: The name of a candidate, or of a form of one (``NAME, 2 layers in float``). The candidate may be left
            out because it has the outcome of another one, though it was not in an earlier version, or for another model
            from whose record the choice comes.
        candidates: All candidates.
        graph: The graph of the prepared float model.

    Returns:
        The choice with its candidate's name replaced by that of the kept candidate with the same outcome; the choice
        itself if its candidate is kept, or if no candidate has that name.
    """
    found, outcomes = _by_outcome(candidates, graph)
    kept = {name for name, _ in found.values()}
    named = [name for name in (*kept, *outcomes) if f"{choice}, ".startswith(f"{name}, ")]
    closest = max(named, key=len, default=None)
    if closest is None or closest in kept:
        return choice
    as_kept, _ = found[outcomes[closest]]
    return f"{as_kept}{choice.removeprefix(closest)}"


Outcome = tuple[Hashable, ...]
"""A key of the model that a candidate writes (:meth:`edgekit_quantize.placement.Plan.outcome`)."""


def _by_outcome(
    candidates: Mapping[str, Settings], graph: ir.Graph
) -> tuple[dict[Outcome, tuple[str, Settings]], dict[str, Outcome]]:
    """The name and settings of the first candidate with each outcome, and the outcome of every candidate."""
    found: dict[Outcome, tuple[str, Settings]] = {}
    outcomes: dict[str, Outcome] = {}
    for given, settings in candidates.items():
        name, plan = given, place(graph, settings)
        outcome = outcomes[given] = plan.outcome()
        stores = settings.quantizes_activations and not plan.computes_with_integers
        taken = {*candidates, *(other for key, (other, _) in found.items() if key != outcome)}
        if stores and WEIGHTS_ONLY not in taken:
            name = WEIGHTS_ONLY
        known = found.setdefault(outcome, (name, settings))
        if not plan.layers:  # no integers compute: use the last candidate's name, as the first may suggest that they do
            found[outcome] = (name, known[1])
    return found, outcomes


def _only_stored(settings: Settings, weights: str, block: int) -> Settings:
    """The settings, changed so that all weights are stored as integers of a type and no activation is quantized."""
    kinds = (*WEIGHTED, "DepthwiseConv", "Gather", *RECURRENT)
    return replace(
        settings, layers=dict.fromkeys(kinds, "weights"), activation_products=False, weights=weights, block=block
    )
