"""The messages between the browser device and its page: a JSON record, followed by arrays.

A message is the record's length (32 bits, little-endian), the record as UTF-8, and the bytes of the arrays one after
the other. ``record["arrays"]`` describes the arrays: name, ONNX element type, shape and number of bytes. Numbers are
little-endian; texts are a JSON list.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from edgekit.errors import InputError
from edgekit.model import Arrays

_LENGTH = struct.Struct("<I")
STRING = "string"
NUMBERS = (
    *("float16", "float32", "float64", "bool"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
)
"""The element types, except texts, that onnxruntime-web and NumPy both have, by the names that both use."""


@dataclass(frozen=True)
class Message:
    """A record and arrays by name."""

    record: Mapping[str, Any]
    arrays: Arrays = field(default_factory=dict)

    def encode(self) -> bytes:
        """The message as bytes.

        Raises:
            InputError: An array has an element type that onnxruntime-web lacks.
        """
        parts = [_array_bytes(name, array) for name, array in self.arrays.items()]
        described = [
            {"name": name, "type": _type_name(array), "dims": list(array.shape), "bytes": len(part)}
            for (name, array), part in zip(self.arrays.items(), parts, strict=True)
        ]
        record = json.dumps({**self.record, "arrays": described}).encode()
        return b"".join((_LENGTH.pack(len(record)), record, *parts))

    @classmethod
    def decode(cls, content: bytes) -> Message:
        """The message from its bytes, which come from the page and are complete."""
        (length,) = _LENGTH.unpack_from(content)
        offset = _LENGTH.size + length
        record = json.loads(content[_LENGTH.size : offset])
        arrays: Arrays = {}
        for described in record.pop("arrays"):
            part = content[offset : offset + described["bytes"]]
            offset += described["bytes"]
            arrays[described["name"]] = _array(part, described)
        return cls(record, arrays)


def _type_name(array: np.ndarray) -> str:
    return STRING if array.dtype.kind in "OUS" else array.dtype.name


def _array_bytes(name: str, array: np.ndarray) -> bytes:
    if _type_name(array) == STRING:
        return json.dumps([str(text) for text in array.ravel()]).encode()
    if array.dtype.name not in NUMBERS:
        raise InputError(
            "onnxruntime-web has no such element type",
            subject=f"input {name!r}",
            expected=", ".join((*NUMBERS, STRING)),
            found=array.dtype.name,
        )
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _array(content: bytes, described: Mapping[str, Any]) -> np.ndarray:
    if described["type"] == STRING:
        return np.array(json.loads(content), dtype=object).reshape(described["dims"])
    stored = np.frombuffer(content, np.dtype(described["type"]).newbyteorder("<"))
    return stored.astype(described["type"]).reshape(described["dims"])
