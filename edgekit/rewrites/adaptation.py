"""Adapts a model to a device: asks the target, rewrites what it refuses, and asks again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import onnx_ir as ir

from edgekit.errors import EdgeKitError, InputError, InternalError, OpGap, RequirementError, UnsupportedOpsError
from edgekit.execution.soundness import model_fault, runs
from edgekit.graph.reading.ir_version import mark_loadable, newest_opset
from edgekit.graph.sizes.shapes import ContradictionError, fold_shapes, infer_shapes
from edgekit.model import Model, name_nodes, node_name
from edgekit.rewrite import Rewrite
from edgekit.rewrites.application import Rewritten, origin_of, rewritten, with_origins
from edgekit.rewrites.definition import Definition
from edgekit.rewrites.kernel_opset import in_kernels_opset
from edgekit.rewrites.opset import OLDEST_OPSET, has_older_form, lowered, upgraded
from edgekit.rewrites.randomness import random_gaps, with_random_refused
from edgekit.rewrites.returned_types import with_unreturnable_refused
from edgekit.target import NodeVerdict, Profile, Support, Target

Converted = TypeVar("Converted")
MOST_NUMBERS = 64
"""The most numbers of a constant that tells what a node does, such as the axes of a reduction; larger ones are
weights."""


@dataclass(frozen=True)
class Adaptation:
    """A model for a device, and what becomes of its nodes there."""

    rewritten: Rewritten
    verdicts: Sequence[NodeVerdict]


def adapted(model: Model, target: Target, profile: Profile, rewrites: Sequence[Rewrite]) -> Adaptation:
    """Returns the model with the nodes replaced that the profile's device refuses, as far as there are rewrites."""
    verdicts: list[NodeVerdict] = []

    def refusals(candidate: Model) -> Collection[str]:
        judged = with_random_refused(candidate, target.check(candidate, profile))
        verdicts[:] = with_unreturnable_refused(candidate, judged)
        return _refused(candidate, verdicts)

    result = rewritten(model, refusals, rewrites)
    return Adaptation(result, with_origins(result.model, verdicts, result.dropped))


class Adapter:
    """Adapts models by the rewrites that are given, and keeps the last result for each device.

    What suits a device is found by trial: the model that was tried last is mostly the one that is built.
    """

    def __init__(self, rewrites: Sequence[Rewrite]) -> None:
        self._rewrites = rewrites
        self._last: dict[str, tuple[Model, Adaptation]] = {}

    def adapted(self, model: Model, target: Target, profile: Profile) -> Adaptation:
        """Returns the model with the nodes replaced that the device refuses, as far as there are rewrites for them."""
        last = self._last.get(profile.name)
        if last is None or last[0] is not model:
            last = self._last[profile.name] = model, adapted(model, target, profile, self._rewrites)
        return last[1]


def _refused(model: Model, verdicts: Sequence[NodeVerdict]) -> Collection[str]:
    """Returns the refused nodes, and nodes that differ from a refused one in nothing that a device looks at.

    A target that refuses a node often does not look at the nodes behind it: of many equal layers it names the first
    one.
    """
    refused = {verdict.node for verdict in verdicts if verdict.support is Support.UNSUPPORTED}
    if not refused:
        return refused
    kinds = {_kind(node) for node in model.graph.all_nodes() if node_name(node) in refused}
    return refused | {node_name(node) for node in model.graph.all_nodes() if _kind(node) in kinds}


def _kind(node: ir.Node) -> Hashable:
    """Returns a node's operator, its attributes, and each input's type, sizes, and numbers if it is constant."""
    attributes = frozenset((name, str(attribute.value)) for name, attribute in node.attributes.items())
    given = tuple(
        None if value is None else (value.dtype, str(value.shape), _numbers(value.const_value)) for value in node.inputs
    )
    return node.domain, node.op_type, attributes, given


def _numbers(constant: ir.TensorProtocol | None) -> Hashable:
    """Returns the numbers of a small constant, how many a large one has, or None for other values."""
    if constant is None or constant.size > MOST_NUMBERS:
        return None if constant is None else constant.size
    return constant.numpy().tobytes()


def in_known_opset(model: Model) -> Model:
    """The model with a version of the standard operators that ONNX Runtime takes, and has kernels for if possible.

    Operators that are newer than that are replaced by their definitions in the standard.

    Raises:
        RequirementError: The version is old, and the model cannot be upgraded.
    """
    if 0 < model.opset < OLDEST_OPSET:
        return upgraded(model)
    newest = newest_opset()
    if model.opset <= newest:
        return in_kernels_opset(model)

    def newer(candidate: Model) -> set[str]:
        nodes = candidate.graph.all_nodes()
        return {node_name(node) for node in nodes if not has_older_form(node, candidate.opset, newest)}

    if newer(model):
        model = rewritten(infer_shapes(model, strict=False), newer, [Definition()]).model
    return in_kernels_opset(lowered(model, newest))


