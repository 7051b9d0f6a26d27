"""WAV files as SciPy writes them, and as the specification describes them."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import scipy.io.wavfile

from edgekit.errors import InputError
from edgekit.preprocessing.wav import read_wav

GUID = bytes.fromhex("000000001000800000aa00389b71")
"""What follows the format number in the subformat of the extensible format."""


def chunk(name: bytes, content: bytes, size: int | None = None) -> bytes:
    return name + struct.pack("<I", len(content) if size is None else size) + content + b"\0" * (len(content) % 2)


def described(tag: int, bits: int, channels: int = 1, more: bytes = b"") -> bytes:
    frame = channels * bits // 8
    return chunk(b"fmt ", struct.pack("<HHIIHH", tag, channels, 8000, 8000 * frame, frame, bits) + more)


def written(folder: Path, *chunks: bytes) -> Path:
    content = b"WAVE" + b"".join(chunks)
    (folder / "a.wav").write_bytes(b"RIFF" + struct.pack("<I", len(content)) + content)
    return folder / "a.wav"


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int32, np.float32, np.float64])
@pytest.mark.parametrize("channels", [1, 2])
def test_what_scipy_writes(tmp_path: Path, dtype: type[np.generic], channels: int) -> None:
    rng = np.random.default_rng(0)
    wanted = rng.uniform(-1, 1, (9, channels))
    if np.dtype(dtype).kind == "f":
        stored = wanted.astype(dtype)
        expected = stored.astype(np.float64)
    else:
        peak = 2.0 ** (8 * np.dtype(dtype).itemsize - 1)
        middle = 128 if dtype is np.uint8 else 0
        stored = (np.floor(wanted * peak) + middle).astype(dtype)
        expected = (stored.astype(np.float64) - middle) / peak
    scipy.io.wavfile.write(tmp_path / "a.wav", 44100, stored)
    sound = read_wav(tmp_path / "a.wav")
    assert (sound.sample_rate, sound.channels) == (44100, channels)
    np.testing.assert_array_equal(sound.waveform, expected)


@pytest.mark.parametrize(("tag", "dtype"), [(1, "<i2"), (3, "<f4")])
def test_the_extensible_format_and_other_chunks(tmp_path: Path, tag: int, dtype: str) -> None:
    samples = np.array([1, -1, 0.5, 0]).astype(dtype)
    more = struct.pack("<HHIH", 22, samples.itemsize * 8, 4, tag) + GUID
    extensible = described(0xFFFE, samples.itemsize * 8, more=more)
    file = written(tmp_path, chunk(b"LIST", b"odd"), extensible, chunk(b"data", samples.tobytes()), chunk(b"id3 ", b""))
    np.testing.assert_array_equal(read_wav(file).pcm[:, 0], samples.astype(np.float64))


@pytest.mark.parametrize("size", [0xFFFFFFFF, 7, 6])
def test_a_stream_whose_length_was_not_known_and_a_frame_that_ends_early(tmp_path: Path, size: int) -> None:
    file = written(tmp_path, described(1, 16), chunk(b"data", struct.pack("<3h", 1, 2, 3), size))
    assert read_wav(file).pcm.tolist() == [[1], [2], [3]]


@pytest.mark.parametrize(
    ("chunks", "found"),
    [
        ((described(7, 8), chunk(b"data", b"\0")), "its samples are µ-law"),
        ((described(0x160, 16), chunk(b"data", b"\0")), "its samples are of the format 352"),
        ((described(1, 56), chunk(b"data", b"\0")), "samples of 56 bits"),
        ((described(3, 16), chunk(b"data", b"\0")), "samples of 16 bits"),
        ((described(1, 16, channels=0), chunk(b"data", b"\0")), "it has no channel"),
        ((described(1, 16),), "it ends before its samples"),
        ((chunk(b"fmt ", b"\1\0\1\0"),), "it ends before its samples"),
        ((chunk(b"data", b"\0\0"),), "it does not tell what its samples are"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, chunks: tuple[bytes, ...], found: str) -> None:
    with pytest.raises(InputError) as failure:
        read_wav(written(tmp_path, *chunks))
    assert str(failure.value) == (
        f"{tmp_path}/a.wav: the WAV file cannot be read: {found}\n"
        "expected: PCM samples of 8, 16, 24 or 32 bits, or floating-point samples of 32 or 64 bits\n"
        "hint: `ffmpeg -i IN -c:a pcm_s16le OUT.wav` writes such a file"
    )


@pytest.mark.parametrize("content", [b"", b"RIFF what?", b"RIFX\0\0\0\0WAVE"])
def test_a_file_that_is_no_sound(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    with pytest.raises(InputError, match="it does not begin as a WAV file does"):
        read_wav(tmp_path / "a.wav")


def test_half_a_frame_is_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, described(1, 16, channels=2), chunk(b"data", struct.pack("<3h", 1, 2, 3)))
    assert read_wav(file).pcm.tolist() == [[1, 2]]
