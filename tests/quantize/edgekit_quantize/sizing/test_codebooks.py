"""Integers in few bits, against rounding to nearest and the best quantizers of a normal distribution."""

from __future__ import annotations

import numpy as np
import pytest

from edgekit_quantize.sizing.codebooks import DAMPING, Inputs, damped, encoded
from edgekit_quantize.sizing.forms import Form


def _decibels(signal: np.ndarray, error: np.ndarray) -> float:
    return float(10 * np.log10(np.sum(signal**2) / np.sum(error**2)))


@pytest.mark.parametrize(("bits", "decibels"), [(2, 9.30), (3, 14.62), (4, 20.22)])
def test_palettes_of_normally_distributed_weights_are_as_good_as_can_be(bits: int, decibels: float) -> None:
    # J. Max, "Quantizing for minimum distortion", 1960, table I.
    matrix = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    integers, params = encoded(matrix, Form("p", bits, palette=True), None)
    assert len(np.unique(integers)) <= 2**bits
    assert _decibels(matrix, params.dequantize(integers) - matrix) > decibels - 0.2


@pytest.mark.parametrize(
    "form",
    [Form("a", 3, palette=True), Form("b", 4, palette=True, slices=16), Form("c", 4, block=16), Form("d", 4)],
    ids=lambda form: form.name,
)
def test_knowing_the_inputs_lowers_the_error_of_the_output(form: Form) -> None:
    rng = np.random.default_rng(1)
    matrix = rng.standard_normal((32, 64)).astype(np.float32)
    inputs = rng.standard_normal((4000, 8)) @ rng.standard_normal((8, 64)) + 0.1 * rng.standard_normal((4000, 64))
    moments = inputs.T @ inputs / len(inputs)
    outputs = []
    for known in (None, Inputs(moments)):
        integers, params = encoded(matrix, form, known)
        error = params.dequantize(integers) - matrix
        outputs.append(_decibels(inputs @ matrix.T, inputs @ error.T))
    assert outputs[1] > outputs[0] + 1.5


def _moments(inputs: np.ndarray) -> np.ndarray:
    return np.asarray(inputs.T @ inputs / len(inputs))


@pytest.mark.parametrize("count", [24, 20_000])
def test_what_few_inputs_have_in_common_counts_for_less(count: int) -> None:
    rng = np.random.default_rng(3)
    matrix = rng.standard_normal((32, 96)).astype(np.float32)
    inputs, others = (rng.standard_normal((number, 96)) for number in (count, 20_000))
    moments = _moments(inputs)
    chosen = damped(matrix, (_moments(inputs[::2]), _moments(inputs[1::2])), moments)
    reached = []
    for known in (Inputs(moments), chosen):
        integers, params = encoded(matrix, Form("p", 4, palette=True), known)
        error = params.dequantize(integers) - matrix
        reached.append(_decibels(others @ matrix.T, others @ error.T))
    if count < matrix.shape[1]:
        assert chosen.damping > DAMPING
        assert reached[1] > reached[0] + 3
    else:
        assert reached[1] == pytest.approx(reached[0], abs=0.3)


def test_every_group_of_channels_has_a_palette_of_its_own() -> None:
    matrix = np.random.default_rng(2).standard_normal((32, 100)).astype(np.float32)
    integers, _ = encoded(matrix, Form("p", 3, palette=True, slices=8), None)
    assert all(len(np.unique(integers[first : first + 8])) <= 8 for first in range(0, 32, 8))
    assert len(np.unique(integers)) > 8


def test_levels_stand_where_the_weights_of_strong_inputs_are() -> None:
    rng = np.random.default_rng(4)
    matrix = rng.uniform(-1, 1, (32, 64)).astype(np.float32)
    matrix[:, :32] *= 0.1
    power = np.repeat([100.0, 0.01], 32)
    reached = []
    for known in (None, Inputs(np.diag(power))):
        integers, params = encoded(matrix, Form("p", 2, palette=True), known)
        error = params.dequantize(integers) - matrix
        reached.append(_decibels(matrix * np.sqrt(power), error * np.sqrt(power)))
    assert reached[1] > reached[0] + 4


def test_levels_stand_where_the_weights_of_loud_channels_are() -> None:
    rng = np.random.default_rng(5)
    quiet = 0.01 * rng.choice([-1, -0.6, 0.6, 1], (30, 64))
    loud = 10 * rng.choice([-1, -0.3, 0.3, 1], (2, 64))
    matrix = np.concatenate([quiet, loud]).astype(np.float32)
    integers, params = encoded(matrix, Form("p", 2, palette=True), None)
    assert _decibels(matrix, params.dequantize(integers) - matrix) > 25


def test_weights_of_zeros_stay_zeros() -> None:
    for form in (Form("p", 2, palette=True), Form("i", 8), Form("b", 4, block=4)):
        integers, params = encoded(np.zeros((4, 8), np.float32), form, None)
        np.testing.assert_array_equal(params.dequantize(integers), 0)
