"""Reader of an ML Program's weight file (MIL blob storage, version 2).

Layout, little-endian, everything aligned to 64 bytes: a header (uint32 number of blobs, uint32 version); then for each
blob a metadata record (uint32 sentinel 0xDEADBEEF, uint32 element type, uint64 size in bytes, uint64 offset of the
data, uint64 padding in bits) and its data. Elements narrower than a byte are packed without gaps, lowest bit first; the
padding is the number of unused bits in the last byte.
"""

from __future__ import annotations

import functools
import math
import struct
from pathlib import Path

import numpy as np

from edgekit.errors import InputError
from edgekit.files.regular_file import open_regular
from edgekit_mlruntime.program import Array, DataType

_VERSION = 2
_MOST_BYTES = 1 << 40
_SENTINEL = 0xDEADBEEF
_HEADER = struct.Struct("<II")
_METADATA = struct.Struct("<IIQQQ")

# Blob storage numbers element types differently from the protobuf.
_BLOB_TYPES = {
    1: DataType.FLOAT16,
    2: DataType.FLOAT32,
    3: DataType.UINT8,
    4: DataType.INT8,
    5: DataType.BFLOAT16,
    6: DataType.INT16,
    7: DataType.UINT16,
    8: DataType.INT4,
    9: DataType.UINT1,
    10: DataType.UINT2,
    11: DataType.UINT4,
    12: DataType.UINT3,
    13: DataType.UINT6,
    14: DataType.INT32,
    15: DataType.UINT32,
}


@functools.lru_cache(maxsize=8)
def _map_file(path: Path, _modified_ns: int) -> Array:
    """The whole file as uint8, mapped read-only; the modification time is part of the cache's key."""
    with open_regular(path, _MOST_BYTES) as file:
        data = np.memmap(file, dtype=np.uint8, mode="r").view(np.ndarray)
    version = _HEADER.unpack_from(data.data)[1] if data.size >= _HEADER.size else None
    if version != _VERSION:
        raise InputError(
            "not a weight file that can be read",
            subject=path,
            expected=f"MIL blob storage of version {_VERSION}",
            found=f"{data.size} bytes" if version is None else f"version {version}",
        )
    return data


def pack_bits(array: Array, bits: int) -> Array:
    """Packs elements of 1, 2 or 4 bits into bytes, the first in the lowest bits, as :func:`unpack_bits` reads them."""
    levels = array.reshape(-1).astype(np.int8).view(np.uint8) & ((1 << bits) - 1)
    each = 8 // bits
    lined = np.pad(levels, (0, -len(levels) % each)).reshape(-1, each)
    shifts = (np.arange(each) * bits).astype(np.uint8)
    return np.asarray(np.bitwise_or.reduce(lined << shifts, axis=1), np.uint8)


def unpack_bits(packed: Array, bits: int, count: int, *, signed: bool) -> Array:
    """Widens elements of 1 to 7 bits, packed lowest bit first, to one byte each.

    Args:
        packed: uint8, any shape.
        bits: Width of an element.
        count: Number of elements.
        signed: Whether elements are two's complement.

    Returns:
        int8 or uint8, shape (count,).
    """
    stream = np.unpackbits(packed.reshape(-1), bitorder="little")[: count * bits].reshape(count, bits)
    values = np.packbits(stream, axis=1, bitorder="little")[:, 0]
    if not signed:
        return values
    shift = 8 - bits
    return (values << shift).view(np.int8) >> shift


def read_blob(path: Path, offset: int, dtype: DataType, shape: tuple[int, ...]) -> Array:
    """Read one tensor.

    Args:
        path: The weight file.
        offset: Position of the blob's metadata record.
        dtype: Declared element type.
        shape: Declared shape.

    Returns:
        Array of ``dtype.numpy``: a read-only view of the mapped file, or a copy for sub-byte elements.

    Raises:
        InputError: The file is missing or cut short, or has no blob of the declared type and size at ``offset``.
    """
    try:
        data = _map_file(path, path.stat().st_mtime_ns)
    except (OSError, ValueError) as error:
        raise InputError("cannot read the weight file", subject=path, found=error) from error
    if offset + _METADATA.size > data.size:
        raise InputError("weight file is cut short", subject=path, expected=f"a blob at {offset}", found=data.size)
    sentinel, blob_type, size, start, padding = _METADATA.unpack_from(data.data, offset)
    if sentinel != _SENTINEL:
        raise InputError("no blob at this offset", subject=path, expected=f"{_SENTINEL:#x} at {offset}", found=sentinel)
    count = math.prod(shape)
    stored = _BLOB_TYPES.get(blob_type)
    # Blob storage has no type for booleans: they are stored as uint8.
    matches = stored is dtype or (dtype is DataType.BOOL and stored is DataType.UINT8)
    if not matches or size * 8 - padding != count * dtype.bits or start + size > data.size:
        raise InputError(
            f"the blob at {offset} does not fit its declaration",
            subject=path,
            expected=f"{count} elements of {dtype.name}",
            found=f"{stored.name if stored else blob_type}, {size} bytes of {data.size - start}, {padding} bits unused",
        )
    raw = data[start : start + size]
    if dtype.bits < 8:
        return unpack_bits(raw, dtype.bits, count, signed=dtype is DataType.INT4).reshape(shape)
    return raw.view(dtype.numpy).reshape(shape)
