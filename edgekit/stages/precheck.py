"""Checks the operators of the float model, so that missing operators show before the long work and not after it."""

from __future__ import annotations

from typing import ClassVar

from edgekit.model import Model
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages import StageResult
from edgekit.stages.check import CheckOperators
from edgekit.target import Profile, Target


class PreCheck(CheckOperators):
    """The check of the operators, before quantization adds operators of its own.

    A node that the target refuses is replaced by nodes that it takes, if a rewrite gives some.
    """

    name: ClassVar[str] = "pre-check"

    def __init__(self, target: Target, profile: Profile, adapter: Adapter) -> None:
        super().__init__(target, profile)
        self._adapter = adapter

    def run(self, given: Model) -> StageResult:
        """The model as the target takes it; the record names the rewrites that were applied.

        Raises:
            UnsupportedOpsError: The target cannot take some nodes.
        """
        adaptation = self._adapter.adapted(given, self._target, self._profile)
        rewritten = adaptation.rewritten
        record = {**rewritten.as_record(), "warnings": rewritten.warnings}
        return self._judged(rewritten.model, adaptation.verdicts, record)
