"""The third stage: removes from the graph what the device does not have to compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from textwrap import shorten
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import (
    CommonSubexpressionEliminationPass,
    LiftConstantsToInitializersPass,
    LiftSubgraphInitializersToMainGraphPass,
    NameFixPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
    ShapeInferencePass,
)

from edgekit.execution.equivalence import Equivalence
from edgekit.execution.executed_constants import execute_constants
from edgekit.execution.reference import NotRunnableError
from edgekit.execution.tree_tables import tabulate_trees
from edgekit.files.disk_space import is_out_of_space
from edgekit.graph.folding import ELEMENTS, FoldingBudget, growth_allowed
from edgekit.graph.loops.collected_sequences import collect_sequences
from edgekit.graph.loops.invariants import capture_constant_states
from edgekit.graph.loops.recurrences import recognize_recurrences
from edgekit.graph.loops.repeated_rows import repeat_rows_at_once
from edgekit.graph.loops.scans import compute_iterations_at_once
from edgekit.graph.loops.trip_counts import set_trip_counts
from edgekit.graph.loops.unread import drop_unread_states
from edgekit.graph.simplification.arc_edges import keep_arcs_finite
from edgekit.graph.simplification.cleanup import remove_identities, store_once
from edgekit.graph.simplification.flattened_softmax import compute_softmax_in_place
from edgekit.graph.simplification.known_optionals import unwrap_known_optionals
from edgekit.graph.simplification.picked_columns import reduce_columns_at_once
from edgekit.graph.simplification.size_arithmetic import widen_sizes
from edgekit.graph.simplification.written_softmax import compute_softmax_at_once
from edgekit.graph.sizes.shapes import fold_constants, infer_shapes
from edgekit.model import Model, name_nodes
from edgekit.stages import Stage, StageResult

LONGEST_REASON = 300
"""Most characters of the reason why a pass is dropped: libraries may print the whole value that they failed on."""
Rewrite = Callable[[ir.Model], object]
"""Changes a graph in place; returns False if it changed nothing."""


class Simplify(Stage[Model]):
    """Runs the passes of onnx_ir and onnxscript over the graph, one by one.

    After each pass, the nodes that it changed are executed and compared with those before. A pass that raises, or that
    changes a value, is dropped with a warning; if the pass has parts, only the part at fault is dropped. Finally the
    whole result is compared on the battery of :class:`~edgekit.execution.equivalence.Equivalence`. If it differs there,
    the passes are run again, and the whole model is compared after each. Inputs and outputs stay what they were.
    """

    name = "simplify"

    def run(self, given: Model) -> StageResult:
        """Simplifies the graph; leaves it as it is if ONNX Runtime cannot execute it, since nothing could be proven."""
        try:
            before = Equivalence(given)
        except NotRunnableError as error:
            warning = f"not simplified, because outputs could not be compared: {error}"
            return StageResult(given, _record(given, given, [], [warning]))
        model, passes = _simplified(given, before, thorough=False)
        if model is not given and before.difference_of_whole(model) is not None:
            model, passes = _simplified(given, before, thorough=True)
        warnings = [
            f"the pass {entry['name']!r} was dropped: {entry['dropped']}" for entry in passes if entry["dropped"]
        ]
        return StageResult(model, _record(given, model, passes, warnings))

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks what the class promises."""
        for what, before, after in (
            ("inputs", given.inputs, result.model.inputs),
            ("outputs", given.outputs, result.model.outputs),
        ):
            if [(spec.name, spec.dtype) for spec in before] != [(spec.name, spec.dtype) for spec in after]:
                raise self.broken(f"the {what} have changed")


def _simplified(given: Model, before: Equivalence, *, thorough: bool) -> tuple[Model, list[dict[str, Any]]]:
    """The model after all passes that do not change what it computes, and the record of each pass."""
    model, record = given, []
    clone: ir.Model | None = None
    for name, rewrite in _PASSES.items():
        tried = {name: rewrite}
        outcome = _attempt(rewrite, model, before, clone, thorough=thorough)
        if outcome.dropped_because is not None and (parts := _parts(name)):
            tried = {f"{name}: {part}": alone for part, alone in parts.items()}
        for tried_name, alone in tried.items():
            if alone is not rewrite:
                outcome = _attempt(alone, model, before, thorough=thorough)
            model, clone = outcome.model, outcome.clone
            record.append({"name": tried_name, "nodes": model.node_count, "dropped": outcome.dropped_because})
    return model, record


def _record(given: Model, model: Model, passes: list[dict[str, Any]], warnings: list[str]) -> dict[str, Any]:
    return {
        "nodes_before": given.node_count,
        "passes": passes,
        "warnings": warnings,
        "nodes_after": model.node_count,
    }


@dataclass(frozen=True)
class _Outcome:
    """The model after a pass; the model before it if the pass was dropped."""

    model: Model
    dropped_because: str | None = None
    clone: ir.Model | None = None
    """A clone of the model's graph, if the pass changed nothing in it: the next pass can use it."""


