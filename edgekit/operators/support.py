"""Summary of verdicts on single nodes: the model's share on the accelerator, its partitions, how well it fits.

A device that cannot run a node on its accelerator passes the intermediate results to another unit and back. Each
maximal part that runs on the accelerator without such a break is a partition. Every boundary costs copies and waiting,
so one slow operator in the middle of a model costs more than its own time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import onnx_ir as ir

from edgekit.graph.cost import node_macs
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, bodies, node_name
from edgekit.target import Evidence, NodeVerdict, Profile, Support


class Fit(StrEnum):
    """How well a model suits the accelerator."""

    GOOD = "good"
    """One partition that does more than 75 % of the work."""
    FAIR = "fair"
    """One partition with more than 50 % of the work, or two with more than 75 %."""
    POOR = "poor"
    """Less work than for FAIR, or more partitions: copies may well cost more than the accelerator saves."""
    UNSUPPORTED = "unsupported"
    """A node can run nowhere on the device."""
    UNKNOWN = "unknown"
    """The fit depends on nodes whose unit is unknown."""


MUCH, HALF = 0.75, 0.5
"""Bounds of the share of the work, as in ``onnxruntime.tools.mobile_helpers.usability_checker``.

The numbers of partitions in :class:`Fit` are from there, too.
"""


@dataclass(frozen=True)
class OperatorSupport:
    """The verdicts on a model's nodes, summed up. Nodes of the operator Constant compute nothing and count nowhere."""

    accelerator: str
    """The unit that the profile describes."""
    share: float | None
    """Share of the nodes known to run on the accelerator; None if no node's unit is known."""
    macs_share: float | None
    """Share of the MACs that run on the accelerator; None also if there are none, or some cannot be counted."""
    partitions: int | None
    """Number of parts that run on the accelerator without a break; None if some node's unit is unknown."""
    fit: Fit
    evidence: Evidence
    """The weakest evidence for any node's unit; ``unknown`` if no unit is known."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest; ``gate`` judges by ``accelerator_share`` and ``partitions``."""
        return {
            "accelerator": self.accelerator,
            "accelerator_share": self.share,
            "accelerator_macs_share": self.macs_share,
            "partitions": self.partitions,
            "fit": str(self.fit),
            "unit_evidence": str(self.evidence),
        }

    def __str__(self) -> str:
        if self.share is None:
            return f"{self.accelerator}: no node's unit is known; fit {self.fit}"
        parts = [f"{self.accelerator}: {self.share:.0%} of the nodes"]
        if self.macs_share is not None:
            parts.append(f"{self.macs_share:.0%} of the MACs")
        if self.partitions is not None:
            parts.append(f"{self.partitions} partition{'s' if self.partitions != 1 else ''}")
        return ", ".join(parts) + f"; fit {self.fit} (evidence: {self.evidence})"


def is_about_operator(verdict: NodeVerdict) -> bool:
    """Whether a verdict concerns the node's operator; verdicts that do not can share one row for all operators.

    Unknown support has another cause than the operator, and so has running elsewhere without a hint that would help.
    """
    if verdict.support is Support.FALLS_BACK:
        return bool(verdict.hint)
    return verdict.support is not Support.UNKNOWN


def summarize(model: Model, verdicts: Sequence[NodeVerdict], profile: Profile) -> OperatorSupport:
    """Sums up the verdicts for the profile's accelerator.

    Args:
        model: The model that was judged, whose nodes have unique names.
        verdicts: The target's verdicts, by node name. A node without one gets that of the node whose body it is in.
        profile: The device.
    """
    graph = infer_shapes(model, strict=False).graph
    by_name = {verdict.node: verdict for verdict in verdicts}
    judged = {node: v for node, v in _judged(graph, by_name, None) if (node.domain, node.op_type) != _CONSTANT}
    units = {node: _unit(verdict) for node, verdict in judged.items()}
    work = _work(units)
    on = {node for node, unit in units.items() if unit == profile.accelerator}
    unknown = {node for node, unit in units.items() if not unit}
    partitions = count_partitions(graph, on)
    nothing_known = len(unknown) == len(units)
    if any(verdict.support is Support.UNSUPPORTED for verdict in verdicts):
        fit = Fit.UNSUPPORTED
    elif not units:
        fit = Fit.UNKNOWN
    else:
        fit = _grade(partitions, _share(on, work))
        if unknown and fit is not _grade(count_partitions(graph, on | unknown), _share(on | unknown, work)):
            fit = Fit.UNKNOWN
    return OperatorSupport(
        profile.accelerator,
        None if nothing_known else len(on) / len(units),
        None if nothing_known or not any(work.values()) else _share(on, work),
        None if unknown else partitions,
        fit,
        _weakest(judged.values()),
    )


