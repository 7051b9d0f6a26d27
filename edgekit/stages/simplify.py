"""The third stage: the graph without what the device need not do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    DeduplicateHashedInitializersPass,
    IdentityEliminationPass,
    LiftConstantsToInitializersPass,
    LiftSubgraphInitializersToMainGraphPass,
    NameFixPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
)
from onnxscript import rewriter
from onnxscript.optimizer import fold_constants_ir

from edgekit.comparison.equivalence import Equivalence
from edgekit.comparison.reference import NotRunnableError
from edgekit.graph.shapes import SHAPE_ELEMENTS, infer_shapes
from edgekit.model import Model, name_nodes
from edgekit.stages import Stage, StageResult

Rewrite = Callable[[ir.Model], object]
"""Changes a graph in place."""

_GROWTH_BYTES = 256 << 10
_GROWTH_SHARE = 0.1
"""Folding may add so many bytes, or this share of the model's tensors, whichever is more; beyond that it folds less."""


class Simplify(Stage[Model]):
    """Runs the passes of onnx_ir and onnxscript over the graph, one by one.

    After each pass that changes something, the model is executed beside the one before; a pass that raises, or that
    changes an output, is dropped with a warning. Afterwards inputs and outputs are what they were.
    """

    name = "simplify"

    def run(self, given: Model) -> StageResult:
        """Simplifies the graph; leaves it alone where ONNX Runtime cannot execute it, so that nothing is unproven."""
        record: dict[str, Any] = {"nodes_before": _node_count(given), "passes": [], "warnings": []}
        model = given
        try:
            before = Equivalence(given)
        except NotRunnableError as error:
            record["warnings"].append(f"not simplified, because outputs could not be compared: {error}")
        else:
            for name, rewrite in _PASSES.items():
                outcome = _attempt(rewrite, model, before)
                record["passes"].append(
                    {"name": name, "nodes": _node_count(outcome.model), "dropped": outcome.dropped_because}
                )
                if outcome.dropped_because is not None:
                    record["warnings"].append(f"the pass {name!r} was dropped: {outcome.dropped_because}")
                model = outcome.model
        record["nodes_after"] = _node_count(model)
        return StageResult(model, record)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        for what, before, after in (
            ("inputs", given.inputs, result.model.inputs),
            ("outputs", given.outputs, result.model.outputs),
        ):
            if [(spec.name, spec.dtype) for spec in before] != [(spec.name, spec.dtype) for spec in after]:
                raise self.broken(f"the {what} have changed")


@dataclass(frozen=True)
class _Outcome:
    """The model after a pass; the one before it where the pass was dropped."""

    model: Model
    dropped_because: str | None = None


def _attempt(rewrite: Rewrite, model: Model, before: Equivalence) -> _Outcome:
    graph_model = model.graph_model.clone()
    try:
        rewrite(graph_model)
        NameFixPass()(graph_model)
        name_nodes(graph_model)
        changed = model.with_graph(graph_model)
        if _is_same(model, changed):
            return _Outcome(model)
        changed = infer_shapes(changed, strict=False)
    except Exception as error:  # a pass is foreign code; without it the model is as good as before
        return _Outcome(model, f"{type(error).__name__}: {' '.join(str(error).split())}")
    difference = before.difference(changed)
    return _Outcome(changed) if difference is None else _Outcome(model, difference)


def _fold_constants(graph_model: ir.Model) -> None:
    """Folds what is constant, unless the model grows a lot by it: then only small constants."""
    before = _tensor_bytes(graph_model)
    trial = graph_model.clone()
    fold_constants_ir(trial, onnx_shape_inference=True)
    growth = _tensor_bytes(trial) - before
    if growth <= max(_GROWTH_BYTES, _GROWTH_SHARE * before):
        fold_constants_ir(graph_model, onnx_shape_inference=True)
    else:
        fold_constants_ir(graph_model, onnx_shape_inference=True, output_size_limit=SHAPE_ELEMENTS)
    RemoveUnusedNodesPass()(graph_model)


def _lift_constants(graph_model: ir.Model) -> None:
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph_model)
    LiftSubgraphInitializersToMainGraphPass()(graph_model)


def _remove_unused(graph_model: ir.Model) -> None:
    RemoveUnusedNodesPass()(graph_model)
    RemoveUnusedOpsetsPass()(graph_model)


_PASSES: dict[str, Rewrite] = {
    "remove what nothing uses": _remove_unused,
    "turn constant nodes into initializers": _lift_constants,
    "fold constants": _fold_constants,
    "remove identities": IdentityEliminationPass(),
    "compute common subexpressions once": CommonSubexpressionEliminationPass(),
    "fuse patterns": rewriter.rewrite,
    "store equal initializers once": DeduplicateHashedInitializersPass(),
    "clean up": _remove_unused,
}
"""The passes in the order in which they help one another, by the name that the record calls them."""


def _is_same(before: Model, after: Model) -> bool:
    """Whether the graphs are the same, node for node."""
    pairs = zip(_outline(before), _outline(after), strict=False)
    return _node_count(before) == _node_count(after) and all(old == new for old, new in pairs)


def _outline(model: Model) -> Iterator[tuple[object, ...]]:
    for node in model.graph.all_nodes():
        yield (
            node.domain,
            node.op_type,
            tuple(value.name if value is not None else None for value in node.inputs),
            tuple(value.name for value in node.outputs),
            tuple((name, node.attributes[name].value) for name in sorted(node.attributes)),
        )


def _tensor_bytes(graph_model: ir.Model) -> int:
    return Model(graph_model).weight_bytes


def _node_count(model: Model) -> int:
    return sum(1 for _ in model.graph.all_nodes())
