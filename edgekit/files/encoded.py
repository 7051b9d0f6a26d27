"""The content of a file without a file, such as an upload to a service or a member of an archive."""

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
        """How errors name the content."""
        return f"the file of {len(self.content)} bytes"


def open_source(source: Path | Encoded, most: int) -> BinaryIO:
    """Opens a file, or the content of one, for reading.

    Args:
        source: The file, or its bytes.
        most: Most bytes that the file may hold.

    Raises:
        InputError: The file is no regular file, too large, or cannot be read.
    """
    if isinstance(source, Path):
        return open_regular(source, most)
    if len(source.content) > most:
        raise InputError("is too large", subject=source, expected=f"{most} bytes at most", found=len(source.content))
    return io.BytesIO(source.content)


def is_content(sample: object) -> TypeGuard[bytes | BinaryIO]:
    """Whether the sample is the content of a file: its bytes, or an object with ``read``."""
    return isinstance(sample, bytes | bytearray | memoryview) or hasattr(sample, "read")


def is_picture(sample: object) -> TypeGuard[Image]:
    """Whether the sample is a Pillow image; does not import Pillow."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(sample, pillow.Image)


def encoded(sample: bytes | BinaryIO) -> Encoded:
    """Wraps the content of a file.

    Raises:
        InputError: ``read`` does not return bytes.
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
