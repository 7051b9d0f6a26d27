"""Applies rewrites to the nodes that a target refuses, and keeps those that prove right."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import (
    InlinePass,
    NameFixPass,
    RemoveUnusedNodesPass,
    RemoveUnusedOpsetsPass,
    TopologicalSortPass,
)

from edgekit.graph.building import NodeBuilder
from edgekit.graph.sizes.shapes import fold_shapes, infer_shapes
from edgekit.model import Model, bodies, name_nodes, node_name, op_name
from edgekit.processes import supervision
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.definition import Definition
from edgekit.rewrites.proof import Proof
from edgekit.target import NodeVerdict, Support

ORIGIN = "edgekit.rewritten"
"""Key of a node's metadata: which node it came from, and by which rewrite."""

ROUNDS = 8
"""What a rewrite gives may itself be refused and rewritten, this many times."""

OPSET_OF_PURE_MODELS = 18
"""The version of the standard operators that a model gets if it imports none yet."""

Refusals = Callable[[Model], Collection[str]]
"""The names of the nodes that a target refuses."""


@dataclass(frozen=True)
class Application:
    """A node that was replaced."""

    rewrite: str
    node: str
    op_type: str
    """The operator, with the domain in front unless that is the standard one."""
    nodes: int
    """How many nodes replace the node."""


@dataclass(frozen=True)
class Rewritten:
    """A model after the rewrites."""

    model: Model
    applied: tuple[Application, ...] = ()
    dropped: Mapping[str, str] = field(default_factory=dict)
    """For each node, why rewrites that fitted it were not kept."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {"rewrites": [asdict(each) for each in self.applied], "rewrites_dropped": dict(self.dropped)}

    @property
    def warnings(self) -> list[str]:
        """The rewrites that were not kept, in words."""
        return [f"node {node!r}: {why}" for node, why in self.dropped.items()]


def rewritten(model: Model, refusals: Refusals, rewrites: Sequence[Rewrite]) -> Rewritten:
    """Returns the model with the nodes replaced that a target refuses, if rewrites take them and prove right.

    Args:
        model: The model; it is not changed.
        refusals: Returns the names of the nodes that the target refuses in a model.
        rewrites: The available rewrites, the first choice first.
    """
    refused = refusals(model)
    applied: list[Application] = []
    dropped: dict[str, dict[str, str]] = {}  # of the host's own rewrites only the reason of the one that came nearest
    compared: set[tuple[str, str]] = set()  # the reasons of rewrites that apply, which others do not replace
    failed: set[tuple[str, str]] = set()
    current = model
    proof: Proof | None = None
    rounds = 0
    while rounds < ROUNDS:
        plan = _plan(current, refused, rewrites, failed)
        if not plan:
            break
        proof = proof or Proof(model)
        by_rewrites = {node_name(node) for node in current.graph.all_nodes() if ORIGIN in node.metadata_props}
        made: list[Application] = []
        new = {node: rewrite for node, rewrite in plan.items() if node not in dropped}
        again = [{node: rewrite} for node, rewrite in plan.items() if node in dropped]
        for attempt in _attempts(current, [new, *again], proof):
            if isinstance(attempt, _Changed):
                current, made = attempt.model, [*made, *attempt.made]
            else:
                failed.add((attempt.node, attempt.rewrite))
                reasons = dropped.setdefault(attempt.node, {})
                key = "" if attempt.is_own else attempt.rewrite
                if attempt.was_compared or (attempt.node, key) not in compared:
                    reasons[key] = f"the rewrite {attempt.rewrite!r} was dropped: {attempt.why}"
                if attempt.was_compared:
                    compared.add((attempt.node, key))
        if made:  # what did not fit may fit now that more is known of the values around it
            failed -= {(node, rewrite) for node, rewrite in failed if node in dropped}
            applied += made
            rounds += any(each.node in by_rewrites for each in made)
        refused = refusals(current) if made or not plan else refused
    gone = {each.node for each in applied}
    return Rewritten(
        current, tuple(applied), {node: "; ".join(why.values()) for node, why in dropped.items() if node not in gone}
    )


@dataclass(frozen=True)
class _Changed:
    """A model after rewrites that held."""

    model: Model
    made: list[Application]


@dataclass(frozen=True)
class _Failed:
    """A rewrite that did not hold."""

    node: str
    rewrite: str
    why: str
    is_own: bool
    """Whether the rewrite is one of the host's own."""
    was_compared: bool
    """Whether a rewritten model was compared; a rewrite that does not apply makes none."""

    @classmethod
    def of(cls, node: str, rewrite: Rewrite, why: str, *, was_compared: bool) -> _Failed:
        """The failure of a rewrite at a node."""
        is_own = type(rewrite).__module__.partition(".")[0] == __name__.partition(".")[0]
        return cls(node, rewrite.name, why, is_own, was_compared)


