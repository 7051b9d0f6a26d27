"""Checks the operators of the float model, so that gaps show before the long work and not after it."""

from __future__ import annotations

from typing import ClassVar

from edgekit.stages.check import CheckOperators


class PreCheck(CheckOperators):
    """The check of the operators, before quantization adds its own."""

    name: ClassVar[str] = "pre-check"
