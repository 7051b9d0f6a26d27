"""What a user says of a model's outputs: the table ``[outputs]`` of ``edgekit.toml``."""

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
class DeclaredOutputs:
    """The meaning of outputs; fields that are None are determined from the graph, from shapes and from values."""

    boxes: tuple[str, ...] | None = None
    """The outputs with boxes; empty if there are none."""
    coordinates: Coordinates | None = None
    unit: Unit | None = None
    order: Order | None = None
    embeddings: tuple[str, ...] | None = None
    """The outputs that are embeddings; empty: none are."""
    classes: str | None = None
    """The output that tells the class."""

    @classmethod
    def parse(cls, table: Mapping[str, Any], subject: object) -> DeclaredOutputs:
        """Returns the declaration in a valid table.

        Raises:
            InputError: The table says that there are no boxes, and how to read them; or that some outputs are boxes and
                others embeddings. The error names ``subject`` as the table's place.
        """
        values = dict(table)
        classes = values.pop("classes", None)
        boxes, embeddings = (_names(values.pop(key, None)) for key in ("boxes", "embeddings"))
        if boxes == () and values:
            raise InputError(
                "says how boxes are read, and that there are none",
                subject=subject,
                expected="boxes = false alone",
                found=", ".join(sorted(values)),
            )
        if embeddings and (boxes or values):
            raise InputError(
                "says that outputs are boxes, and that some are embeddings",
                subject=subject,
                expected="boxes or embeddings: a model is judged by one of them",
                found=", ".join(["embeddings", *(["boxes"] if boxes else []), *sorted(values)]),
                hint="name what the model is used for; other outputs are judged as numbers",
            )
        return cls(boxes, **values, embeddings=embeddings, classes=classes)

    def as_record(self) -> dict[str, Any]:
        """Returns the declaration as a table."""
        values = {key: value for key, value in asdict(self).items() if value is not None}
        for key in ("boxes", "embeddings"):
            if key in values:
                values[key] = list(values[key]) or False
        return values

    @property
    def are_none(self) -> bool:
        """Whether the declaration says that no output has boxes."""
        return self.boxes == ()

    def require(self, outputs: Collection[str]) -> None:
        """Checks that a model has the declared outputs.

        Raises:
            InputError: The model lacks one of them.
        """
        for key, names in (
            ("boxes", self.boxes),
            ("embeddings", self.embeddings),
            ("classes", () if self.classes is None else (self.classes,)),
        ):
            for name in names or ():
                if name not in outputs:
                    raise InputError(
                        "the model has no such output",
                        subject=f"[outputs] {key}",
                        expected=near_names(name, outputs),
                        found=name,
                        hint="`edgekit inspect MODEL` lists the outputs",
                    )


def _names(declared: Any) -> tuple[str, ...] | None:
    """The outputs that a key names; None where it is absent, empty where it is false."""
    if declared is None:
        return None
    return () if declared is False else (declared,) if isinstance(declared, str) else tuple(declared)
