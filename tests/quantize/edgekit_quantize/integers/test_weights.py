from __future__ import annotations

import numpy as np

from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights


def test_a_scale_for_each_channel() -> None:
    weights = np.array([[1.27, -0.5], [0.1, -2.54]], np.float32)

    rows = symmetric_weights(weights, TYPES["int8"], 0)
    columns = symmetric_weights(weights, TYPES["int8"], 1)

    np.testing.assert_allclose(rows.scale, [0.01, 0.02], rtol=1e-6)
    np.testing.assert_allclose(columns.scale, [0.01, 0.02], rtol=1e-6)
    assert rows.quantize(weights).tolist() == [[127, -50], [5, -127]]


def test_a_channel_of_zeros_stays_zero() -> None:
    params = symmetric_weights(np.zeros((2, 3), np.float32), TYPES["int8"], 0)

    assert params.rounded(np.zeros((2, 3), np.float32)).any() == np.False_


def test_a_scale_for_each_block_with_a_shorter_last_one() -> None:
    weights = np.array([[7.0], [-3.5], [1.4], [0.7], [14.0]], np.float32)

    params = symmetric_weights(weights, TYPES["int4"], 0, block=2)

    np.testing.assert_allclose(params.scale[:, 0], [1.0, 0.2, 2.0], rtol=1e-6)
    assert params.quantize(weights)[:, 0].tolist() == [
        7,
        -4,
        7,
        4,
        7,
    ]  # -3.5 is rounded half to even; 0.7 / 0.2 = 3.5 too
