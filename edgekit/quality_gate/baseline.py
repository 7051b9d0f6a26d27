"""The baseline file: figures of an earlier build that later ones are judged against, in the project's repository."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edgekit.atomic import atomic_file
from edgekit.bundle import Bundle
from edgekit.errors import InputError
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.measuring import Ratio
from edgekit.schema import find_flaw

BASELINE_VERSION = 2
SCHEMA_FILE = "baseline.schema.json"


@dataclass(frozen=True)
class MachineRatio:
    """How many times as long a bundle took as the float model, on one kind of machine."""

    machine: Machine
    ratio: float
    lower: float
    upper: float
    """It surely lies between the two."""


@dataclass(frozen=True)
class Figures:
    """What a bundle was when the baseline was written."""

    fingerprint: str
    """Of the bundle; ratios of another one do not count for it."""
    size: int
    accuracy: float | None
    """Share of labels found; None without labels."""
    latency: tuple[MachineRatio, ...] = ()
    """One a kind of machine."""

    @classmethod
    def of(cls, bundle: Bundle) -> Figures:
        """The figures in a bundle's manifest; its latency is measured elsewhere."""
        task = bundle.manifest["accuracy"]["task"]
        return cls(
            bundle.manifest["fingerprint"],
            bundle.manifest["size"]["bytes"],
            None if task is None else task["built"],
        )

    def on(self, machine: Machine) -> MachineRatio | None:
        """The ratio on that kind of machine; None where it was not measured."""
        return next((known for known in self.latency if known.machine == machine), None)

    def with_ratio(self, machine: Machine, ratio: Ratio | None, before: Figures | None) -> Figures:
        """These figures with a ratio of this machine, and with what was measured for the same bundle before."""
        same = before.latency if before is not None and before.fingerprint == self.fingerprint else ()
        latency = {known.machine: known for known in same}
        if ratio is not None:
            latency[machine] = MachineRatio(machine, ratio.median, ratio.lower, ratio.upper)
        return replace(self, latency=tuple(latency.values()))


def read_baseline(path: Path) -> dict[str, Figures]:
    """The figures that :func:`write_baseline` left, by the bundle's name.

    Raises:
        InputError: The file is missing or is no baseline.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "there is no baseline", subject=path, hint=f"`edgekit gate --baseline {path} --update` writes one"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", subject=path) from error
    flaw = find_flaw(document, SCHEMA_FILE)
    if flaw is not None:
        raise InputError(
            "is no baseline",
            subject=path,
            expected=f"what schema version {BASELINE_VERSION} describes",
            found=flaw,
            hint="if another version of EdgeKit wrote it, remove it and write it anew with --update",
        )
    return {name: _figures(record) for name, record in document["bundles"].items()}


def write_baseline(path: Path, figures: Mapping[str, Figures]) -> None:
    """Puts figures into a baseline file, by the bundle's name; those of other bundles stay.

    Raises:
        InputError: The file is there and is no baseline, or cannot be written.
    """
    bundles = {**(read_baseline(path) if path.exists() else {}), **figures}
    document = {
        "schema_version": BASELINE_VERSION,
        "bundles": {name: asdict(bundles[name]) for name in sorted(bundles)},
    }
    with atomic_file(path) as place:
        place.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _figures(record: Mapping[str, Any]) -> Figures:
    latency = tuple(
        MachineRatio(**{**measured, "machine": Machine(**measured["machine"])}) for measured in record["latency"]
    )
    return Figures(**{**record, "latency": latency})
