"""What the verdicts on single nodes mean for a model: its share on the accelerator, its partitions, how well it fits.

A device that cannot run a node on its accelerator hands the intermediate results to another unit and takes them back.
Each maximal part that runs on the accelerator without such a break is a partition; every border costs copies and
waiting, so that one slow operator amid a model costs more than its own time.
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
    """Less than that, or more partitions: copies may well cost more than the accelerator saves."""
    UNSUPPORTED = "unsupported"
    """A node can run nowhere on the device."""
    UNKNOWN = "unknown"
    """The nodes of which no unit is known decide."""


MUCH, HALF = 0.75, 0.5
"""The bounds, and the numbers of partitions, that ``onnxruntime.tools.mobile_helpers.usability_checker`` judges by."""


@dataclass(frozen=True)
class OperatorSupport:
    """The verdicts on a model's nodes, summed up. Nodes of the operator Constant compute nothing and count nowhere."""

    accelerator: str
    """The unit that the profile is about."""
    share: float | None
    """Share of the nodes that are known to run on it; None where no node's unit is known."""
    macs_share: float | None
    """Share of the MACs that run on it; None also where there are none, or some cannot be counted."""
    partitions: int | None
    """Number of parts that run on it without a break; None where the unit of some node is not known."""
    fit: Fit
    evidence: Evidence
    """The weakest by which a unit is known; ``unknown`` where none is."""

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
    """Whether a verdict has to do with what the node computes; else nodes of every operator may share a row.

    What is unknown has another cause, and so has what runs elsewhere without anything that would help.
    """
    if verdict.support is Support.FALLS_BACK:
        return bool(verdict.hint)
    return verdict.support is not Support.UNKNOWN


def summarize(model: Model, verdicts: Sequence[NodeVerdict], profile: Profile) -> OperatorSupport:
    """The verdicts, summed up for the profile's accelerator.

    Args:
        model: The model that was judged, whose nodes have names of their own.
        verdicts: The target's, by those names. A node without one shares the fate of the node that holds it.
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
    """Where a node runs; empty where that is not known."""
    if verdict is None:
        return ""
    # What runs nowhere does not run on the accelerator: that much is known of it.
    return _NOWHERE if verdict.support is Support.UNSUPPORTED else verdict.unit


def _weakest(verdicts: Collection[NodeVerdict | None]) -> Evidence:
    """The weakest evidence for a unit, :class:`Evidence` naming the strongest first."""
    order = list(Evidence)
    known = [verdict.unit_evidence or verdict.evidence for verdict in verdicts if verdict is not None and verdict.unit]
    return max(known, key=order.index, default=Evidence.UNKNOWN)


def _work(nodes: Collection[ir.Node]) -> Mapping[ir.Node, int]:
    """The MACs of each node; 0 for all where some node's cannot be counted, so that no share of them is told."""
    macs = {node: node_macs(node) for node in nodes}
    countable = None not in macs.values()
    return {node: count if countable and count is not None else 0 for node, count in macs.items()}


def _share(on: Collection[ir.Node], work: Mapping[ir.Node, int]) -> float:
    """The share of the work that nodes do; of the nodes where there is no work to count."""
    total = sum(work.values())
    return sum(work[node] for node in on) / total if total else len(on) / max(len(work), 1)


def _grade(partitions: int, share: float) -> Fit:
    if partitions == 1 and share > MUCH:
        return Fit.GOOD
    if (partitions == 1 and share > HALF) or (partitions == 2 and share > MUCH):
        return Fit.FAIR
    return Fit.POOR


def count_partitions(graph: ir.Graph, on: Collection[ir.Node]) -> int:
    """How many times the accelerator has to be entered, for nodes that a runtime puts together as far as it can.

    A part is closed only when everything that is left waits for a node elsewhere that needs the part's own results;
    parts need not hang together inside. This is what ONNX Runtime's partitioner does
    (``CreateSupportedPartitionNodeGroups``). Bodies of nodes that run elsewhere have partitions of their own.

    Args:
        graph: A graph in topological order.
        on: The nodes that the accelerator takes, those of bodies too.
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
    """The node's inputs, and what its bodies read: values of the graphs around them among it."""
    yield from node.inputs
    for body in bodies(node):
        for inner in body.all_nodes():
            yield from inner.inputs
        yield from body.outputs
