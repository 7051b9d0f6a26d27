"""Sounds and an input whose length is free, with files that Python's own library writes."""

from __future__ import annotations

import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgekit.bundle import read_bundle
from edgekit.data.media_sizes import media_size
from edgekit.model import ValueSpec
from edgekit.preprocessing import AudioPreprocessing

RunEdgeKit = Callable[..., Any]
FREE = (ValueSpec("sound", "float32", ("batch", "N")),)
GRAPH = "f (float[batch, N] x) => (float[batch, N] y) { y = Exp(x) }"
RATE = 8000


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def write(folder: Path, *lengths: int, channels: int = 1) -> None:
    for number, length in enumerate(lengths):
        with wave.open(str(folder / f"{number}.wav"), "wb") as file:
            file.setnchannels(channels)
            file.setsampwidth(2)
            file.setframerate(RATE)
            tone = np.sin(np.arange(length * channels) * 0.1 * (number + 1))
            file.writeframes((tone * 9000).astype("<i2").tobytes())


@pytest.mark.parametrize("shape", [("N",), (1, "N"), ("batch", 1, None)])
def test_a_declared_length_is_that_of_the_last_dimension(shape: tuple[str | int | None, ...]) -> None:
    found = media_size([ValueSpec("sound", "float32", shape)], AudioPreprocessing(RATE, length=400), None)
    assert found is not None
    assert (found.input, found.sizes) == ("sound", {len(shape) - 1: 400})
    assert found.why == "as length in [preprocessing] says"


@pytest.mark.parametrize("channels", [1, 2])
def test_sounds_of_one_length_tell_it(folder: Path, channels: int) -> None:
    write(folder, 300, 300, channels=channels)
    found = media_size(FREE, AudioPreprocessing(RATE), folder, None)
    assert found is not None
    assert (found.sizes, found.why) == ({1: 300}, "as in the sounds")


def test_other_lengths_are_not_known(folder: Path) -> None:
    write(folder, 300, 300)
    plain = AudioPreprocessing(RATE)
    assert media_size(FREE, AudioPreprocessing(RATE, fit="pad-crop"), folder) is None
    assert media_size((ValueSpec("sound", "float32", (1, 300)),), AudioPreprocessing(RATE, length=300), folder) is None
    assert media_size((*FREE, ValueSpec("rate", "int64", ())), plain, folder) is None
    assert media_size(FREE, plain, None) is None
    (folder / "0.wav").write_bytes(b"RIFF")
    assert media_size(FREE, plain, folder) is None
    write(folder, 300, 200)
    assert media_size(FREE, plain, folder) is None


@pytest.mark.parametrize(
    ("declared", "lengths", "size", "why"),
    [
        ("length = 256\nfit = 'pad-crop'", (300, 200), 256, "as length in [preprocessing] says"),
        ("", (300, 300), 300, "as in the sounds"),
    ],
)
@pytest.mark.parametrize("target", ["onnxruntime", "ios18"])
def test_a_model_of_any_length_is_packaged_for_the_one_of_the_sounds(
    folder: Path,
    edgekit: RunEdgeKit,
    onnx_file: Callable[..., Path],
    declared: str,
    lengths: tuple[int, int],
    size: int,
    why: str,
    target: str,
) -> None:
    onnx_file(GRAPH)
    write(folder, *lengths)
    Path("edgekit.toml").write_text(f"[preprocessing]\nkind = 'audio'\nsample_rate = {RATE}\n{declared}\n")

    command = ("package", "model.onnx", "--target", target, "--data", "data", "--quantize", "none", "-o", "out")
    finished = edgekit(*command)

    assert (finished.code, finished.err) == (0, finished.err)
    assert f"dimension 1 (N) of input 'x' is {size}, {why}; --dim N=SIZE makes it another" in finished.err
    assert read_bundle(Path("out")).inputs[0].shape == (1, size)
