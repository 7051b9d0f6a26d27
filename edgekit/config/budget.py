"""What a bundle may cost and must reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edgekit.config.values import DROP, no_share, parse_bytes, parse_fraction, parse_loss
from edgekit.errors import InputError

_LEAST_MEMORY = 10_000
"""Least plausible memory of a process in bytes; a smaller number was meant as megabytes."""
_GROWTH = "would allow {:.0%} more"
_LOSSES = {"accuracy_drop": DROP, "accuracy_fall": DROP, "size_growth": _GROWTH, "latency_growth": _GROWTH}
"""The budgets of what may be lost, each with the message for a surprisingly large share."""


@dataclass(frozen=True)
class Budget:
    """What a bundle may cost and must reach; None for a figure that has no limit."""

    size: int | None = None
    """Most bytes."""
    accuracy: float | None = None
    """Least share of labels found."""
    accuracy_drop: float | None = None
    """Most that the share of labels found may be below the float model's, absolute."""
    sqnr_db: float | None = None
    """Least SQNR of the worst output."""
    latency_ratio: float | None = None
    """Most time, as a multiple of the float model's."""
    latency_ms: float | None = None
    """Most milliseconds of a run on the device."""
    first_run_ms: float | None = None
    """Most milliseconds of the first run after loading."""
    load_ms: float | None = None
    """Most milliseconds from the model's file to a session that is ready."""
    memory: int | None = None
    """Most bytes of memory of the process that executes the model on the device."""
    download: int | None = None
    """Most bytes of what the device loads, compressed like an app's download."""
    accelerator_share: float | None = None
    """Least share of the nodes that the device's accelerator runs."""
    partitions: int | None = None
    """Most partitions that the model is split into on the device."""
    size_growth: float | None = None
    """Most growth of the size over the baseline, relative."""
    accuracy_fall: float | None = None
    """Most that the accuracy may be below the baseline's, absolute."""
    latency_growth: float | None = None
    """Most growth of the latency over the earlier bundle, relative."""
    agreement_db: float | None = None
    """Least SQNR in dB against the golden outputs of the earlier bundle."""

    @classmethod
    def parse(cls, table: Mapping[str, Any], subject: object) -> Budget:
        """The budget that a valid table holds.

        Raises:
            InputError: A share of what may be lost was surely meant as a percentage, or a number of bytes as one of
                megabytes. The error's subject is ``subject`` with the key.
        """
        readers: dict[str, Callable[[Any], Any]] = {
            "size": parse_bytes,
            "accuracy": parse_fraction,
            "sqnr_db": float,
            "agreement_db": float,
            "latency_ratio": float,
            **dict.fromkeys(("latency_ms", "first_run_ms", "load_ms"), float),
            **dict.fromkeys(("memory", "download"), parse_bytes),
            "accelerator_share": parse_fraction,
            "partitions": int,
        }
        read: dict[str, Any] = {key: readers[key](value) for key, value in table.items() if key in readers}
        if "memory" in read and read["memory"] < _LEAST_MEMORY:
            raise InputError(
                "is less than any process takes",
                subject=f"{subject} memory",
                expected='bytes, or a text such as "80 MB"',
                found=table["memory"],
            )
        for key, would_allow in _LOSSES.items():
            if key in table:
                read[key] = parse_loss(table[key], f"{subject} {key}", would_allow)
        return cls(**read)

    def over(self, other: Budget) -> Budget:
        """This budget, with the other's limits for figures that this one does not limit."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return Budget(**{key: getattr(other, key) if value is None else value for key, value in mine.items()})


def check_shares(budgets: Iterable[object], path: Path) -> None:
    """Raises an error with a better hint than the schema's for ``accuracy = 98``: how a percentage is written.

    Args:
        budgets: Tables that are not checked yet; a value that is no table is left to the schema.
        path: The project file.

    Raises:
        InputError: A share in a budget is a number above 1.
    """
    for budget in budgets:
        for key, value in budget.items() if isinstance(budget, dict) else ():
            if key in (*_LOSSES, "accuracy", "accelerator_share") and isinstance(value, int | float) and value > 1:
                raise no_share(value, f"{path} budget.{key}", f'{value:g}% is written "{value:g}%"')