def _attempts(model: Model, plans: Iterable[Mapping[str, Rewrite]], proof: Proof) -> Iterator[_Changed | _Failed]:
    """Rewrites all nodes of each plan at once; if that does not prove right, the nodes of each half of the plan.

    Each attempt is reported as progress.
    """
    waiting = deque(plan for plan in plans if plan)
    while waiting:
        plan = waiting.popleft()
        attempt = _applied(model, plan, proof)
        supervision.tell_step()
        if isinstance(attempt, _Changed):
            model = attempt.model
            yield attempt
        elif isinstance(attempt, Mapping):
            yield from (_Failed.of(node, plan[node], why, was_compared=False) for node, why in attempt.items())
            waiting.extendleft([rest] if (rest := {name: plan[name] for name in plan if name not in attempt}) else [])
        elif len(plan) == 1:
            yield from (_Failed.of(node, rewrite, attempt, was_compared=True) for node, rewrite in plan.items())
        else:
            nodes = list(plan)
            halves = nodes[: len(nodes) // 2], nodes[len(nodes) // 2 :]
            waiting.extendleft({node: plan[node] for node in half} for half in reversed(halves))


def _plan(
    model: Model, refused: Collection[str], rewrites: Sequence[Rewrite], failed: Collection[tuple[str, str]]
) -> dict[str, Rewrite]:
    """The first rewrite for each refused node, by name.

    If no rewrite is left for a refused node, all nodes in its bodies count as refused in its place.
    """

    def first_for(node: ir.Node) -> Rewrite | None:
        version = model.graph_model.opset_imports.get(node.domain, OPSET_OF_PURE_MODELS)
        left = (rewrite for rewrite in rewrites if (node_name(node), rewrite.name) not in failed)
        return next((rewrite for rewrite in left if _fits(rewrite, node, version)), None)

    return dict(_planned(model.graph, refused, first_for))


def _planned(
    nodes: Iterable[ir.Node], refused: Collection[str] | None, first_for: Callable[[ir.Node], Rewrite | None]
) -> Iterator[tuple[str, Rewrite]]:
    """Yields the names of the outermost nodes that a rewrite is left for, each with that rewrite.

    Args:
        nodes: The nodes of a graph.
        refused: The names of the refused nodes; None if all are refused.
        first_for: The first rewrite that is left for a node.
    """
    for node in nodes:
        is_refused = refused is None or node_name(node) in refused
        rewrite = first_for(node) if is_refused else None
        if rewrite is not None:
            yield node_name(node), rewrite
        else:
            for body in bodies(node):
                yield from _planned(body, None if is_refused else refused, first_for)


def _fits(rewrite: Rewrite, node: ir.Node, version: int) -> bool:
    if node.domain != rewrite.domain or (rewrite.op_types and node.op_type not in rewrite.op_types):
        return False
    return version in rewrite.versions and rewrite.matches(node)


def _applied(model: Model, plan: Mapping[str, Rewrite], proof: Proof) -> _Changed | dict[str, str] | str:
    """Returns the changed model, or by node why rewrites do not apply, or why the changed model is not right."""
    copy = model.with_graph(model.graph_model.clone())
    name_nodes(copy.graph_model)  # the passes below would give nodes without a name other names than the plan does
    if not copy.opset:
        copy.graph_model.opset_imports[""] = OPSET_OF_PURE_MODELS
    made = []
    inapplicable: dict[str, str] = {}
    gone: set[ir.Node] = set()
    for node in list(copy.graph.all_nodes()):
        name = node_name(node)
        if name in plan and node not in gone:
            gone.update(inner for body in bodies(node) for inner in body.all_nodes())
            try:
                made.append(_replace(node, plan[name], copy))
            except InapplicableError as error:
                inapplicable[name] = str(error)
    if inapplicable:
        return inapplicable
    if copy.graph_model.functions:
        InlinePass()(copy.graph_model)
    TopologicalSortPass()(copy.graph_model)
    RemoveUnusedNodesPass()(copy.graph_model)
    RemoveUnusedOpsetsPass()(copy.graph_model)
    NameFixPass()(copy.graph_model)
    name_nodes(copy.graph_model)
    changed = infer_shapes(copy, strict=False)
    if any(isinstance(plan[each.node], Definition) for each in made):  # definitions compute sizes that are known here
        changed = fold_shapes(changed)
    difference = proof.difference(model, changed, [plan[each.node] for each in made])
    return _Changed(changed, made) if difference is None else difference


def _replace(node: ir.Node, rewrite: Rewrite, model: Model) -> Application:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    name, operator = node_name(node), op_name(node)
    build = NodeBuilder(model.opset, name)
    results = list(rewrite.replacement(node, build))
    outputs: list[tuple[ir.Value, ir.Value]] = []
    for number, old in enumerate(node.outputs):
        new = results[number] if number < len(results) else None
        if new is None:
            if old.uses() or old.is_graph_output():
                raise InapplicableError(f"the output {old.name!r} is used, and the rewrite has none")
            continue
        own = new.producer()
        if own is None or own not in build.nodes or any(new is taken for _, taken in outputs):
            new = build("Identity", new)
        outputs.append((old, new))
    given = node.metadata_props.get(ORIGIN, "").partition(": ")[2] or f"{operator} {name}"
    origin = f"{rewrite.name}: {given}"
    for made in build.nodes:
        made.metadata_props[ORIGIN] = origin
    for function in build.functions:
        model.graph_model.functions[function.identifier()] = function
    for value in build.initializers:
        model.graph.register_initializer(value)
    ir.convenience.replace_nodes_and_values(
        graph, node, [node], build.nodes, [old for old, _ in outputs], [new for _, new in outputs]
    )
    return Application(rewrite.name, name, operator, len(build.nodes))


def origin_of(node: ir.Node) -> str | None:
    """Returns the name of the node that rewrites, perhaps several in turn, made this one of; None if none made it."""
    origin = node.metadata_props.get(ORIGIN)
    return None if origin is None else origin.rpartition(" ")[2]


def with_origins(
    model: Model, verdicts: Sequence[NodeVerdict], dropped: Mapping[str, str] | None = None
) -> list[NodeVerdict]:
    """Returns the verdicts with what rewrites changed about them.

    Args:
        model: The model.
        verdicts: What the target says.
        dropped: By node, why rewrites were not kept.
    """
    origins = {
        node_name(node): node.metadata_props[ORIGIN]
        for node in model.graph.all_nodes()
        if ORIGIN in node.metadata_props
    }

    def with_origin(verdict: NodeVerdict) -> NodeVerdict:
        origin = origins.get(verdict.node)
        if origin is None and verdict.support is Support.UNSUPPORTED and verdict.node in (dropped or {}):
            return replace(verdict, detail=f"{verdict.detail}; {(dropped or {})[verdict.node]}")
        if origin is None:
            return verdict
        support = Support.DECOMPOSED if verdict.support is Support.SUPPORTED else verdict.support
        detail = f"by the rewrite {origin}" if support is Support.DECOMPOSED else f"{verdict.detail}; from {origin}"
        return replace(verdict, support=support, detail=detail)

    return [with_origin(verdict) for verdict in verdicts]