_CONSTANT = ("", "Constant")
_NOWHERE = "nowhere"


def _judged(
    graph: ir.Graph, by_name: Mapping[str, NodeVerdict], holders: NodeVerdict | None
) -> Iterator[tuple[ir.Node, NodeVerdict | None]]:
    """Every node with its verdict, those of bodies too."""
    for node in graph:
        verdict = by_name.get(node_name(node), holders)
        yield node, verdict
        for body in bodies(node):
            yield from _judged(body, by_name, verdict)


def _unit(verdict: NodeVerdict | None) -> str:
    """Returns the unit where a node runs, or an empty string if it is unknown."""
    if verdict is None:
        return ""
    # A node that runs nowhere is known not to run on the accelerator.
    return _NOWHERE if verdict.support is Support.UNSUPPORTED else verdict.unit


def _weakest(verdicts: Collection[NodeVerdict | None]) -> Evidence:
    """The weakest evidence for a unit, :class:`Evidence` naming the strongest first."""
    order = list(Evidence)
    known = [verdict.unit_evidence or verdict.evidence for verdict in verdicts if verdict is not None and verdict.unit]
    return max(known, key=order.index, default=Evidence.UNKNOWN)


def _work(nodes: Collection[ir.Node]) -> Mapping[ir.Node, int]:
    """Returns the MACs of each node, or 0 for all if one cannot be counted, so that no share is reported."""
    macs = {node: node_macs(node) for node in nodes}
    countable = None not in macs.values()
    return {node: count if countable and count is not None else 0 for node, count in macs.items()}


def _share(on: Collection[ir.Node], work: Mapping[ir.Node, int]) -> float:
    """Returns the nodes' share of the work, or their share of all nodes if there is no work to count."""
    total = sum(work.values())
    return sum(work[node] for node in on) / total if total else len(on) / max(len(work), 1)


def _grade(partitions: int, share: float) -> Fit:
    if partitions == 1 and share > MUCH:
        return Fit.GOOD
    if (partitions == 1 and share > HALF) or (partitions == 2 and share > MUCH):
        return Fit.FAIR
    return Fit.POOR


def count_partitions(graph: ir.Graph, on: Collection[ir.Node]) -> int:
    """Returns how often the accelerator is entered, for a runtime that groups nodes as far as it can.

    A part ends only when every remaining node depends on a node elsewhere that needs the part's own results; nodes of a
    part need not be connected. ONNX Runtime's partitioner does the same (``CreateSupportedPartitionNodeGroups``).
    Bodies of nodes that run elsewhere have separate partitions.

    Args:
        graph: A graph in topological order.
        on: The nodes that the accelerator runs, also those in bodies.
    """
    round_of: dict[ir.Node, int] = {}
    entered: set[int] = set()
    inner = 0
    for node in graph:
        taken = node in on
        before = (
            round_of[producer] + (producer in on and not taken)
            for value in _read_values(node)
            if value is not None and (producer := value.producer()) in round_of
        )
        round_of[node] = max(before, default=0)
        if taken:
            entered.add(round_of[node])
        else:
            inner += sum(count_partitions(body, on) for body in bodies(node))
    return len(entered) + inner


def _read_values(node: ir.Node) -> Iterator[ir.Value | None]:
    """Yields the node's inputs and the values that its bodies read, which include values of outer graphs."""
    yield from node.inputs
    for body in bodies(node):
        for inner in body.all_nodes():
            yield from inner.inputs
        yield from body.outputs