def _attempt(
    rewrite: Rewrite, model: Model, before: Equivalence, clone: ir.Model | None = None, *, thorough: bool
) -> _Outcome:
    graph_model = model.graph_model.clone() if clone is None else clone
    try:
        if rewrite(graph_model) is False:
            return _Outcome(model, clone=graph_model)
        NameFixPass()(graph_model)
        name_nodes(graph_model)
        changed = model.with_graph(graph_model)
        if _is_same(model, changed):
            return _Outcome(model)
        changed = infer_shapes(changed, strict=False)
    except Exception as error:  # a pass is foreign code; without it the model is as good as before
        if is_out_of_space(error):
            raise
        return _Outcome(model, f"{type(error).__name__}: {shorten(str(error), LONGEST_REASON, placeholder=' …')}")
    difference = before.difference(changed) if thorough else before.difference_since(model, changed)
    return _Outcome(changed) if difference is None else _Outcome(model, difference)


def _fold_constants(graph_model: ir.Model) -> None:
    """Folds constants; if the model would grow too much, only small ones."""
    before = _tensor_bytes(graph_model)
    unlimited: Mapping[str, int] = {}
    for limit in (unlimited, *({"output_size_limit": most} for most in ELEMENTS[:-1])):
        trial = graph_model.clone()
        _fold(trial, before, limit)
        if _tensor_bytes(trial) - before <= growth_allowed(before):
            graph_model.graph = trial.graph
            graph_model.functions.clear()
            graph_model.functions.update(trial.functions)
            return
    _fold(graph_model, before, {"output_size_limit": ELEMENTS[-1]})


def _fold(graph_model: ir.Model, weight_bytes: int, limits: Mapping[str, int]) -> None:
    fold_constants(graph_model, should_fold=FoldingBudget(weight_bytes=weight_bytes), **limits)
    RemoveUnusedNodesPass()(graph_model)


def _with_shapes_known(rewrite: Callable[[ir.Model], bool]) -> Rewrite:
    """Repeats a rewrite of loops while it changes any: the sizes of one loop's results may limit another loop."""

    def repeated(graph_model: ir.Model) -> bool:
        changed = False
        while rewrite(graph_model):
            changed = True
            ShapeInferencePass(strict_mode=False)(graph_model)
            _fold_constants(graph_model)
        return changed

    return repeated


def _lift_constants(graph_model: ir.Model) -> None:
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph_model)
    LiftSubgraphInitializersToMainGraphPass()(graph_model)


def _remove_unused(graph_model: ir.Model) -> None:
    RemoveUnusedNodesPass()(graph_model)
    RemoveUnusedOpsetsPass()(graph_model)


def _clean_up(graph_model: ir.Model) -> None:
    remove_identities(graph_model)
    _remove_unused(graph_model)


def _fuse(graph_model: ir.Model, names: Sequence[str] | None = None) -> None:
    # Imported here, since it imports onnxscript, which takes an eighth of the time that a command takes to start.
    from edgekit.graph.simplification.patterns import fuse

    fuse(graph_model, names)


_PASSES: dict[str, Rewrite] = {
    "remove what nothing uses": _remove_unused,
    "turn constant nodes into initializers": _lift_constants,
    "answer what is known of optional values": unwrap_known_optionals,
    "execute constants that the evaluator gets wrong": execute_constants,
    "fold constants": _fold_constants,
    "remove identities": remove_identities,
    "compute sizes in 64 bits": widen_sizes,
    "compute once what follows from a tree's leaf": tabulate_trees,
    "capture what loops carry along unchanged": capture_constant_states,
    "drop what loops carry along unread": drop_unread_states,
    "repeat rows at once": repeat_rows_at_once,
    "collect what loops add to sequences": _with_shapes_known(collect_sequences),
    "count the turns of loops": _with_shapes_known(set_trip_counts),
    "recognize recurrent layers in loops": _with_shapes_known(recognize_recurrences),
    "compute the turns of scans at once": compute_iterations_at_once,
    "reduce picked columns at once": reduce_columns_at_once,
    "compute softmax without flattening": compute_softmax_in_place,
    "compute softmax at once": compute_softmax_at_once,
    "keep arcs of what rounding took beyond 1 finite": keep_arcs_finite,
    "compute common subexpressions once": CommonSubexpressionEliminationPass(),
    "fuse patterns": _fuse,
    "store equal initializers once": store_once,
    "clean up": _clean_up,
}
"""The passes by their names in the record, in an order in which each helps the later ones."""


def _parts(name: str) -> Mapping[str, Rewrite]:
    """The parts of a pass that can be applied separately, by name; empty for a pass that is one piece."""
    if name != "fuse patterns":
        return {}
    from edgekit.graph.simplification.patterns import PATTERNS

    return {pattern: partial(_fuse, names=[pattern]) for pattern in PATTERNS}


def _is_same(before: Model, after: Model) -> bool:
    """Whether the graphs are the same, node for node."""
    pairs = zip(_outline(before), _outline(after), strict=False)
    return before.node_count == after.node_count and all(old == new for old, new in pairs)


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
