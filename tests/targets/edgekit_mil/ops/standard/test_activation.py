from __future__ import annotations

import numpy as np
import pytest

X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Relu", {}),
        ("LeakyRelu", {"alpha": 0.2}),
        ("ThresholdedRelu", {"alpha": 1.5}),
        ("Elu", {"alpha": 0.7}),
        ("Selu", {}),
        ("Celu", {"alpha": 1.7}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("HardSwish", {}),
        ("Mish", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Gelu", {}),
        ("Gelu", {"approximate": "tanh"}),
        ("Shrink", {"bias": 0.5, "lambd": 1.5}),
    ],
    ids=str,
)
def test_activation_agrees(agrees, op_type, attributes):
    agrees(op_type, [X], opset=20, rtol=2e-5, **attributes)


@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("ThresholdedRelu", {}),
        ("ThresholdedRelu", {"alpha": -1.0}),
        ("Shrink", {"bias": 0.5}),
        ("Celu", {"alpha": 0.5}),
    ],
    ids=str,
)
def test_infinities_stay_numbers(agrees, op_type, attributes):
    agrees(
        op_type, [np.array([-np.inf, np.inf, -2.0, 0.0, 2.0], np.float32)], opset=20, against="reference", **attributes
    )


def test_shrink_of_a_negative_limit_moves_each_number_once(agrees):
    agrees("Shrink", [X], against="reference", lambd=-1.0, bias=0.3)


def test_celu_of_a_negative_alpha_agrees(agrees):
    agrees("Celu", [X], opset=20, against="reference", alpha=-1.0)


@pytest.mark.parametrize("alpha", [1.0, 0.5])
def test_swish_agrees(agrees, alpha):
    agrees("Swish", [X], opset=24, against="reference", alpha=alpha)


def test_threshold_itself_is_not_over_the_threshold(lower):
    (y,) = lower("ThresholdedRelu", [np.array([1.0, 1.5], np.float32)], alpha=1.0)
    np.testing.assert_array_equal(y, [0.0, 1.5])


@pytest.mark.parametrize("slope_shape", [(3, 1, 1), (1, 3, 1, 1), (1,), (4,), (2, 3, 4, 4)])
def test_prelu_agrees(agrees, rng, slope_shape):
    agrees(
        "PRelu",
        [rng.standard_normal((2, 3, 4, 4)).astype(np.float32), rng.uniform(0.1, 1, slope_shape).astype(np.float32)],
    )


def test_slopes_computed_at_run_time_agree(agrees, rng):
    agrees("PRelu", [X, rng.uniform(0.1, 1, (3, 1)).astype(np.float32)], fed=[0, 1])


def test_relu_of_integers_agrees(agrees):
    agrees("Relu", [np.array([-3, 0, 3], np.int32)], outputs=["int32"])
