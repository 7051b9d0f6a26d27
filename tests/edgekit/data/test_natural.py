"""Statistics of the drawn pictures and sounds, and which shapes they are drawn for."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import Interval
from edgekit.data.natural import RATE, natural_values, picture, speech
from edgekit.model import ValueSpec


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_amplitudes_of_pictures_fall_with_the_frequency() -> None:
    pixels = picture(256, 256, 1, rng())[..., 0]
    assert np.array_equal(pixels, np.rint(pixels))
    assert 0 <= pixels.min() <= pixels.max() <= 255
    amplitudes = np.abs(np.fft.fft2(pixels - pixels.mean()))
    radius = np.hypot(np.fft.fftfreq(256)[:, None], np.fft.fftfreq(256)[None, :])
    bands = np.geomspace(0.02, 0.3, 9)
    means = [amplitudes[(radius >= low) & (radius < high)].mean() for low, high in itertools.pairwise(bands)]
    slope = np.polyfit(np.log(np.sqrt(bands[:-1] * bands[1:])), np.log(means), 1)[0]
    assert slope == pytest.approx(-1, abs=0.15)


def test_neighbours_and_channels_are_alike() -> None:
    pixels = picture(96, 128, 3, rng())
    assert pixels.shape == (96, 128, 3)
    assert np.corrcoef(pixels[:, 1:, 0].ravel(), pixels[:, :-1, 0].ravel())[0, 1] > 0.7
    assert np.corrcoef(pixels[..., 0].ravel(), pixels[..., 2].ravel())[0, 1] > 0.8


def test_speech_has_harmonics_below_4_kilohertz_and_pauses() -> None:
    signal = speech(4 * RATE, rng())
    power = np.square(np.abs(np.fft.rfft(signal)))
    assert power[: 4 * 4000].sum() > 0.97 * power.sum()
    blocks = np.square(signal.reshape(-1, RATE // 50)).mean(axis=1)
    assert (blocks < 0.01 * blocks.max()).mean() > 0.1
    assert 0.19 < np.abs(signal).max() <= 0.9


@pytest.mark.parametrize(
    ("shape", "is_drawn"),
    [
        ((2, 3, 32, 48), True),
        ((1, 1, 28, 28), True),
        ((1, 32, 48, 3), True),
        ((3, 32, 48), True),
        ((32, 48, 3), True),
        ((16000,), True),
        ((1, 1, 8000), True),
        ((1, 128, 768), False),
        ((1, 80, 3000), False),
        ((1, 3, 8, 8), False),
        ((2, 16000), False),
        ((100,), False),
        ((), False),
        ((1, 3, 0, 32), False),
    ],
)
def test_shapes(shape: tuple[int, ...], is_drawn: bool) -> None:
    values = natural_values(shape, rng())
    assert (values is not None) == is_drawn
    if values is not None:
        assert values.shape == shape
        assert -1 <= values.min() < values.max() <= 1


@pytest.mark.parametrize(
    ("dtype", "limit", "low", "high"),
    [
        ("float32", None, -1, 1),
        ("float16", Interval(0.0, 255.0), 0, 255),
        ("uint8", None, 0, 255),
        ("int8", None, -128, 127),
    ],
)
def test_the_range_of_pictures(dtype: str, limit: Interval | None, low: float, high: float) -> None:
    spec = ValueSpec("x", dtype, (1, 3, 64, 64))
    values = seeded_inputs([spec], 1, None if limit is None else {"x": limit}, natural=True)["x"]
    assert values.dtype == np.dtype(dtype)
    assert low <= values.min() < values.max() <= high
    rows = values.astype(np.float64)
    assert np.corrcoef(rows[..., 1:].ravel(), rows[..., :-1].ravel())[0, 1] > 0.7


def test_ids_that_have_the_shape_of_a_picture_stay_below_their_limit() -> None:
    values = seeded_inputs([ValueSpec("x", "int32", (1, 3, 64, 64))], 1, {"x": 7}, natural=True)["x"]
    assert set(np.unique(values)) == set(range(7))
