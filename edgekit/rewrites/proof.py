"""Proves that a rewritten model computes what the model computed before."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection, Sequence

import numpy as np
import onnx.reference
import onnx_ir as ir

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.errors import InputError
from edgekit.execution.equivalence import Equivalence
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.execution.tolerance import compare
from edgekit.graph.nodes import constant_input
from edgekit.model import Arrays, Model
from edgekit.rewrite import Rewrite
from edgekit.rewrites.definition import Definition

SEEDS = (0, 1)
MOST_NODES = 64
"""The most nodes of a model that ONNX's own reference executes, which is slow."""
MOST_ELEMENTS = 1 << 13
"""The most elements of the inputs and outputs of a model that the reference executes although ONNX Runtime does,
too."""


class Proof:
    """Compares rewritten models with the model before, executed by ONNX Runtime on seeded inputs.

    If ONNX Runtime has no kernel for a small model, the reference implementation of the ONNX standard executes it. The
    reference also decides if a small model computes something else than ONNX Runtime, some of whose kernels depart from
    the standard. An operator's definition in the standard is right by definition.

    Args:
        model: The model before.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._before: Equivalence | None = None
        self._by_standard: list[tuple[Arrays, Arrays]] | None = None
        self._expected: list[tuple[Arrays, Arrays]] = []
        self._because = ""
        try:
            self._before = Equivalence(model)
        except NotRunnableError as error:
            self._because = str(error)
            self._expected = _by_standard(model)

    def difference(self, earlier: Model, changed: Model, rewrites: Collection[Rewrite]) -> str | None:
        """Returns what the changed model computes differently, or why that is unknown; None if it computes the same.

        Args:
            earlier: A form of the model that is known to compute the same.
            changed: A later form of the model.
            rewrites: The rewrites between ``earlier`` and ``changed``.
        """
        if self._before is not None:
            steps = any(rewrite.gives_steps for rewrite in rewrites)
            difference = self._before.difference(changed, steps=steps, earlier=earlier)
            if difference is None or not self._computes_as_the_standard(changed):
                return difference
            return None
        if all(isinstance(rewrite, Definition) for rewrite in rewrites):
            return None
        if not self._expected:
            return f"nothing can be compared: {self._because}"
        try:
            return _difference(changed, self._expected)
        except NotRunnableError:
            return f"nothing can be compared: {self._because}"

    def _computes_as_the_standard(self, changed: Model) -> bool:
        """Whether the changed model, which differs from ONNX Runtime, gives what the standard's reference gives."""
        if self._by_standard is None:
            self._by_standard = _by_standard(self._model) if _is_light(self._model) else []
        try:
            return bool(self._by_standard) and _difference(changed, self._by_standard) is None
        except NotRunnableError:
            return False


def _difference(changed: Model, expected: Sequence[tuple[Arrays, Arrays]]) -> str | None:
    """Returns what the model computes otherwise than expected, or None.

    Raises:
        NotRunnableError: It cannot be executed.
    """
    reference = Reference(changed)
    for feeds, outputs in expected:
        found = reference.run(feeds)
        differences = (compare(f"output {name}", outputs[name], found.get(name)) for name in outputs)
        difference = next((difference for difference in differences if difference), None)
        if difference is not None:
            return difference
    return None


def _is_light(model: Model) -> bool:
    """Whether ONNX's reference, which goes through elements one by one, executes the model in seconds."""
    known = [
        math.prod(dim for dim in spec.shape or () if isinstance(dim, int)) for spec in (*model.inputs, *model.outputs)
    ]
    return sum(known) <= MOST_ELEMENTS


def _may_go_on(node: ir.Node) -> bool:
    """Whether only a condition ends a loop: ONNX's reference has no limit of its own."""
    return node.op_type == "Loop" and not node.domain and constant_input(node, 0) is None


def _by_standard(model: Model) -> list[tuple[Arrays, Arrays]]:
    """Returns inputs and the outputs that ONNX's reference gives; empty if it does not run the model."""
    if model.node_count > MOST_NODES or not all(spec.is_static for spec in model.inputs):
        return []
    if any(_may_go_on(node) for node in model.graph.all_nodes()):
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
