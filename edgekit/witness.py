"""What a witness is: a second runtime that executes what a target built, to testify beside the target's own.

A witness is found by entry point (group ``edgekit.witnesses``), which names a class with the interface of
:class:`Witness`. The host knows no witness by name.
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
    """The first operation of which two runtimes make different values."""

    operation: str
    op_type: str
    sqnr_db: float | None
    """How near the witness's values are to the target's; None where they are no floats, or the shapes differ."""

    def __str__(self) -> str:
        how = "other values" if self.sqnr_db is None else f"{self.sqnr_db:.1f} dB"
        return f"{self.op_type} {self.operation!r}, {how}"


class Witness(ABC):
    """Executes what a target built, by other code than the target's runner."""

    name: ClassVar[str]
    contract_version: ClassVar[int]
    """The version of this contract that it is written for: :data:`CONTRACT_VERSION` as its author found it."""

    targets: ClassVar[frozenset[str]]
    """Names of the targets whose artifacts it can execute."""

    @abstractmethod
    def load(self, main: Path) -> Runner:
        """Something that executes the artifact; where the model has states, one that keeps them itself.

        Raises:
            edgekit.errors.EdgeKitError: It cannot: operations that it lacks, or it is not installed.
        """

    @abstractmethod
    def parting(self, main: Path, feeds: Mapping[str, np.ndarray]) -> Parting | None:
        """Where the values inside part from those of the target's own runtime; None: nowhere."""


def require_executed(witness: Witness, targets: Mapping[str, str]) -> None:
    """Checks that a witness executes one at least of the builds that are asked for.

    Args:
        witness: The witness.
        targets: The target's name for each device profile.

    Raises:
        InputError: It executes none of them.
    """
    if witness.targets.isdisjoint(targets.values()):
        raise InputError(
            "the witness executes none of these builds",
            subject=f"--witness {witness.name}",
            expected=f"a profile of target {' or '.join(sorted(witness.targets))}",
            found=", ".join(f"{profile}, of target {target}" for profile, target in targets.items()),
        )