def converted(model: Model, convert: Callable[[Model], Converted], rewrites: Sequence[Rewrite]) -> Converted:
    """Returns what ``convert`` makes of the model, or of a rewritten one if it refuses some nodes.

    Raises:
        UnsupportedOpsError: It refuses nodes for which there is no rewrite; the error names nodes of the given model.
        InputError: The conversion fails because of the model (:mod:`edgekit.execution.soundness`).
    """
    try:
        return _converted(model, convert, rewrites)
    except Exception as error:  # a model that breaks the rules of ONNX makes libraries raise errors of any type
        is_explained = isinstance(error, EdgeKitError) and not isinstance(error, InternalError)
        fault = None if is_explained else _fault(model)
        if fault is None:
            raise
        raise fault from error


def _fault(model: Model) -> InputError | None:
    """Returns what is wrong with a model that could not be converted; its nodes get names, by which the error calls."""
    named = model.with_graph(model.graph_model.clone())
    mark_loadable(named.graph_model)
    name_nodes(named.graph_model)
    return model_fault(named)


def _converted(model: Model, convert: Callable[[Model], Converted], rewrites: Sequence[Rewrite]) -> Converted:
    random = random_gaps(model)
    try:
        result = convert(model)
    except UnsupportedOpsError as error:
        known = {gap.node.rpartition(" > ")[2] for gap in error.gaps}
        more = [gap for gap in random if gap.node not in known]
        refusal = UnsupportedOpsError([*error.gaps, *more], subject=error.subject, hint=error.hint) if more else error
    else:
        if not random:
            return result
        refusal = UnsupportedOpsError(random, subject=model.name)
    try:
        ready = model.with_graph(model.graph_model.clone())
        mark_loadable(ready.graph_model)
        name_nodes(ready.graph_model)
        ready = fold_shapes(infer_shapes(in_known_opset(ready), strict=False))
    except (RequirementError, ContradictionError):
        raise refusal from None
    results: list[Converted] = []
    left: list[OpGap] = []

    def refusals(candidate: Model) -> Collection[str]:
        results.clear()
        left.clear()
        drawn = random_gaps(candidate)
        if drawn:
            return {gap.node for gap in drawn}
        try:
            results.append(convert(candidate))
        except UnsupportedOpsError as error:
            left[:] = error.gaps
            return {gap.node for gap in error.gaps}
        return ()

    try:
        outcome = rewritten(ready, refusals, rewrites)
    except EdgeKitError:
        raise
    except Exception as error:  # a rewrite may fail in any way on shapes that no runtime takes
        if runs(ready):
            raise
        raise refusal from error
    if results:
        return results[0]
    gaps = [_explained(gap, outcome, left) for gap in refusal.gaps if not _is_mended(gap, outcome, left)]
    raise UnsupportedOpsError(
        [*gaps, *_found_later(refusal, outcome, left)], subject=refusal.subject, hint=refusal.hint
    )


def _is_mended(gap: OpGap, outcome: Rewritten, left: Sequence[OpGap]) -> bool:
    """Whether a node was replaced by nodes of which none is refused, while other nodes of the model still are."""
    refused = {rest.node for rest in left}
    made = _made_of(gap.node, outcome.model)
    if not left or gap.node in refused:  # what is made of a node may fold to a constant of its name
        return False
    return any(each.node == gap.node for each in outcome.applied) and not made & refused


def _made_of(name: str, model: Model) -> set[str]:
    """Returns the nodes that rewrites made of a node, and those made of the latter."""
    made = (node for node in model.graph.all_nodes() if origin_of(node) is not None)
    return {node_name(node) for node in made if origin_of(node) == name or node_name(node).startswith(f"{name}/")}


def _found_later(refusal: UnsupportedOpsError, outcome: Rewritten, left: Sequence[OpGap]) -> list[OpGap]:
    """Returns gaps of the model's own nodes that were not looked at while other refused nodes were in the way."""
    known = {gap.node for gap in refusal.gaps}
    origins = {node_name(node): origin_of(node) for node in outcome.model.graph.all_nodes()}
    return [gap for gap in left if gap.node not in known and origins.get(gap.node, "") is None]


def _explained(gap: OpGap, outcome: Rewritten, left: Sequence[OpGap]) -> OpGap:
    """Returns the gap with the reason why rewriting its node did not help."""
    if gap.node in outcome.dropped:
        return replace(gap, reason=f"{gap.reason}; {outcome.dropped[gap.node]}")
    made = _made_of(gap.node, outcome.model)
    reasons = dict.fromkeys(f"the rewrite needs {rest.op_type}: {rest.reason}" for rest in left if rest.node in made)
    return replace(gap, reason="; ".join((gap.reason, *reasons)), hint="" if reasons else gap.hint)
