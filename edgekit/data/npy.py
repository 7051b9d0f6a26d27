"""NumPy's ``.npy`` files, whose headers are checked against the length of the data before memory is allocated."""

from __future__ import annotations

import math
from pathlib import Path
from threading import RLock
from typing import BinaryIO

import numpy as np

from edgekit.errors import InputError
from edgekit.files.regular_file import SAMPLE_BYTES, open_regular

Header = tuple[tuple[int, ...], np.dtype]

HEADER_LOCK = RLock()
"""Held while NumPy reads headers. It does so with ``ast.literal_eval``, which fails now and then ("recursion depth
mismatch") if another thread enters it meanwhile: they count the depth together (Python 3.11)."""


def read_header(stream: BinaryIO, size: int) -> Header:
    """Shape and element type of an array.

    Args:
        stream: Where the array begins; it is read up to its first number.
        size: Bytes of the header and the numbers together, as the file system or the archive reports.

    Raises:
        ValueError: It is no array, or has another size than its header says.
    """
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with HEADER_LOCK:
        shape, _, dtype = read(stream)
    if dtype.hasobject:
        return shape, dtype  # its length is not known, and it is never read
    if any(not isinstance(dim, int) or dim < 0 for dim in shape):
        raise ValueError(f"its header says that its shape is {shape}")
    length = math.prod(shape) * dtype.itemsize
    if stream.tell() + length != size:
        raise ValueError(f"its header says that {length} bytes follow, and there are {size - stream.tell()}")
    return shape, dtype


def in_native_order(array: np.ndarray) -> np.ndarray:
    """The array with its numbers in this machine's byte order, the only one that runtimes read."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def read_npy(path: Path, most: int = SAMPLE_BYTES) -> np.ndarray:
    """The array of a ``.npy`` file.

    Raises:
        InputError: The file is damaged, too large, or no regular file.
    """
    with open_regular(path, most) as stream:
        try:
            read_header(stream, path.stat().st_size)
            stream.seek(0)
            with HEADER_LOCK:
                array = np.load(stream, allow_pickle=False)
            return in_native_order(np.asarray(array))
        except Exception as error:  # NumPy reads the header with Python's own parser, which raises many kinds
            raise InputError(f"the array cannot be read: {error}", subject=path) from error
