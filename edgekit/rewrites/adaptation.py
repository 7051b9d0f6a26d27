"""Makes a model one that a device takes: asks the target, rewrites what it refuses, and asks again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from edgekit.model import Model
from edgekit.rewrite import Rewrite
from edgekit.rewrites.application import Rewritten, rewritten, with_origins
from edgekit.target import NodeVerdict, Profile, Support, Target


@dataclass(frozen=True)
class Adaptation:
    """A model for a device, and what becomes of its nodes there."""

    rewritten: Rewritten
    verdicts: Sequence[NodeVerdict]


def adapted(model: Model, target: Target, profile: Profile, rewrites: Sequence[Rewrite]) -> Adaptation:
    """The model with the nodes replaced that the profile's device refuses, as far as there are rewrites for them."""
    verdicts: list[NodeVerdict] = []

    def refusals(candidate: Model) -> Collection[str]:
        verdicts[:] = target.check(candidate, profile)
        return {verdict.node for verdict in verdicts if verdict.support is Support.UNSUPPORTED}

    result = rewritten(model, refusals, rewrites)
    return Adaptation(result, with_origins(result.model, verdicts, result.dropped))
