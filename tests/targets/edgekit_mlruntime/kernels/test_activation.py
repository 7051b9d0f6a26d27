from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch.nn import functional

from edgekit_mlruntime.failures import ExecutionError

CASES = {
    "relu": ({}, functional.relu),
    "relu6": ({}, functional.relu6),
    "leaky_relu": ({"alpha": 0.3}, lambda x: functional.leaky_relu(x, 0.3)),
    "elu": ({"alpha": 0.7}, lambda x: functional.elu(x, 0.7)),
    "thresholded_relu": ({"alpha": 1.5}, lambda x: torch.where(x >= 1.5, x, 0)),
    "clamped_relu": ({"alpha": 0.3, "beta": 2.0}, lambda x: functional.leaky_relu(x, 0.3).clamp(max=2.0)),
    "linear_activation": ({"alpha": 2.0, "beta": -1.0}, lambda x: 2 * x - 1),
    "scaled_tanh": ({"alpha": 1.7, "beta": 0.6}, lambda x: 1.7 * torch.tanh(0.6 * x)),
    "sigmoid": ({}, torch.sigmoid),
    "sigmoid_hard": ({"alpha": 1 / 6, "beta": 0.5}, functional.hardsigmoid),
    "silu": ({}, functional.silu),
    "softplus": ({}, functional.softplus),
    "softsign": ({}, functional.softsign),
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_torch_in_double_precision(run_op, rng, name):
    parameters, reference = CASES[name]
    x = rng.uniform(-8, 8, (2, 3, 20)).astype(np.float32)
    np.testing.assert_allclose(
        run_op(name, x=x, **parameters), reference(torch.tensor(x).double()), rtol=3e-6, atol=1e-6
    )


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 3.0])
def test_leaky_relu_takes_any_slope(run_op, alpha):
    x = np.float32([-2, 0, 2])
    np.testing.assert_array_equal(run_op("leaky_relu", x=x, alpha=alpha), [-2 * alpha, 0, 2])


def test_sigmoid_is_accurate_where_it_is_nearly_zero(run_op):
    x = np.float32([-12, -20, -40, -80])
    np.testing.assert_allclose(run_op("sigmoid", x=x), [1 / (1 + math.exp(-value)) for value in x], rtol=1e-5)


@pytest.mark.parametrize("name", ["sigmoid", "silu", "softplus", "softmax"])
def test_large_arguments_do_not_overflow(run_op, name):
    expected = {"sigmoid": [0, 1], "silu": [0, 500], "softplus": [0, 500], "softmax": [0, 1]}[name]
    np.testing.assert_allclose(run_op(name, x=np.float32([-500, 500])), expected, atol=1e-30)


@pytest.mark.parametrize("rank", [3, 4, 5])
def test_prelu_has_a_slope_for_each_channel(run_op, rng, rank):
    x, alpha = rng.standard_normal((2, 3, *[2] * (rank - 2)), np.float32), np.float32([0.1, -0.5, 2])
    np.testing.assert_allclose(
        run_op("prelu", x=x, alpha=alpha), functional.prelu(torch.tensor(x), torch.tensor(alpha)), rtol=1e-6
    )


def test_parametric_softplus_has_two_parameters_for_each_channel(run_op, rng):
    x = rng.standard_normal((2, 2, 3, 3), np.float32)
    alpha, beta = np.float32([0.5, 2]), np.float32([1, -0.7])
    shape = (1, 2, 1, 1)
    expected = alpha.reshape(shape) * np.log(1 + np.exp(beta.reshape(shape).astype(np.float64) * x))
    np.testing.assert_allclose(run_op("softplus_parametric", x=x, alpha=alpha, beta=beta), expected, rtol=1e-6)


@pytest.mark.parametrize(
    ("mode", "reference"),
    [
        ("EXACT", functional.gelu),
        ("TANH_APPROXIMATION", lambda x: functional.gelu(x, approximate="tanh")),
        ("SIGMOID_APPROXIMATION", lambda x: x * torch.sigmoid(1.702 * x)),
    ],
)
def test_gelu_agrees_with_torch(run_op, rng, mode, reference):
    x = rng.uniform(-6, 6, (3, 40)).astype(np.float32)
    np.testing.assert_allclose(
        run_op("gelu", x=x, mode=mode), reference(torch.tensor(x).double()), rtol=1e-5, atol=1e-6
    )


def test_gelu_is_exact_by_default_and_refuses_modes_it_does_not_know(run_op):
    x = np.float32([1.0])
    np.testing.assert_allclose(run_op("gelu", x=x), [0.5 * (1 + math.erf(math.sqrt(0.5)))], rtol=1e-6)
    with pytest.raises(ExecutionError, match="mode"):
        run_op("gelu", x=x, mode="EXACTLY")


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax_agrees_with_torch(run_op, rng, axis):
    x = rng.standard_normal((3, 4, 5), np.float32)
    np.testing.assert_allclose(run_op("softmax", x=x, axis=axis), torch.softmax(torch.tensor(x), axis), rtol=1e-5)
