"""Non-maximum suppression that becomes a part of the built model: ``--postprocess nms``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edgekit.errors import InputError
from edgekit.suggestions import near_names

KIND = "nms"
MOST_BOXES = 1000
"""How many boxes go into suppression at most, those with the largest scores; no more can come out."""


@dataclass(frozen=True)
class Suppression:
    """Parameters of suppression. The defaults are those of torchvision's detectors (``box_nms_thresh`` …)."""

    iou: float = 0.5
    """Of two boxes of a class that overlap by more (intersection over union), the one with the larger score stays."""
    score: float = 0.05
    """Boxes with a score up to this are left out."""
    boxes: int = 100
    """How many boxes stay at most, those with the largest scores; the output has a row for each."""

    @classmethod
    def parse(cls, declared: str | Mapping[str, Any], subject: str) -> Suppression:
        """Reads ``nms``, ``nms,iou=0.45,score=0.25,boxes=300`` or an equivalent table.

        Args:
            declared: The text, or a mapping with ``kind`` and numbers.
            subject: Where the declaration is, for errors.

        Raises:
            InputError: The kind or a parameter's name is unknown, or a number is out of its range.
        """
        if not isinstance(declared, str | Mapping):
            raise InputError(
                "is not a postprocessing", subject=subject, expected=f"{KIND}, or a table of it", found=repr(declared)
            )
        values = _of_text(declared, subject) if isinstance(declared, str) else dict(declared)
        kind = values.pop("kind", None)
        if kind != KIND:
            raise InputError("unknown postprocessing", subject=subject, expected=KIND, found=kind)
        known = asdict(cls())
        for name in values:
            if name not in known:
                raise InputError(
                    f"{KIND} has no such number", subject=subject, expected=near_names(name, sorted(known)), found=name
                )
        for name in ("iou", "score"):
            if name in values:
                values[name] = _share(values[name], f"{subject} {name}")
        if "boxes" in values:
            values["boxes"] = _count(values["boxes"], f"{subject} boxes")
        return cls(**values)

    def as_record(self) -> dict[str, Any]:
        """Plain data for the manifest."""
        return {"kind": KIND, **asdict(self)}


def _of_text(text: str, subject: str) -> dict[str, Any]:
    kind, *parts = (part.strip() for part in text.split(","))
    values: dict[str, Any] = {"kind": kind}
    for part in parts:
        name, equals, value = (each.strip() for each in part.partition("="))
        if not name or not equals or name in values:
            raise InputError(
                "cannot be used", subject=subject, expected=f"{KIND},NAME=NUMBER, a name only once", found=text
            )
        values[name] = value
    return values


def _share(given: Any, subject: str) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(given, bool) or not 0 <= number < 1:
        raise InputError("is not a share", subject=subject, expected="a number from 0 to less than 1", found=given)
    return number


def _count(given: Any, subject: str) -> int:
    try:
        number = int(given)
    except (TypeError, ValueError, OverflowError):
        number = 0
    if isinstance(given, bool) or number != (given if isinstance(given, float) else number):
        number = 0
    if not 1 <= number <= MOST_BOXES:
        raise InputError(
            "is not a number of boxes", subject=subject, expected=f"a whole number from 1 to {MOST_BOXES}", found=given
        )
    return number
