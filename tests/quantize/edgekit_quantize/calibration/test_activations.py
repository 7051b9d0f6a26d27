from __future__ import annotations

import numpy as np
import pytest

from edgekit_quantize.calibration.activations import activation_params, largest_integers
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.calibration.scaling import Smoothing
from edgekit_quantize.calibration.statistics import ChannelStatistics, TensorStatistics
from edgekit_quantize.integers.qparams import TYPES, QParams
from edgekit_quantize.settings import Preparation


def _seen(*largest: float) -> ChannelStatistics:
    found = ChannelStatistics()
    found.update(np.array([largest, [-1.0] * len(largest)], np.float32), 1)
    return found


@pytest.mark.parametrize(("dtype", "zero", "expected"), [("uint8", 10, [10, 60, 255]), ("int8", 0, [128, 178, 255])])
def test_the_largest_integers_of_channels_as_processors_multiply_them(
    dtype: str, zero: int, expected: list[int]
) -> None:
    params = QParams(np.array(0.1, np.float32), np.array(zero, np.int32), TYPES[dtype])

    found = largest_integers(params, _seen(-0.5, 4.0, 30.0))  # 4 / 0.1 and a quarter more are 50 steps

    assert found.tolist() == expected


def test_of_channels_that_nobody_saw_the_largest_is_taken() -> None:
    params = QParams(np.array(0.1, np.float32), np.array(0, np.int32), TYPES["uint8"])

    assert largest_integers(params, None).tolist() == [255]
    assert largest_integers(params, ChannelStatistics()).tolist() == [255]


def _told(count: int, limits: tuple[float, float], factors: list[float] | None = None) -> TensorStatistics:
    """Statistics of two channels, each of which reaches 2 and -1 in the same number of samples."""
    tensor = TensorStatistics(Histogram(count), {-1: ChannelStatistics()}, limits=limits)
    tensor.smoothing = None if factors is None else Smoothing(np.array(factors, np.float32), -1)
    for _ in range(count // 2):
        for value in (2.0, -1.0):
            array = np.full((1, 2), value, np.float32)
            tensor.histogram.update(array)
            tensor.channels[-1].update(array, -1)
    return tensor


@pytest.mark.parametrize(
    ("count", "limits", "factors", "expected"),
    [
        (32, (-np.inf, np.inf), None, (-1.25, 2.5)),
        (128, (-np.inf, np.inf), None, (-1.0, 2.0)),
        (32, (-1.0, 2.2), None, (-1.0, 2.2)),
        (32, (-0.5, 1.1), [2.0, 0.5], (-1.0, 2.2)),  # what is divided by a half reaches twice as far
        (32, (0.0, 1.0), None, (-1.0, 2.0)),  # never less than what samples reached
    ],
)
def test_of_few_numbers_the_range_has_room_for_larger_ones(
    count: int, limits: tuple[float, float], factors: list[float] | None, expected: tuple[float, float]
) -> None:
    params = activation_params(_told(count, limits, factors), Preparation(), "minmax")

    step = float(params.scale)
    found = np.array([params.dtype.low, params.dtype.high]) - float(params.zero_point)
    np.testing.assert_allclose(found * step, expected, atol=step)
