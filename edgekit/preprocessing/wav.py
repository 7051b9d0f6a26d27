"""Reads WAV files: PCM of 8 to 32 bits, and floating-point samples of 32 or 64 bits.

The layout is that of "Multimedia Programming Interface and Data Specifications 1.0" (IBM and Microsoft, 1991), with the
extensible format of Microsoft's "Multiple Channel Audio Data and WAVE Files" (2001). Python's own ``wave`` module reads
no floating-point samples, which recorders and audio libraries write.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgekit.errors import InputError
from edgekit.files.encoded import Encoded, open_source
from edgekit.files.regular_file import SAMPLE_BYTES

SUFFIXES = frozenset({".wav", ".wave"})
EXPECTED = "PCM samples of 8, 16, 24 or 32 bits, or floating-point samples of 32 or 64 bits"

_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
_OTHER_FORMATS = {2: "ADPCM", 6: "A-law", 7: "µ-law", 17: "ADPCM", 49: "GSM", 80: "MPEG", 85: "MP3"}
"""Names of the format numbers of compressed samples."""
_WIDTHS = {_PCM: (1, 2, 3, 4), _FLOAT: (4, 8)}
"""The numbers of bytes that a sample may have, by format."""
_SUBFORMAT_AT = 24
"""The offset of the samples' format in the extensible format."""


@dataclass(frozen=True)
class Wav:
    """A sound as stored in its file."""

    sample_rate: int
    """The sample rate in Hz."""
    channels: int
    width: int
    """Bytes of a sample."""
    is_float: bool
    data: bytes
    """Whole frames, one sample of each channel after the other."""

    @property
    def pcm(self) -> np.ndarray:
        """The samples as they are stored, shape (frames, channels), float64."""
        if self.is_float:
            values = np.frombuffer(self.data, f"<f{self.width}").astype(np.float64)
        elif self.width == 1:  # the only width that WAV stores without sign
            values = np.frombuffer(self.data, np.uint8).astype(np.float64) - 128
        elif self.width == 3:
            padded = np.zeros((len(self.data) // 3, 4), np.uint8)
            padded[:, 1:] = np.frombuffer(self.data, np.uint8).reshape(-1, 3)
            values = (padded.view("<i4").ravel() >> 8).astype(np.float64)
        else:
            values = np.frombuffer(self.data, f"<i{self.width}").astype(np.float64)
        return values.reshape(-1, self.channels)

    @property
    def waveform(self) -> np.ndarray:
        """The samples from -1 to 1, shape (frames, channels), float64."""
        return self.pcm if self.is_float else self.pcm / 2.0 ** (8 * self.width - 1)


def read_wav(file: Path | Encoded) -> Wav:
    """Returns the sound in a file; a truncated file gives the frames that it contains.

    Raises:
        InputError: The file is no WAV file, has compressed samples, or is too large.
    """
    with open_source(file, SAMPLE_BYTES) as opened:
        content = opened.read()
    try:
        return _parsed(content)
    except (ValueError, struct.error) as error:
        reason = "it ends before its samples" if isinstance(error, struct.error) else error
        raise InputError(
            f"the WAV file cannot be read: {reason}",
            subject=file,
            expected=EXPECTED,
            hint="`ffmpeg -i IN -c:a pcm_s16le OUT.wav` writes such a file",
        ) from error


def _parsed(content: bytes) -> Wav:
    """Returns the sound in a file's bytes.

    Raises:
        ValueError: The file is no WAV file, or has compressed samples.
        struct.error: The file ends too early.
    """
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError("it does not begin as a WAV file does")
    described: tuple[int, int, int, bool] | None = None
    place = 12
    while True:
        name, size = struct.unpack_from("<4sI", content, place)
        place += 8
        chunk = content[place : place + size]  # a size that was unknown when writing began exceeds the file
        if name == b"data":
            break
        if name == b"fmt ":
            described = _described(chunk)
        place += size + size % 2
    if described is None:
        raise ValueError("it does not tell what its samples are")
    sample_rate, channels, width, is_float = described
    return Wav(sample_rate, channels, width, is_float, chunk[: len(chunk) // (channels * width) * channels * width])


def _described(chunk: bytes) -> tuple[int, int, int, bool]:
    """Returns sample rate, channels, bytes per sample, and whether samples are floats, from the chunk ``fmt ``."""
    tag, channels, sample_rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE:
        (tag,) = struct.unpack_from("<H", chunk, _SUBFORMAT_AT)
    if tag not in _WIDTHS:
        raise ValueError(f"its samples are {_OTHER_FORMATS.get(tag, f'of the format {tag}')}")
    width = (bits + 7) // 8
    if width not in _WIDTHS[tag]:
        raise ValueError(f"samples of {bits} bits")
    if not channels or not sample_rate:
        raise ValueError("it has no channel" if not channels else "its sample rate is 0")
    return sample_rate, channels, width, tag == _FLOAT
