"""Checks the operators of the model as it will be built."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.model import Model
from edgekit.operators.hints import refusal_hint
from edgekit.operators.support import summarize
from edgekit.rewrites.application import with_origins
from edgekit.rewrites.returned_types import with_unreturnable_refused
from edgekit.stages import Stage, StageResult
from edgekit.target import NodeVerdict, Profile, Support, Target


class CheckOperators(Stage[Model]):
    """Asks the target what becomes of each node, and refuses the model if there are nodes that it cannot take."""

    name: ClassVar[str] = "check operators"

    def __init__(self, target: Target, profile: Profile) -> None:
        self._target = target
        self._profile = profile

    def run(self, given: Model) -> StageResult:
        """Leaves the model as it is; the record holds the verdicts, and what they mean for the model.

        Raises:
            UnsupportedOpsError: The target cannot take some nodes.
        """
        verdicts = with_unreturnable_refused(given, self._target.check(given, self._profile))
        return self._judged(given, with_origins(given, verdicts), {})

    def _judged(self, model: Model, verdicts: Sequence[NodeVerdict], record: Mapping[str, Any]) -> StageResult:
        gaps = [
            OpGap(
                op_type=verdict.op_type,
                node=verdict.node,
                reason=verdict.detail or f"{self._profile.name} does not take it",
                hint=verdict.hint,
            )
            for verdict in verdicts
            if verdict.support is Support.UNSUPPORTED
        ]
        if gaps:
            raise UnsupportedOpsError(
                gaps,
                subject=f"{model.name} on {self._profile.name}",
                hint=refusal_hint([gap.hint for gap in gaps], model.open_dims),
            )
        support = summarize(model, verdicts, self._profile).as_record()
        judged = {"profile": self._profile.name, **support, **record, "verdicts": group_verdicts(verdicts)}
        return StageResult(model, judged)


def group_verdicts(verdicts: Iterable[NodeVerdict]) -> list[dict[str, Any]]:
    """The verdicts as plain data: nodes with the same verdict are listed together, by their names in the model."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for verdict in verdicts:
        plain = (verdict.op_type, verdict.support, verdict.evidence, verdict.unit, verdict.detail, verdict.hint)
        alike = (*map(str, plain), str(verdict.unit_evidence or verdict.evidence))
        groups.setdefault(alike, []).append(verdict.node)
    keys = ("op_type", "support", "evidence", "unit", "detail", "hint", "unit_evidence")
    return [{**dict(zip(keys, alike, strict=True)), "nodes": nodes} for alike, nodes in groups.items()]
