from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

FLOAT, INT64, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
RNG = np.random.default_rng(0)


def ml_model(
    op_type: str, inputs: dict[str, tuple[int, list[int]]], outputs: dict[str, int], opset: int = 17, **attributes: Any
) -> onnx.ModelProto:
    node = helper.make_node(op_type, list(inputs), list(outputs), domain="ai.onnx.ml", name="it", **attributes)
    graph = helper.make_graph(
        [node],
        "ml",
        [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
    )
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8)


def numbers(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("opset", [9, 11, 13, 18])
@pytest.mark.parametrize(
    ("op_type", "attributes"),
    [
        ("Scaler", {"offset": [0.5, -1.0, 2.0], "scale": [2.0, 0.1, 3.0]}),
        ("Scaler", {"offset": [0.5], "scale": [2.0]}),
        ("Normalizer", {"norm": "MAX"}),
        ("Normalizer", {"norm": "L1"}),
        ("Normalizer", {"norm": "L2"}),
        ("Binarizer", {"threshold": 0.25}),
        ("Imputer", {"imputed_value_floats": [1.0, 2.0, 3.0], "replaced_value_float": float("nan")}),
        ("Imputer", {"imputed_value_floats": [1.5], "replaced_value_float": 0.0}),
        ("LinearRegressor", {"coefficients": [1.0, -2.0, 0.5, 0.1, 3.0, 1.0], "intercepts": [0.5, 1.0], "targets": 2}),
        ("LinearRegressor", {"coefficients": [1.0, -2.0, 0.5], "post_transform": "LOGISTIC"}),
    ],
)
def test_floats(assert_rewritten, opset, op_type, attributes):
    model = ml_model(op_type, {"x": (FLOAT, [4, 3])}, {"y": FLOAT}, opset, **attributes)
    x = numbers(4, 3)
    x[1, 2], x[2] = np.nan if op_type == "Imputer" else 0.0, 0.0
    assert_rewritten(model, {"x": x}, {"x": numbers(4, 3)})


@pytest.mark.parametrize("labels", [{"classlabels_ints": [3, 1, 7]}, {"classlabels_strings": ["a", "b", "c"]}])
@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_linear_classifier(assert_rewritten, labels, transform):
    kind = STRING if "classlabels_strings" in labels else INT64
    weights = {"coefficients": numbers(12).tolist(), "intercepts": [0.1, -0.2, 0.3], "post_transform": transform}
    model = ml_model(
        "LinearClassifier", {"x": (FLOAT, [5, 4])}, {"label": kind, "scores": FLOAT}, **labels, **weights, multi_class=1
    )
    assert_rewritten(model, {"x": numbers(5, 4)})


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_linear_classifier_of_one_row(assert_rewritten, transform):
    weights = {"coefficients": [0.5, -1.0, 2.0, 0.1], "intercepts": [0.1], "post_transform": transform}
    model = ml_model(
        "LinearClassifier",
        {"x": (FLOAT, [6, 4])},
        {"label": INT64, "scores": FLOAT},
        classlabels_ints=[5, 9],
        **weights,
    )
    assert_rewritten(model, {"x": numbers(6, 4)})


@pytest.mark.parametrize(
    ("kinds", "attributes"),
    [
        ((INT64, INT64), {"keys_int64s": [1, 5, 9], "values_int64s": [7, 8, 9], "default_int64": -5}),
        ((INT64, FLOAT), {"keys_int64s": [1, 5, 9], "values_floats": [0.5, 0.25, 9.0], "default_float": 3.5}),
        ((FLOAT, INT64), {"keys_floats": [1.0, 5.0, 9.0], "values_int64s": [7, 8, 9]}),
        ((INT64, STRING), {"keys_int64s": [1, 5, 9], "values_strings": ["x", "y", "z"], "default_string": "none"}),
    ],
)
def test_label_encoder(assert_rewritten, kinds, attributes):
    model = ml_model("LabelEncoder", {"x": (kinds[0], [2, 3])}, {"y": kinds[1]}, **attributes)
    x = np.array([[1, 2, 5], [9, 9, 0]], np.float32 if kinds[0] == FLOAT else np.int64)
    assert_rewritten(model, {"x": x})


def test_one_hot_encoder(assert_rewritten):
    model = ml_model("OneHotEncoder", {"x": (FLOAT, [4])}, {"y": FLOAT}, cats_int64s=[0, 2, 5], zeros=1)
    assert_rewritten(model, {"x": np.array([0.0, 2.9, 5.0, 7.0], np.float32)})


def test_imputer_of_integers(assert_rewritten):
    attributes = {"imputed_value_int64s": [4, 5], "replaced_value_int64": -1}
    model = ml_model("Imputer", {"x": (INT64, [2, 2])}, {"y": INT64}, **attributes)
    assert_rewritten(model, {"x": np.array([[-1, 2], [3, -1]])})


def test_feature_vectorizer(assert_rewritten):
    inputs = {"a": (FLOAT, [2, 3]), "b": (FLOAT, [2, 2])}
    model = ml_model("FeatureVectorizer", inputs, {"y": FLOAT}, inputdimensions=[3, 2])
    assert_rewritten(model, {"a": numbers(2, 3), "b": numbers(2, 2)})


@pytest.mark.parametrize("shape", [[3, 4], [4]])
def test_array_feature_extractor(assert_rewritten, shape):
    inputs = {"x": (FLOAT, shape), "y": (INT64, [1, 2])}
    model = ml_model("ArrayFeatureExtractor", inputs, {"z": FLOAT})
    assert_rewritten(model, {"x": numbers(*shape), "y": np.array([[3, 0]])})
