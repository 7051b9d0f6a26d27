"""Models of scikit-learn, XGBoost and LightGBM."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes


def _table() -> tuple[Any, Any, Any, Any]:
    """A table for training: features, labels of two classes, labels of three classes, and numbers for regression."""
    import numpy as np

    x = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    return x, (x[:, 0] + 0.3 * x[:, 1] > 0).astype(int), np.digitize(x[:, 0], [-0.5, 0.5]), 2 * x[:, 0] + x[:, 1] ** 2


def of_sklearn() -> Iterator[tuple[str, Shapes, Maker]]:
    """scikit-learn models through skl2onnx, with its default options, and some without outputs of maps."""
    import numpy as np
    import skl2onnx
    from sklearn import (
        cluster,
        decomposition,
        discriminant_analysis,
        ensemble,
        gaussian_process,
        linear_model,
        naive_bayes,
        neighbors,
        neural_network,
        pipeline,
        preprocessing,
        svm,
        tree,
    )

    x, two, three, number = _table()
    texts = np.array(["red", "green", "blue"])[three]
    logistic = linear_model.LogisticRegression
    chain = pipeline.make_pipeline
    models: list[tuple[str, Any, Any]] = [
        ("logistic2", logistic(), two),
        ("logistic3", logistic(), three),
        ("logistic_texts", logistic(), texts),
        ("scaled_logistic", chain(preprocessing.StandardScaler(), logistic()), two),
        ("minmax_logistic", chain(preprocessing.MinMaxScaler(), logistic()), two),
        ("normalized_logistic", chain(preprocessing.Normalizer(), logistic()), two),
        ("maxabs_logistic", chain(preprocessing.MaxAbsScaler(), logistic()), three),
        ("binarized_logistic", chain(preprocessing.Binarizer(), logistic()), three),
        ("bins_logistic", chain(preprocessing.KBinsDiscretizer(3, encode="onehot-dense"), logistic()), two),
        ("linear", linear_model.LinearRegression(), number),
        ("ridge", linear_model.Ridge(), number),
        ("lasso", linear_model.Lasso(), number),
        ("elastic", linear_model.ElasticNet(), number),
        ("sgd", linear_model.SGDClassifier(), three),
        ("sgd_regressor", chain(preprocessing.RobustScaler(), linear_model.SGDRegressor()), number),
        ("perceptron", linear_model.Perceptron(), two),
        ("poisson", linear_model.PoissonRegressor(), np.abs(number)),
        ("polynomial", chain(preprocessing.PolynomialFeatures(2), linear_model.LinearRegression()), number),
        ("forest2", ensemble.RandomForestClassifier(20), two),
        ("forest3", ensemble.RandomForestClassifier(20, max_depth=4), three),
        ("forest_texts", ensemble.RandomForestClassifier(10), texts),
        ("forest_regressor", ensemble.RandomForestRegressor(10), number),
        ("extra_trees", ensemble.ExtraTreesClassifier(10), three),
        ("boosting2", ensemble.GradientBoostingClassifier(n_estimators=20), two),
        ("boosting3", ensemble.GradientBoostingClassifier(n_estimators=10), three),
        ("boosting_regressor", ensemble.GradientBoostingRegressor(), number),
        ("adaboost", ensemble.AdaBoostClassifier(n_estimators=5), three),
        ("bagging", ensemble.BaggingClassifier(n_estimators=5), two),
        ("stacking", ensemble.StackingClassifier([("a", logistic()), ("b", tree.DecisionTreeClassifier())]), three),
        ("tree3", tree.DecisionTreeClassifier(), three),
        ("tree_regressor", tree.DecisionTreeRegressor(), number),
        ("svc2", svm.SVC(), two),
        ("svc3", svm.SVC(), three),
        ("svc_probability2", svm.SVC(probability=True), two),
        ("svc_probability3", svm.SVC(probability=True), three),
        ("svc_linear_texts", svm.SVC(kernel="linear"), texts),
        ("nusvc", svm.NuSVC(), two),
        ("linear_svc2", svm.LinearSVC(), two),
        ("linear_svc3", svm.LinearSVC(), three),
        ("svr", svm.SVR(), number),
        ("svr_linear", svm.SVR(kernel="linear"), number),
        ("svr_poly", svm.SVR(kernel="poly"), number),
        ("svr_sigmoid", svm.SVR(kernel="sigmoid"), number),
        ("one_class_svm", svm.OneClassSVM(), None),
        ("neighbours", neighbors.KNeighborsClassifier(3), three),
        ("neighbours_regressor", neighbors.KNeighborsRegressor(3), number),
        ("naive_bayes", naive_bayes.GaussianNB(), three),
        ("perceptrons", neural_network.MLPClassifier((8,), max_iter=50), three),
        ("perceptrons_regressor", neural_network.MLPRegressor(hidden_layer_sizes=(8,), max_iter=50), number),
        ("k_means", cluster.KMeans(4), None),
        ("pca", decomposition.PCA(3), None),
        ("svd", decomposition.TruncatedSVD(3), None),
        ("lda", discriminant_analysis.LinearDiscriminantAnalysis(), three),
        ("gaussian_process", gaussian_process.GaussianProcessRegressor(), number),
    ]

    def maker_of(model: Any, target: Any, options: Any, opset: Any) -> Maker:
        def maker(path: Path) -> None:
            fitted = model.fit(x) if target is None else model.fit(x, target)
            proto = skl2onnx.to_onnx(fitted, x[:1], options=options, target_opset=opset)
            path.write_bytes(proto.SerializeToString())

        return maker

    for name, model, target in models:
        yield name, {"X": [3, 5]}, maker_of(model, target, None, {"": 15, "ai.onnx.ml": 3})
    for name, model, target in models[:2] + models[18:21]:
        yield f"{name}_tensors", {"X": [3, 5]}, maker_of(model, target, {"zipmap": False}, None)


def of_boosting() -> Iterator[tuple[str, Shapes, Maker]]:
    """XGBoost and LightGBM, through onnxmltools."""
    import onnxmltools
    from onnxmltools.convert.common.data_types import FloatTensorType

    x, two, three, number = _table()

    def maker_of(library: str, kind: str, target: Any) -> Maker:
        def maker(path: Path) -> None:
            short = {"xgboost": "XGB", "lightgbm": "LGBM"}[library]
            model = getattr(importlib.import_module(library), f"{short}{kind}")(n_estimators=15, max_depth=5)
            model.fit(x, target)
            convert = getattr(onnxmltools, f"convert_{library}")
            proto = convert(model, initial_types=[("X", FloatTensorType([None, 5]))], target_opset=15)
            path.write_bytes(proto.SerializeToString())

        return maker

    for library in ("xgboost", "lightgbm"):
        for name, kind, target in (
            ("two", "Classifier", two),
            ("three", "Classifier", three),
            ("regressor", "Regressor", number),
        ):
            yield f"{library}_{name}", {"X": [3, 5]}, maker_of(library, kind, target)


def of_text() -> Iterator[tuple[str, Shapes, Maker]]:
    """Models whose inputs are texts, through skl2onnx."""
    import numpy as np
    import pandas
    import skl2onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType
    from sklearn import compose, feature_extraction, linear_model, pipeline, preprocessing

    rng = np.random.default_rng(0)
    colours, sizes = np.array(["red", "green", "blue"]), np.array(["small", "large"])
    table = np.stack([rng.choice(colours, 60), rng.choice(sizes, 60)], 1).astype(object)
    words = np.array(["the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "near", "some", "river"])
    lines = np.array([" ".join(rng.choice(words, 6)) for _ in range(60)])
    two = np.arange(60) % 2
    text, chain = feature_extraction.text, pipeline.make_pipeline
    logistic = linear_model.LogisticRegression
    frame = pandas.DataFrame(table, columns=["colour", "size"])
    frame["a"], frame["b"] = rng.standard_normal((2, 60)).astype(np.float32)
    encoded = ("c", preprocessing.OneHotEncoder(handle_unknown="ignore"), ["colour", "size"])
    columns = compose.ColumnTransformer([encoded, ("n", preprocessing.StandardScaler(), ["a", "b"])])
    texts = [("X", StringTensorType([None, 1]))]
    pair = [("X", StringTensorType([None, 2]))]
    four = [("colour", StringTensorType([None, 1])), ("size", StringTensorType([None, 1])),
            ("a", FloatTensorType([None, 1])), ("b", FloatTensorType([None, 1]))]  # fmt: skip
    row = [("X", StringTensorType([None]))]
    one = {"X": [2, 1]}
    models: list[tuple[str, Any, Any, Any, Any, Shapes]] = [
        ("tfidf", text.TfidfVectorizer(), lines, two, texts, one),
        ("tfidf_pairs", text.TfidfVectorizer(ngram_range=(1, 2)), lines, two, texts, one),
        ("counts", text.CountVectorizer(), lines, two, texts, one),
        ("characters", text.CountVectorizer(analyzer="char", ngram_range=(1, 2)), lines, two, texts, one),
        ("tfidf_logistic", chain(text.TfidfVectorizer(), logistic()), lines, two, texts, one),
        ("one_hot", preprocessing.OneHotEncoder(), table, two, pair, {"X": [2, 2]}),
        ("ordinal", preprocessing.OrdinalEncoder(), table, two, pair, {"X": [2, 2]}),
        ("one_hot_logistic", chain(preprocessing.OneHotEncoder(), logistic()), table, two, pair, {"X": [2, 2]}),
        ("label_encoder", preprocessing.LabelEncoder(), table[:, 0], None, row, {"X": [3]}),
        ("columns", chain(columns, logistic()), frame, two, four,
         {"colour": [2, 1], "size": [2, 1], "a": [2, 1], "b": [2, 1]}),
    ]  # fmt: skip

    def maker_of(model: Any, x: Any, target: Any, types: Any) -> Maker:
        def maker(path: Path) -> None:
            fitted = model.fit(x) if target is None else model.fit(x, target)
            proto = skl2onnx.convert_sklearn(fitted, initial_types=types, target_opset={"": 15, "ai.onnx.ml": 3})
            path.write_bytes(proto.SerializeToString())

        return maker

    for name, model, x, target, types, shapes in models:
        yield name, shapes, maker_of(model, x, target, types)
