"""Checks the operators of the float model, so that gaps show before the long work and not after it."""

from __future__ import annotations

from typing import ClassVar

from edgekit.model import Model
from edgekit.registry import installed_rewrites
from edgekit.rewrites.adaptation import adapted
from edgekit.stages import StageResult
from edgekit.stages.check import CheckOperators


class PreCheck(CheckOperators):
    """The check of the operators, before quantization adds its own.

    A node that the target refuses is replaced by others where a rewrite gives some that it takes.
    """

    name: ClassVar[str] = "pre-check"

    def run(self, given: Model) -> StageResult:
        """The model as the target takes it; the record names the rewrites that were applied.

        Raises:
            UnsupportedOpsError: The target cannot take some nodes.
        """
        adaptation = adapted(given, self._target, self._profile, installed_rewrites())
        rewritten = adaptation.rewritten
        record = {**rewritten.as_record(), "warnings": rewritten.warnings}
        return self._judged(rewritten.model, adaptation.verdicts, record)
