from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgekit.errors import UnsupportedOpsError

DOMAIN = "ai.onnx.ml"
TABLE = np.array([[0, 2.5, -1], [7, -3, 0.5], [0, 0, 0]], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
@pytest.mark.parametrize(("offset", "scale"), [([1.5], [2.0]), ([1.0, -2.0, 0.5], [0.5, 3.0, -1.0])])
def test_scaler(agrees, dtype, offset, scale):
    agrees("Scaler", [TABLE.astype(dtype)], domain=DOMAIN, offset=offset, scale=scale)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(agrees, norm):
    agrees("Normalizer", [TABLE], domain=DOMAIN, norm=norm)


@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_binarizer(agrees, dtype):
    against = "onnxruntime" if dtype == "float32" else "reference"
    agrees("Binarizer", [TABLE.astype(dtype)], domain=DOMAIN, outputs=(dtype,), threshold=0.5, against=against)


@pytest.mark.parametrize("replaced", [0.0, float("nan")])
@pytest.mark.parametrize("values", [[9.0], [1.0, 2.0, 3.0]])
def test_imputer(agrees, replaced, values):
    x = TABLE.copy()
    x[1, 1] = np.nan
    agrees("Imputer", [x], domain=DOMAIN, imputed_value_floats=values, replaced_value_float=replaced)


def test_imputer_of_integers(agrees):
    settings = {"imputed_value_int64s": [5, 6, 7], "replaced_value_int64": 7}
    agrees("Imputer", [TABLE.astype(np.int64)], domain=DOMAIN, outputs=("int64",), **settings)


@pytest.mark.parametrize("sizes", [[3, 2], [2, 4]])
def test_feature_vectorizer(agrees, sizes):
    agrees("FeatureVectorizer", [TABLE, TABLE[:, :2]], fed=(0, 1), domain=DOMAIN, inputdimensions=sizes)


@pytest.mark.parametrize("x", [TABLE, TABLE[0]])
@pytest.mark.parametrize("fed", [(0,), (0, 1)])
def test_array_feature_extractor(agrees, x, fed):
    agrees("ArrayFeatureExtractor", [x, np.array([2, 0], np.int64)], fed=fed, domain=DOMAIN)


@pytest.mark.parametrize("x", [np.array([[1, 5], [9, 3]], np.int64), np.array([3.0, 1.9, -1.2], np.float32)])
def test_one_hot_encoder(agrees, x):
    agrees("OneHotEncoder", [x], domain=DOMAIN, cats_int64s=[1, 3, 5])


@pytest.mark.parametrize(
    ("dtype", "result", "table"),
    [
        ("int64", "int64", {"keys_int64s": [3, -1, 7], "values_int64s": [5, 1000000, -9], "default_int64": 42}),
        ("int64", "float32", {"keys_int64s": [3, 0], "values_floats": [0.1, -2.5], "default_float": 0.7}),
        ("float32", "int64", {"keys_floats": [2.5, -3.0], "values_int64s": [1, 2]}),
        ("float32", "float32", {"keys_floats": [2.5, 0.0], "values_floats": [1.5, 2.25]}),
    ],
)
def test_label_encoder(agrees, dtype, result, table):
    agrees("LabelEncoder", [TABLE.astype(dtype)], domain=DOMAIN, outputs=(result,), **table)


def test_label_encoder_by_tensors(agrees):
    table = {
        "keys_tensor": onnx.numpy_helper.from_array(np.array([2, 7], np.int64)),
        "values_tensor": onnx.numpy_helper.from_array(np.array([2.5, -1.5], np.float32)),
        "default_tensor": onnx.numpy_helper.from_array(np.array([9.5], np.float32)),
    }
    x = TABLE.astype(np.int64)
    agrees("LabelEncoder", [x], domain=DOMAIN, opset=4, **table)


def test_texts_are_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="of type string"):
        lower("LabelEncoder", [TABLE], domain=DOMAIN, outputs=("O",), keys_floats=[1.0], values_strings=["one"])
