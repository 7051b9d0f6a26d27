import struct
import wave
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io.wavfile

from edgekit.errors import InputError
from edgekit.model import ValueSpec
from edgekit.preprocessing import AudioPreprocessing, parse_preprocessing

FLOATS = ValueSpec("sound", "float32", (1, 4))


def sound(tmp_path: Path, frames: bytes, *, width: int = 2, channels: int = 1, rate: int = 16000) -> Path:
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((channels, width, rate, 0, "NONE", ""))
        file.writeframes(frames)
    return tmp_path / "a.wav"


def decode(file: Path, spec: ValueSpec = FLOATS, **declared: Any) -> np.ndarray:
    return parse_preprocessing({"kind": "audio", "sample_rate": 16000, **declared}).decoder(spec)(file)


@pytest.mark.parametrize(
    ("width", "frames"),
    [
        (1, bytes([128, 192, 0, 128])),
        (2, struct.pack("<4h", 0, 1 << 14, -(1 << 15), 0)),
        (3, b"\0\0\0" + b"\0\0\x40" + b"\0\0\x80" + b"\0\0\0"),
        (4, struct.pack("<4i", 0, 1 << 30, -(1 << 31), 0)),
    ],
)
def test_every_width_goes_from_minus_one_to_one(tmp_path: Path, width: int, frames: bytes) -> None:
    values = decode(sound(tmp_path, frames, width=width))
    assert values.tolist() == [[0, 0.5, -1, 0]]
    assert values.dtype == np.float32


def test_integer_inputs_get_the_values_as_they_stand(tmp_path: Path) -> None:
    file = sound(tmp_path, struct.pack("<4h", 1, -2, 30000, -32768))
    values = decode(file, ValueSpec("sound", "int16", (4,)))
    assert values.tolist() == [1, -2, 30000, -32768]
    assert values.dtype == np.int16


def test_scale(tmp_path: Path) -> None:
    assert decode(sound(tmp_path, struct.pack("<4h", 0, 1 << 14, 0, 0)), scale=100).tolist() == [[0, 50, 0, 0]]


def test_channels_are_taken_or_mixed(tmp_path: Path) -> None:
    file = sound(tmp_path, struct.pack("<8h", *[16384, 0] * 4), channels=2)
    assert decode(file, channel=0).tolist() == [[0.5] * 4]
    assert decode(file, channel=1).tolist() == [[0] * 4]
    assert decode(file, channel="mix").tolist() == [[0.25] * 4]


def test_lengths_are_fitted_where_that_is_asked(tmp_path: Path) -> None:
    assert decode(sound(tmp_path, struct.pack("<2h", 16384, 16384)), fit="pad-crop").tolist() == [[0.5, 0.5, 0, 0]]
    assert decode(sound(tmp_path, struct.pack("<6h", *[16384] * 6)), fit="pad-crop").tolist() == [[0.5] * 4]


@pytest.mark.parametrize(
    ("made", "declared", "expected"),
    [
        ({"rate": 44100}, {}, "another sample rate\nexpected: 16000 Hz\nfound: 44100 Hz\nhint: `ffmpeg"),
        ({"frames": bytes(6)}, {}, "another length\nexpected: 4 samples\nfound: 3 samples\nhint: fit ="),
        (
            {"channels": 2, "frames": bytes(16)},
            {},
            "which channel to take is not clear\nexpected: one channel\nfound: 2",
        ),
        ({}, {"channel": 1}, "the WAV file lacks the declared channel\nexpected: channel 1\nfound: 1 channels"),
    ],
)
def test_a_file_that_does_not_fit(
    tmp_path: Path, made: dict[str, Any], declared: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as failure:
        decode(sound(tmp_path, **{"frames": bytes(8), **made}), **declared)
    assert str(failure.value).startswith(f"{tmp_path / 'a.wav'}: ")
    assert expected in str(failure.value)


def test_integer_inputs_take_no_floating_point_samples(tmp_path: Path) -> None:
    scipy.io.wavfile.write(tmp_path / "a.wav", 16000, np.zeros(4, np.float32))
    with pytest.raises(InputError, match="holds floating-point samples, and the input takes integers"):
        decode(tmp_path / "a.wav", ValueSpec("sound", "int16", (4,)))


@pytest.mark.parametrize(
    ("spec", "declared", "expected"),
    [
        (ValueSpec("sound", "float32", (2, 4)), {}, "expected: one dimension of samples, all others 1"),
        (FLOATS, {"length": 5}, "expected: 5 samples\nfound: sound: float32 1×4"),
        (
            ValueSpec("sound", "float32", (1, None)),
            {},
            'hint: fix it with --shape sound=1,LENGTH (in a project file shapes = { "sound" = [1, LENGTH] }), the ',
        ),
        (ValueSpec("sound", "int16", (4,)), {"scale": "1/32768"}, "and of 256 levels 3 whole numbers: from -1 to 1"),
    ],
)
def test_a_declaration_that_does_not_fit_the_model(
    tmp_path: Path, spec: ValueSpec, declared: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as failure:
        decode(tmp_path / "unread.wav", spec, **declared)
    assert expected in str(failure.value)


@pytest.mark.parametrize("stray", [np.nan, np.inf])
def test_samples_that_are_no_numbers(tmp_path: Path, stray: float) -> None:
    scipy.io.wavfile.write(tmp_path / "a.wav", 16000, np.array([0, stray, 0.5, stray], np.float32))
    with pytest.raises(InputError, match="holds samples that are NaN or infinite\nexpected: numbers\nfound: 2 of 4"):
        decode(tmp_path / "a.wav")


def test_a_free_length_is_fixed_by_a_flag_that_the_hint_completes() -> None:
    free = ValueSpec("wave", "float32", (1, "L"))
    declared = AudioPreprocessing(sample_rate=16000)
    with pytest.raises(InputError) as refused:
        declared.resolve(free)
    assert refused.value.hint == (
        'fix it with --dim L=LENGTH (in a project file dims = { "L" = LENGTH }), the number of samples in a file'
    )
    with pytest.raises(InputError) as refused:
        replace(declared, length=8000).resolve(free)
    assert refused.value.hint == 'fix it with --dim L=8000 (in a project file dims = { "L" = 8000 })'
