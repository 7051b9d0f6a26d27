"""What a witness is: a second runtime that executes what a target built, to confirm the target's own runtime.

A witness is found by entry point (group ``edgekit.witnesses``), which names a subclass of :class:`Witness`. The host
knows no witness by name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from edgekit.errors import InputError
from edgekit.target import Runner

CONTRACT_VERSION = 2


@dataclass(frozen=True)
class Parting:
    """The first operation for which two runtimes compute different values."""

    operation: str
    op_type: str
    sqnr_db: float | None
    """SQNR of the witness's values against the target's; None if the values are not floats, or the shapes differ."""

    def __str__(self) -> str:
        how = "other values" if self.sqnr_db is None else f"{self.sqnr_db:.1f} dB"
        return f"{self.op_type} {self.operation!r}, {how}"


class Witness(ABC):
    """Executes what a target built, by other code than the target's runner."""

    name: ClassVar[str]
    contract_version: ClassVar[int]
    """The value of :data:`CONTRACT_VERSION` for which the witness was written, as a literal number."""

    targets: ClassVar[frozenset[str]]
    """Names of the targets whose artifacts it can execute."""

    @abstractmethod
    def load(self, main: Path) -> Runner:
        """A runner for the artifact; if the model has states, the runner keeps them itself.

        Raises:
            edgekit.errors.EdgeKitError: The witness lacks operations of the artifact, or is not installed.
        """

    @abstractmethod
    def parting(self, main: Path, feeds: Mapping[str, np.ndarray]) -> Parting | None:
        """Where intermediate values first differ from those of the target's own runtime; None if nowhere."""


def require_executed(witness: Witness, targets: Mapping[str, str]) -> None:
    """Checks that a witness executes at least one of the requested builds.

    Args:
        witness: The witness.
        targets: The target's name for each device profile.

    Raises:
        InputError: The witness executes none of the builds.
    """
    if witness.targets.isdisjoint(targets.values()):
        raise InputError(
            "the witness executes none of these builds",
            subject=f"--witness {witness.name}",
            expected=f"a profile of target {' or '.join(sorted(witness.targets))}",
            found=", ".join(f"{profile}, of target {target}" for profile, target in targets.items()),
        )
