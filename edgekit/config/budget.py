"""What a bundle may cost and must reach."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from edgekit.config.values import DROP, no_share, parse_bytes, parse_fraction, parse_loss
from edgekit.errors import InputError

_LEAST_MEMORY = 10_000
"""A process has more than a page or two; fewer bytes were meant as megabytes."""
_GROWTH = "would allow {:.0%} more"
_LOSSES = {"accuracy_drop": DROP, "accuracy_fall": DROP, "size_growth": _GROWTH, "latency_growth": _GROWTH}
"""The budgets that say what may be lost, and what a surprisingly great share would allow."""


@dataclass(frozen=True)
class Budget:
    """What a bundle may cost and must reach; None where nothing is asked."""

    size: int | None = None
    """Most bytes."""
    accuracy: float | None = None
    """Least share of labels found."""
    accuracy_drop: float | None = None
    """Most that may be lost of it to the float model, absolute."""
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
    """Most bytes of the process that executes it on the device."""
    download: int | None = None
    """Most bytes of what the device loads, compressed as an app's download is."""
    accelerator_share: float | None = None
    """Least share of the nodes that the device's accelerator runs."""
    partitions: int | None = None
    """Most pieces that the model falls into on the device."""
    size_growth: float | None = None
    """Most growth of the size over the baseline, relative."""
    accuracy_fall: float | None = None
    """Most that may be lost of the accuracy to the baseline, absolute."""
    latency_growth: float | None = None
    """Most growth of the latency over the earlier bundle, relative."""
    agreement_db: float | None = None
    """Least SQNR to the golden outputs of the earlier bundle."""

    @classmethod
    def parse(cls, table: Mapping[str, Any], subject: object) -> Budget:
        """The budget that a valid table holds.

        Raises:
            InputError: A share of what may be lost was surely meant as a percentage, or a number of bytes as one of
                megabytes. ``subject`` is where it stands.
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
        """This budget, and the other's where this one asks nothing."""
        mine = {field.name: getattr(self, field.name) for field in fields(self)}
        return Budget(**{key: getattr(other, key) if value is None else value for key, value in mine.items()})


def check_shares(budgets: Iterable[object], path: Path) -> None:
    """Tells whoever wrote ``accuracy = 98`` how a percentage is written; the schema could only say what it is not.

    Args:
        budgets: Tables that are not checked yet; what is no table is left to the schema.
        path: The file that they stand in.

    Raises:
        InputError: A share in a budget is a number above 1.
    """
    for budget in budgets:
        for key, value in budget.items() if isinstance(budget, dict) else ():
            if key in (*_LOSSES, "accuracy", "accelerator_share") and isinstance(value, int | float) and value > 1:
                raise no_share(value, f"{path} budget.{key}", f'{value:g}% is written "{value:g}%"')
