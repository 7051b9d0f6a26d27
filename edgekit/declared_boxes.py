"""What a user says of a detector's outputs: the table ``[outputs]`` of ``edgekit.toml``."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from edgekit.errors import InputError
from edgekit.suggestions import near_names

Coordinates = Literal["corners", "centre_and_size"]
Unit = Literal["pixel", "share"]
Order = Literal["xy", "yx"]


@dataclass(frozen=True)
class DeclaredBoxes:
    """How boxes are read from outputs; what is None is recognised by shapes and values."""

    boxes: tuple[str, ...] | None = None
    """The outputs that tell of boxes; none of them: outputs are judged as numbers."""
    coordinates: Coordinates | None = None
    unit: Unit | None = None
    order: Order | None = None

    @classmethod
    def parse(cls, table: Mapping[str, Any], subject: object) -> DeclaredBoxes:
        """The declaration that a valid table holds.

        Raises:
            InputError: It says that there are no boxes, and how they are read. ``subject`` is where it stands.
        """
        values = dict(table)
        boxes = values.pop("boxes", None)
        if boxes is False and values:
            raise InputError(
                "says how boxes are read, and that there are none",
                subject=subject,
                expected="boxes = false alone",
                found=", ".join(sorted(values)),
            )
        names = None if boxes is None else () if boxes is False else (boxes,) if isinstance(boxes, str) else boxes
        return cls(None if names is None else tuple(names), **values)

    def as_record(self) -> dict[str, Any]:
        """The table."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        if self.boxes is not None:
            values["boxes"] = list(self.boxes) or False
        return values

    @property
    def are_none(self) -> bool:
        """Whether outputs tell of no boxes."""
        return self.boxes == ()

    def require(self, outputs: Collection[str]) -> None:
        """Checks that a model has the outputs.

        Raises:
            InputError: It lacks one.
        """
        for name in self.boxes or ():
            if name not in outputs:
                raise InputError(
                    "the model has no such output",
                    subject="[outputs] boxes",
                    expected=near_names(name, outputs),
                    found=name,
                    hint="`edgekit inspect MODEL` lists the outputs",
                )
