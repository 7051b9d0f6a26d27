"""What a file holds, without a file: an upload that a service got, a member of an archive."""

from __future__ import annotations

import inspect
import io
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypeGuard

from edgekit.errors import InputError
from edgekit.files.regular_file import SAMPLE_BYTES, open_regular

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Encoded:
    """The bytes of a picture's or a sound's file."""

    content: bytes = field(repr=False)

    def __str__(self) -> str:
        """What errors call it."""
        return f"the file of {len(self.content)} bytes"


def open_source(source: Path | Encoded, most: int) -> BinaryIO:
    """A file, or what one holds, open for reading.

    Args:
        source: The file, or its bytes.
        most: Bytes that it may hold.

    Raises:
        InputError: It is no regular file, too large, or cannot be read.
    """
    if isinstance(source, Path):
        return open_regular(source, most)
    if len(source.content) > most:
        raise InputError("is too large", subject=source, expected=f"{most} bytes at most", found=len(source.content))
    return io.BytesIO(source.content)


def is_content(sample: object) -> TypeGuard[bytes | BinaryIO]:
    """Whether it is what a file holds: its bytes, or what reads them."""
    return isinstance(sample, bytes | bytearray | memoryview) or hasattr(sample, "read")


def is_picture(sample: object) -> TypeGuard[Image]:
    """Whether it is a picture of Pillow's, which is not imported for that."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(sample, pillow.Image)


def encoded(sample: bytes | BinaryIO) -> Encoded:
    """What a file holds.

    Raises:
        InputError: What is read of it are no bytes.
    """
    content = sample if isinstance(sample, bytes | bytearray | memoryview) else sample.read(SAMPLE_BYTES + 1)
    if isinstance(content, bytes | bytearray | memoryview):
        return Encoded(bytes(content))
    if inspect.iscoroutine(content):  # of an upload in an asynchronous framework
        content.close()
    raise InputError(
        "read() of what was given gives no bytes",
        subject=type(sample).__name__,
        expected="bytes, or a file that is open for reading bytes",
        found=type(content).__name__,
        hint="give what it reads: `await upload.read()`",
    )
