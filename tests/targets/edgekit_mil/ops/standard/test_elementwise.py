from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgekit_coreml

INSIDE_ONE = np.linspace(-0.95, 0.95, 24, dtype=np.float32).reshape(2, 3, 4)
WIDE = np.linspace(-3.3, 3.3, 24, dtype=np.float32).reshape(2, 3, 4)
POSITIVE = np.linspace(0.01, 40.0, 24, dtype=np.float32).reshape(2, 3, 4)
OVER_ONE = POSITIVE + 1


@pytest.mark.parametrize(
    ("op_type", "x"),
    [
        ("Acos", INSIDE_ONE),
        ("Asin", INSIDE_ONE),
        ("Atanh", INSIDE_ONE),
        ("Acosh", OVER_ONE),
        *(
            (name, WIDE)
            for name in ("Atan", "Asinh", "Cos", "Cosh", "Sin", "Sinh", "Tan", "Erf", "Exp", "Tanh", "Sigmoid")
        ),
        *((name, WIDE) for name in ("Abs", "Neg", "Sign", "Ceil", "Floor", "Round", "Reciprocal")),
        ("Log", POSITIVE),
        ("Sqrt", POSITIVE),
    ],
)
def test_function_agrees(agrees, op_type, x):
    agrees(op_type, [x])


def test_round_takes_halves_to_even(lower):
    (rounded,) = lower("Round", [np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)])
    np.testing.assert_array_equal(rounded, [-2, -2, 0, 0, 2, 2])


def test_logarithm_and_reciprocal_of_zero_are_infinite(lower):
    zero = np.zeros(1, np.float32)
    assert lower("Log", [zero])[0] == -np.inf
    assert lower("Reciprocal", [zero])[0] == np.inf


def test_asinh_is_exact_near_zero_and_far_from_it(agrees):
    agrees("Asinh", [np.array([1e-6, -3e-4, 0.0, 0.49, 0.51, 1e4, -1e6], np.float32)], rtol=1e-6, atol=0)


def test_asinh_is_finite_where_squares_are_not(agrees):
    agrees("Asinh", [np.array([1e20, -3e38, np.inf, -np.inf], np.float32)], rtol=1e-6, atol=0)


def test_asinh_in_half_precision_is_finite(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[4] x) => (float[4] y) { y = Asinh(x) }'
    )
    x = np.array([0.25, -3.0, 300.0, -60000.0], np.float32)
    package = edgekit_coreml.convert(model, tmp_path / "model", precision="float16")
    np.testing.assert_allclose(edgekit_coreml.load(package).run({"x": x})["y"], np.arcsinh(x), rtol=3e-3)


@pytest.mark.parametrize("op_type", ["Abs", "Neg", "Sign"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.int8])
def test_integers_agree(agrees, op_type, dtype):
    agrees(op_type, [np.array([-7, 0, 5, 100], dtype)], outputs=[np.dtype(dtype).name], against="reference")


def test_negation_of_the_lowest_byte_wraps(lower):
    (negated,) = lower("Neg", [np.array([-128, 127], np.int8)], outputs=["int8"])
    np.testing.assert_array_equal(negated, np.array([-128, -127], np.int8))


NOT_NUMBERS = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0], np.float32)


def test_nan_is_found(agrees):
    agrees("IsNaN", [NOT_NUMBERS], outputs=["bool"])


@pytest.mark.parametrize("negative", [0, 1])
@pytest.mark.parametrize("positive", [0, 1])
def test_infinity_is_found(agrees, negative, positive):
    agrees("IsInf", [NOT_NUMBERS], outputs=["bool"], detect_negative=negative, detect_positive=positive)


def test_rank_zero_is_computed(agrees):
    agrees("Exp", [np.array(0.5, np.float32)])
