from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


def complex_parts(values):
    return np.stack([values.real, values.imag], axis=-1).astype(np.float32)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("length", [None, 5, 12])
@pytest.mark.parametrize("axis", [1, -2])
def test_real_signals_are_transformed(lower, rng, axis, length, onesided):
    x = rng.standard_normal((2, 8, 3, 1), dtype=np.float32)
    inputs = [x, None if length is None else np.int64(length), np.int64(axis)]
    (actual,) = lower("DFT", inputs, opset=20, onesided=onesided)
    expected = (np.fft.rfft if onesided else np.fft.fft)(x[..., 0], n=length, axis=1 if axis == 1 else 2)
    np.testing.assert_allclose(actual, complex_parts(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("inverse", [0, 1])
def test_complex_signals_are_transformed(lower, rng, inverse):
    x = rng.standard_normal((2, 8, 2), dtype=np.float32)
    (actual,) = lower("DFT", [x], opset=17, axis=1, inverse=inverse)
    expected = (np.fft.ifft if inverse else np.fft.fft)(x[..., 0] + 1j * x[..., 1], axis=1)
    np.testing.assert_allclose(actual, complex_parts(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("length", [None, 7, 8, 12])
def test_one_sided_spectra_are_transformed_back(lower, rng, length):
    x = rng.standard_normal((2, 5, 2), dtype=np.float32)
    inputs = [x, None if length is None else np.int64(length), np.int64(1)]
    (actual,) = lower("DFT", inputs, opset=20, inverse=1, onesided=1)
    expected = np.fft.irfft(x[..., 0] + 1j * x[..., 1], n=length, axis=1)
    np.testing.assert_allclose(actual[..., 0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "axis", "length", "inverse", "onesided"),
    [
        ((2, 128, 1), 1, None, 0, 0),
        ((3, 2, 96, 1), 2, None, 0, 1),
        ((2, 90, 3, 2), 1, 100, 1, 0),
        ((2, 130, 2), 1, 128, 0, 0),
        ((2, 65, 2), 1, None, 1, 1),
        ((2, 3, 70, 2), 2, 161, 1, 1),
        ((2, 65, 1), 1, None, 1, 1),
    ],
)
def test_long_transforms_take_two_small_products(lower, rng, shape, axis, length, inverse, onesided):
    x = rng.standard_normal(shape, dtype=np.float32)
    inputs = [x, None if length is None else np.int64(length), np.int64(axis)]
    (actual,) = lower("DFT", inputs, opset=20, inverse=inverse, onesided=onesided)
    signal = x[..., 0].astype(np.float64) + (1j * x[..., 1] if shape[-1] == 2 else 0)
    if inverse and onesided:
        expected = np.fft.irfft(signal, n=length, axis=axis)[..., None]
    else:
        signal = signal.real if onesided else signal
        ways = {(0, 0): np.fft.fft, (1, 0): np.fft.ifft, (0, 1): np.fft.rfft}
        expected = complex_parts(ways[inverse, onesided](signal, n=length, axis=axis))
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-6 * np.abs(expected).max())


def test_transforms_of_computed_length_are_refused(lower, rng):
    x = rng.standard_normal((2, 5, 1), dtype=np.float32)
    with pytest.raises(UnsupportedOpsError, match="dft_length is computed"):
        lower("DFT", [x, np.int64(3), np.int64(1)], fed=(0, 1), opset=20)


@pytest.mark.parametrize("fed", [(0,), (0, 2)])
@pytest.mark.parametrize("onesided", [0, 1])
def test_stft_agrees(agrees, rng, onesided, fed):
    window = np.hanning(16).astype(np.float32)
    inputs = [rng.standard_normal((2, 50, 1), dtype=np.float32), np.int64(6), window, np.int64(16)]
    agrees("STFT", inputs, fed=fed, opset=17, onesided=onesided, atol=1e-4)


def test_stft_of_signals_without_an_axis_of_parts(agrees, rng):
    x = rng.standard_normal((2, 40)).astype(np.float32)
    agrees("STFT", [x, np.int64(8), np.hanning(16).astype(np.float32), np.int64(16)], opset=17, atol=1e-4)


def test_stft_of_complex_signals(lower, rng):
    x = rng.standard_normal((1, 20, 2), dtype=np.float32)
    (actual,) = lower("STFT", [x, np.int64(4), None, np.int64(8)], opset=17, onesided=0)
    signal = x[0, :, 0] + 1j * x[0, :, 1]
    expected = [np.fft.fft(signal[start : start + 8]) for start in range(0, 13, 4)]
    np.testing.assert_allclose(actual[0], complex_parts(np.array(expected)), rtol=1e-4, atol=1e-4)
