"""Proves that a rewritten model computes what the model computed before."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

import numpy as np
import onnx.reference

from edgekit.data.inputs import index_limits, seeded_inputs
from edgekit.errors import InputError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.tolerance import compare
from edgekit.model import Arrays, Model
from edgekit.rewrite import Rewrite
from edgekit.rewrites.definition import Definition

SEEDS = (0, 1)
MOST_NODES = 64
"""ONNX's own reference is slow: it is asked of models with at most this many nodes."""


class Proof:
    """Holds rewritten models against the one before, executed by ONNX Runtime on seeded inputs.

    What ONNX Runtime has no kernel for is executed by the reference implementation of the ONNX standard, where the
    model is small. An operator's definition in the standard is right by definition.

    Args:
        model: The model before.
    """

    def __init__(self, model: Model) -> None:
        self._before: Equivalence | None = None
        self._expected: list[tuple[Arrays, Arrays]] = []
        self._because = ""
        try:
            self._before = Equivalence(model)
        except NotRunnableError as error:
            self._because = str(error)
            self._expected = _by_standard(model)

    def difference(self, changed: Model, rewrites: Iterable[Rewrite]) -> str | None:
        """What the changed model computes differently, or why it cannot be told; None where it computes the same."""
        if self._before is not None:
            return self._before.difference(changed)
        if all(isinstance(rewrite, Definition) for rewrite in rewrites):
            return None
        if not self._expected:
            return f"nothing can be compared: {self._because}"
        try:
            reference = Reference(changed)
            for feeds, expected in self._expected:
                found = reference.run(feeds)
                differences = (compare(f"output {name}", expected[name], found.get(name)) for name in expected)
                difference = next((difference for difference in differences if difference), None)
                if difference is not None:
                    return difference
        except NotRunnableError:
            return f"nothing can be compared: {self._because}"
        return None


def _by_standard(model: Model) -> list[tuple[Arrays, Arrays]]:
    """Inputs, and the outputs that ONNX's reference implementation gives; none where it does not run the model."""
    if sum(1 for _ in model.graph.all_nodes()) > MOST_NODES or not all(spec.is_static for spec in model.inputs):
        return []
    limits = index_limits(model)
    try:
        evaluator = onnx.reference.ReferenceEvaluator(model.proto())
        pairs = []
        for seed in SEEDS:
            feeds = seeded_inputs(model.inputs, seed, limits)
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                results = evaluator.run(None, feeds)
            pairs.append((feeds, dict(zip((spec.name for spec in model.outputs), results, strict=True))))
    except InputError:
        return []
    except Exception:  # whatever it raises: it then proves nothing
        return []
    return pairs
