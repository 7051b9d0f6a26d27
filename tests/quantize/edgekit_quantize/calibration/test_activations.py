from __future__ import annotations

import numpy as np
import pytest

from edgekit_quantize.calibration.activations import largest_integers
from edgekit_quantize.calibration.statistics import ChannelStatistics
from edgekit_quantize.integers.qparams import TYPES, QParams


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
