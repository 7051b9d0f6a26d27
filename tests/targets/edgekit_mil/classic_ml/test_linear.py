from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgekit.errors import UnsupportedOpsError

DOMAIN = "ai.onnx.ml"


def numbers(rng, *shape):
    return [float(number) for number in rng.standard_normal(shape).astype(np.float32).reshape(-1)]


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_linear_regressor(agrees, rng, transform):
    x = (rng.standard_normal((5, 4)) * 3).astype(np.float32)
    settings = {"coefficients": numbers(rng, 3, 4), "intercepts": [0.5, -1.0, 2.0], "targets": 3}
    if transform == "PROBIT":
        settings |= {"coefficients": [0.01] * 12, "intercepts": [0.5, 0.4, 0.7]}
    agrees("LinearRegressor", [x], domain=DOMAIN, post_transform=transform, rtol=1e-4, **settings)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classifier(agrees, rng, transform, dtype):
    x = (rng.standard_normal((6, 4)) * 3).astype(dtype)
    settings = {"coefficients": numbers(rng, 3, 4), "intercepts": [0.5, -1.0, 0.0], "classlabels_ints": [7, 3, 100]}
    agrees("LinearClassifier", [x], domain=DOMAIN, outputs=("int64", "float32"), post_transform=transform, **settings)


def test_linear_classifier_with_one_row_for_two_classes(agrees, rng):
    x = np.concatenate([rng.standard_normal((6, 4)), np.zeros((1, 4))]).astype(np.float32)
    settings = {"coefficients": numbers(rng, 4), "intercepts": [0.0], "classlabels_ints": [0, 1]}
    outputs = ("int64", "float32")
    for transform in ("LOGISTIC", "NONE"):
        agrees("LinearClassifier", [x], domain=DOMAIN, outputs=outputs, post_transform=transform, **settings)


def test_text_labels_are_refused_where_they_are_read(lower, rng, convert_graph):
    x = rng.standard_normal((6, 4)).astype(np.float32)
    settings = {"coefficients": numbers(rng, 2, 4), "classlabels_strings": ["no", "yes"], "intercepts": [0.0, 0.0]}
    with pytest.raises(UnsupportedOpsError, match="of type string"):
        lower("LinearClassifier", [x], domain=DOMAIN, outputs=("O", "float32"), **settings)
    node = onnx.helper.make_node("LinearClassifier", ["x"], ["label", "scores"], domain=DOMAIN, **settings)
    scores = convert_graph([node], {"x": x}, {"scores": "float32"}).run({"x": x})["scores"]
    expected = x @ np.array(settings["coefficients"], np.float32).reshape(2, 4).T
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(agrees, rng, kind, one_class):
    x = rng.uniform(0, 1, (5, 3)).astype(np.float32)
    agrees(
        "SVMRegressor",
        [x],
        domain=DOMAIN,
        rtol=1e-4,
        coefficients=numbers(rng, 4),
        kernel_params=[0.7, 0.3, 3.0],
        kernel_type=kind,
        n_supports=4,
        one_class=one_class,
        rho=[0.2],
        support_vectors=[abs(number) for number in numbers(rng, 4, 3)],
    )


def test_svm_regressor_of_coefficients_alone(agrees, rng):
    x = rng.uniform(0, 1, (5, 3)).astype(np.float32)
    agrees("SVMRegressor", [x], domain=DOMAIN, against="reference", coefficients=numbers(rng, 3), rho=[0.2])
