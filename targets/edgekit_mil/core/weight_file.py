"""Writer of an ML Program's weight file (MIL blob storage, version 2), for machines without coremltools' own.

coremltools writes this file with a native library that only its wheels for macOS and for Linux on x86-64 contain; pip
builds coremltools from source on other machines, without the library.
"""

from __future__ import annotations

import struct
from functools import partialmethod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_ALIGNMENT = 64
_HEADER = struct.Struct("<II56x")
_METADATA = struct.Struct("<IIQQQ32x")
_SENTINEL = 0xDEADBEEF
_VERSION = 2


class WeightFile:
    """Has the methods of coremltools' ``_BlobStorageWriter``, and writes the same bytes.

    Little-endian, everything aligned to 64 bytes: a header (uint32 number of blobs, uint32 version); then for each blob
    a record (uint32 sentinel, uint32 element type, uint64 size in bytes, uint64 offset of the data, uint64 padding in
    bits) and its data. Elements narrower than a byte are packed without gaps, lowest bit first; the padding says how
    many bits of the last byte are unused.

    Args:
        path: The file; an existing file is replaced.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._blobs = 0
        self._path.write_bytes(_HEADER.pack(0, _VERSION))

    def _write(self, kind: int, bits: int, array: NDArray[Any]) -> int:
        """Append a blob of elements of type number ``kind``, ``bits`` wide each; returns the offset of its record."""
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(-1)
        data = little.view(np.uint8) if bits % 8 == 0 else _packed(little, bits)
        self._blobs += 1
        with self._path.open("r+b") as file:
            file.write(_HEADER.pack(self._blobs, _VERSION))
            end = file.seek(0, 2)
            record = end + -end % _ALIGNMENT
            file.write(bytes(record - end))
            start = record + _METADATA.size
            file.write(_METADATA.pack(_SENTINEL, kind, data.nbytes, start, data.nbytes * 8 - little.size * bits))
            file.write(data.data)
        return record

    write_fp16_data = partialmethod(_write, 1, 16)
    write_float_data = partialmethod(_write, 2, 32)
    write_uint8_data = partialmethod(_write, 3, 8)
    write_int8_data = partialmethod(_write, 4, 8)
    write_int16_data = partialmethod(_write, 6, 16)
    write_uint16_data = partialmethod(_write, 7, 16)
    write_int4_data = partialmethod(_write, 8, 4)
    write_uint1_data = partialmethod(_write, 9, 1)
    write_uint2_data = partialmethod(_write, 10, 2)
    write_uint4_data = partialmethod(_write, 11, 4)
    write_uint3_data = partialmethod(_write, 12, 3)
    write_uint6_data = partialmethod(_write, 13, 6)
    write_int32_data = partialmethod(_write, 14, 32)
    write_uint32_data = partialmethod(_write, 15, 32)


def _packed(array: NDArray[Any], bits: int) -> NDArray[np.uint8]:
    """Returns the lowest ``bits`` bits of each one-byte element, packed without gaps."""
    each = np.unpackbits(array.view(np.uint8).reshape(-1, 1), axis=1, bitorder="little")[:, :bits]
    return np.packbits(each, bitorder="little")
