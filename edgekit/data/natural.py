"""Inputs with the statistics of what cameras and microphones record, drawn from random numbers.

White noise is unlike all that a model was trained on: neighboring pixels of a picture are nearly equal, and speech is
a few harmonics that come and go. Values are rounded to what a file would hold, 8 bits a pixel and 16 a sample of sound,
so that the last bit of a Fourier transform does not matter.
"""

from __future__ import annotations

import numpy as np

LEAST_SIDE = 16
"""Least height and width of a picture, in pixels; smaller inputs are treated as features."""
LEAST_SAMPLES = 4000
"""Least samples of a sound, a quarter of a second at :data:`RATE`; shorter inputs are treated as features."""
RATE = 16000
"""Samples of sound a second."""
_MOST_COLORS = 3
_CONTRAST = 48.0
"""Standard deviation of pixels from 0 to 255."""


def natural_values(shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray | None:
    """A picture or a sound for inputs that look like one by their shape; None for others.

    Pictures are ``[N, C, H, W]`` or ``[N, H, W, C]`` with 1 or 3 channels, or ``[C, H, W]`` or ``[H, W, C]`` with 3.
    Sounds have at least :data:`LEAST_SAMPLES` samples ``[T]``, possibly with axes of size 1 in front.

    Returns:
        float64 values of the shape from -1 to 1.
    """
    sizes = tuple(size for size in shape if size != 1)
    if len(sizes) == 1 and shape[-1] == sizes[0] >= LEAST_SAMPLES:
        return speech(sizes[0], rng).reshape(shape)
    placed = _picture_axes(shape)
    if placed is None:
        return None
    batch, height, width, channels, is_last = placed
    pixels = np.stack([picture(height, width, channels, rng) for _ in range(batch)])
    ordered = pixels if is_last else pixels.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(ordered / 127.5 - 1).reshape(shape)


def _picture_axes(shape: tuple[int, ...]) -> tuple[int, int, int, int, bool] | None:
    """Batch, height, width, channels, and whether the channels come last; None if the shape is not a picture's."""
    if len(shape) not in (3, 4) or 0 in shape:
        return None
    batch, one, two, three = (1, *shape) if len(shape) == 3 else shape
    counts = (1, _MOST_COLORS) if len(shape) == 4 else (_MOST_COLORS,)
    if one in counts and min(two, three) >= LEAST_SIDE:
        return batch, two, three, one, False
    if three in counts and min(one, two) >= LEAST_SIDE:
        return batch, one, two, three, True
    return None


def picture(height: int, width: int, channels: int, rng: np.random.Generator) -> np.ndarray:
    """Pixels whose amplitudes fall with the frequency, as in photographs, and whose channels differ little.

    Field, "Relations between the statistics of natural images and the response properties of cortical cells", 1987.

    Returns:
        Whole numbers from 0 to 255, ``[height, width, channels]``, float64.
    """
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width)[None, :])
    frequency[0, 0] = np.inf  # the mean is drawn separately

    def field() -> np.ndarray:
        spectrum = np.fft.rfft2(rng.standard_normal((height, width))) / frequency
        values = np.fft.irfft2(spectrum, s=(height, width))
        return np.asarray(values / max(float(values.std()), 1e-12))

    light = field()
    colors = [light if channels == 1 else 0.95 * light + 0.3 * field() for _ in range(channels)]
    brightness = rng.uniform(96, 160)
    return np.clip(np.rint(brightness + _CONTRAST * np.stack(colors, axis=-1)), 0, 255)


def speech(count: int, rng: np.random.Generator) -> np.ndarray:
    """A signal like speech: syllables of voiced harmonics with three resonances, pauses, and faint noise.

    There are about four syllables a second (Houtgast and Steeneken, "A review of the MTF concept in room acoustics and
    its use for estimating speech intelligibility in auditoria", 1985).

    Returns:
        ``[count]``, float64 from -1 to 1 in steps of 16 bits.
    """
    signal = np.zeros(count)
    start = 0
    while start < count:
        length = int(rng.uniform(0.12, 0.35) * RATE)
        if rng.random() < 0.8:
            signal[start : start + length] = _syllable(length, rng)[: count - start]
        start += length
    signal += 0.002 * rng.standard_normal(count)
    loudest = max(float(np.abs(signal).max()), 1e-12)
    return np.rint(signal * (rng.uniform(0.2, 0.9) / loudest) * 32767) / 32768


def _syllable(length: int, rng: np.random.Generator) -> np.ndarray:
    time = np.arange(length) / RATE
    pitch = rng.uniform(90, 240) * (1 + 0.1 * rng.standard_normal() * time)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    resonances = (rng.uniform(300, 800), rng.uniform(900, 2200), rng.uniform(2300, 3200))
    voice = np.zeros(length)
    for harmonic in range(1, int(4000 / pitch[0])):
        near = sum(1 / (1 + ((harmonic * pitch[0] - place) / 120) ** 2) for place in resonances)
        voice += near / harmonic**0.5 * np.sin(harmonic * phase + rng.uniform(0, 2 * np.pi))
    return np.asarray(voice * np.sin(np.pi * np.arange(length) / length) ** 2)
