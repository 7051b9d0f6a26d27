"""The forms in which a target stores weights, and their sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from edgekit.errors import InternalError

KEY = "stored_forms"
"""The key of a target's data that lists its forms, each an object with the fields of :class:`Form`."""
TABLE_BYTES = 64
"""The average overhead of a separately stored constant, in bytes: its header and alignment."""


@dataclass(frozen=True)
class Form:
    """One way to store a weight as integers with a scale for every output channel."""

    name: str
    bits: int
    palette: bool = False
    """Whether only ``2**bits`` of the 8-bit integers occur, and indices into a table of these are stored."""
    slices: int = 0
    """How many output channels share a palette; 0 if all do."""
    block: int = 0
    """How many inputs share a scale; 0 if all inputs of an output channel do. Only matrices are stored in blocks."""

    def fits(self, shape: Sequence[int], *, is_matrix: bool) -> bool:
        """Whether a weight can be stored in this form.

        Args:
            shape: The numbers of output channels and of inputs per output channel.
            is_matrix: Whether the weight is a matrix that only one layer reads.
        """
        outputs, inputs = shape
        if self.block:
            return is_matrix and inputs % self.block == 0
        if not self.palette:
            return True
        together = self.slices or outputs
        return outputs % together == 0 and (together < outputs or not self.slices)

    def bytes(self, shape: Sequence[int], scale_bytes: int) -> float:
        """The size of a weight in this form, in bytes.

        Args:
            shape: The numbers of output channels and of inputs per output channel.
            scale_bytes: The size of a scale, or of a palette's entry, in bytes.
        """
        outputs, inputs = shape
        scales = outputs * (-(-inputs // self.block) if self.block else 1)
        size = math.ceil(outputs * inputs * self.bits / 8) + scales * scale_bytes + 2 * TABLE_BYTES
        if self.palette:
            groups = outputs // (self.slices or outputs)
            size += groups * 2**self.bits * scale_bytes + TABLE_BYTES
        return size


@dataclass(frozen=True)
class Storage:
    """The forms in which a target stores weights, from its data."""

    forms: tuple[Form, ...]
    float_bytes: int
    """The size of a number that stays float, in bytes."""
    scale_bytes: int
    """The size of a scale, or of a palette's entry, in bytes."""

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> Storage:
        """The forms of a target; 8-bit integers if its data names none.

        Raises:
            edgekit.errors.InternalError: A field is not known.
        """
        recorded = data.get(KEY, {"float_bytes": 4, "forms": [{"name": "int8", "bits": 8}]})
        known = {field.name for field in fields(Form)}
        for entry in recorded["forms"]:
            if entry.keys() - known:
                raise InternalError(
                    f"no field {min(entry.keys() - known)!r}", subject=KEY, expected=", ".join(sorted(known))
                )
        scale_bytes = recorded["float_bytes"]
        float_bytes = 2 if data.get("float_weights") == "float16" else scale_bytes
        return cls(tuple(Form(**entry) for entry in recorded["forms"]), float_bytes, scale_bytes)
