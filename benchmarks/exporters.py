"""A matrix of exported models: makes them with the exporters that are installed, and packages each for three targets.

    python -m venv exporters && exporters/bin/pip install torch onnxscript skl2onnx onnxmltools xgboost lightgbm \
        scikit-learn tensorflow-cpu tf2onnx onnx numpy
    exporters/bin/python benchmarks/exporters.py make MODELS       (an exporter that is missing is left out and named)
    python benchmarks/exporters.py run MODELS --targets ios18,intel-cpu,onnxruntime --json result.jsonl

The first command needs the exporters and not EdgeKit, the second EdgeKit and no exporter. A model ``NAME.onnx`` has
the shapes of its dynamic inputs beside it, in ``NAME.json``. The run counts, for each target, how many of the models
that ONNX Runtime runs become a verified bundle; the rest is listed with the reason that the user reads.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

Shapes = dict[str, list[int]]
Maker = Callable[[Path], None]
"""Writes a model to a path; raises where its exporter cannot."""


def _tell(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def recipes() -> Iterator[tuple[str, str, Shapes, Maker]]:
    """Family, name, shapes of the inputs that are dynamic, and what makes the model."""
    for family in ("handmade", "sklearn", "boosting", "torch", "keras", "jax"):
        try:
            yield from ((family, *each) for each in globals()[f"of_{family}"]())
        except ImportError as error:
            _tell(f"{family}: left out, {error}")


def make(folder: Path, only: str) -> None:
    """Makes all models that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    done = failed = 0
    for family, name, shapes, maker in recipes():
        path = folder / f"{family}-{name}.onnx"
        if only not in path.stem or path.exists():
            continue
        try:
            with contextlib.redirect_stdout(sys.stderr):
                maker(path)
        except Exception as error:  # whatever an exporter raises: the others are made all the same
            failed += 1
            _tell(f"{path.stem}: not exported: {type(error).__name__}: {' '.join(str(error).split())[:160]}")
            continue
        path.with_suffix(".json").write_text(json.dumps(shapes))
        done += 1
    _tell(f"{done} made, {failed} that their exporter could not make")


# ---------------------------------------------------------------------------------------------------------------------
# Files as exporters wrote them before 2019, and with harmless breaches
# ---------------------------------------------------------------------------------------------------------------------


def of_handmade() -> Iterator[tuple[str, Shapes, Maker]]:
    """Operator sets 1 to 8, and files that break a rule without harm."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)

    def weights(**shapes: tuple[int, ...]) -> list[Any]:
        return [
            numpy_helper.from_array(rng.uniform(0.1, 1, shape).astype(np.float32), name)
            for name, shape in shapes.items()
        ]

    def saved(nodes: Sequence[Any], opset: int, x: Sequence[int], constants: Sequence[Any] = ()) -> Maker:
        def maker(path: Path) -> None:
            inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
            if opset < 9:
                inputs += [helper.make_tensor_value_info(c.name, c.data_type, list(c.dims)) for c in constants]
            graph = helper.make_graph(
                nodes, "old", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)], constants
            )
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
            proto.ir_version = 3 if opset < 9 else 8
            path.write_bytes(proto.SerializeToString())

        return maker

    def node(op_type: str, inputs: str, **attributes: Any) -> Any:
        return helper.make_node(op_type, inputs.split(), ["y"], name=f"the_{op_type}", **attributes)

    image, vector = [1, 3, 8, 8], [2, 6]
    for opset in (1, 3, 5, 6):
        for op in ("Add", "Mul", "Sub", "Div"):
            constants = weights(c=(3,))
            yield (
                f"{op.lower()}_channel_{opset}",
                {},
                saved([node(op, "x c", broadcast=1, axis=1)], opset, image, constants),
            )
    for opset in (5, 6):
        bn = weights(s=(3,), b=(3,), m=(3,), v=(3,))
        obsolete = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
        normalized = node("BatchNormalization", "x s b m v", is_test=1, **obsolete)
        yield f"bn_{opset}", {}, saved([normalized], opset, image, bn)
        gemm = weights(w=(6, 4), b=(4,))
        yield f"gemm_{opset}", {}, saved([node("Gemm", "x w b", broadcast=1)], opset, vector, gemm)
        yield f"prelu_{opset}", {}, saved([node("PRelu", "x a")], opset, image, weights(a=(3,)))
        pool = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
        yield f"avgpool_{opset}", {}, saved([node("AveragePool", "x", **pool)], opset, image)
        yield f"maxpool_{opset}", {}, saved([node("MaxPool", "x", **pool)], opset, image)
        yield f"dropout_{opset}", {}, saved([node("Dropout", "x", is_test=1, ratio=0.5)], opset, image)
    yield "upsample_7", {}, saved([node("Upsample", "x", scales=[1.0, 1.0, 2.0, 2.0], mode="nearest")], 7, image)
    yield "upsample_1", {}, saved([node("Upsample", "x", height_scale=2.0, width_scale=2.0, mode="nearest")], 1, image)
    yield "reshape_1", {}, saved([node("Reshape", "x", shape=[1, -1])], 1, image)
    yield "imagescaler_1", {}, saved([node("ImageScaler", "x", scale=0.5, bias=[0.1, 0.2, 0.3])], 1, image)
    conv = weights(w=(4, 3, 3, 3), b=(4,), s=(4,), bb=(4,), m=(4,), v=(4,), fw=(256, 5), fb=(5,))
    convolved = helper.make_node("Conv", ["x", "w", "b"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    rest = [
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("Flatten", ["r"], ["f"]),
        helper.make_node("Gemm", ["f", "fw", "fb"], ["g"], broadcast=1),
        helper.make_node("Softmax", ["g"], ["y"]),
    ]
    for opset in (3, 6):
        obsolete = {"consumed_inputs": [0, 0, 0, 1, 1]} if opset < 6 else {}
        normalized = helper.make_node(
            "BatchNormalization", ["c", "s", "bb", "m", "v"], ["n"], is_test=1, epsilon=1e-5, **obsolete
        )
        yield f"cnn_{opset}", {}, saved([convolved, normalized, *rest], opset, image, conv)

    def broken(change: Callable[[Any], None]) -> Maker:
        def maker(path: Path) -> None:
            saved([node("Mul", "x c")], 13, [1, 4], weights(c=(4,)))(path)
            proto = onnx.load(path)
            change(proto)
            path.write_bytes(proto.SerializeToString())

        return maker

    def with_unused(proto: Any) -> None:
        tensor = proto.graph.initializer.add(name="unused", data_type=TensorProto.FLOAT, raw_data=b"abc")
        tensor.dims.append(7)

    yield "no_graph_name", {}, broken(lambda proto: proto.graph.ClearField("name"))
    yield "unused_odd_initializer", {}, broken(with_unused)

    def with_bytes(path: Path) -> None:
        saved([node("Relu", "x")], 13, [1, 4])(path)
        proto = onnx.load(path)
        proto.graph.node[0].doc_string = "@@@@"
        path.write_bytes(proto.SerializeToString().replace(b"@@@@", b"\xff\xfe\xfd\xfc"))

    yield "doc_string_no_text", {}, with_bytes


# ---------------------------------------------------------------------------------------------------------------------
# scikit-learn, XGBoost, LightGBM
# ---------------------------------------------------------------------------------------------------------------------


def _table() -> tuple[Any, Any, Any, Any]:
    """Features, two classes, three classes, and a number to regress."""
    import numpy as np

    x = np.random.default_rng(0).standard_normal((300, 5)).astype(np.float32)
    return x, (x[:, 0] + 0.3 * x[:, 1] > 0).astype(int), np.digitize(x[:, 0], [-0.5, 0.5]), 2 * x[:, 0] + x[:, 1] ** 2


def of_sklearn() -> Iterator[tuple[str, Shapes, Maker]]:
    """Through skl2onnx, with its default options, and some without maps."""
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


# ---------------------------------------------------------------------------------------------------------------------
# PyTorch
# ---------------------------------------------------------------------------------------------------------------------


def of_torch() -> Iterator[tuple[str, Shapes, Maker]]:
    """Small networks of every kind, by both exporters, at several opsets."""
    import torch
    from torch import nn

    class Recurrent(nn.Module):
        def __init__(self, kind: str, **options: Any) -> None:
            super().__init__()
            self.layer = getattr(nn, kind)(6, 8, batch_first=True, **options)

        def forward(self, x: Any) -> Any:
            return self.layer(x)[0]

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

    class Call(nn.Module):
        def __init__(self, function: Callable[..., Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, *inputs: Any) -> Any:
            return self.function(*inputs)

    image, sequence = torch.randn(1, 3, 16, 16), torch.randn(1, 5, 6)
    up = nn.functional.interpolate
    networks: list[tuple[str, Any, Any]] = [
        ("mlp", nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(-1)), torch.randn(1, 6)),
        (
            "cnn",
            nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
            image,
        ),
        (
            "mobile",
            nn.Sequential(nn.Conv2d(3, 6, 1), nn.Hardswish(), nn.Conv2d(6, 6, 3, 1, 1, groups=6), nn.SiLU()),
            image,
        ),
        ("deconv", nn.Sequential(nn.ConvTranspose2d(3, 4, 4, 2, 1), nn.LeakyReLU(), nn.InstanceNorm2d(4)), image),
        ("upscale", nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.PixelShuffle(2), nn.Sigmoid()), image),
        ("bilinear", Call(lambda x: up(x, scale_factor=2.0, mode="bilinear", align_corners=False)), image),
        ("aligned", Call(lambda x: up(x, size=(24, 20), mode="bilinear", align_corners=True)), image),
        ("bicubic", Call(lambda x: up(x, size=(24, 20), mode="bicubic")), image),
        ("antialias", Call(lambda x: up(x, size=(7, 9), mode="bilinear", antialias=True)), image),
        ("nearest", Call(lambda x: up(x, scale_factor=2.0, mode="nearest")), image),
        ("lstm", Recurrent("LSTM"), sequence),
        ("lstm_two_ways", Recurrent("LSTM", bidirectional=True, num_layers=2), sequence),
        ("gru", Recurrent("GRU"), sequence),
        ("rnn", Recurrent("RNN"), sequence),
        ("transformer", Attention(), torch.randn(1, 5, 16)),
        ("layer_norm", nn.Sequential(nn.LayerNorm(6), nn.GELU()), sequence),
        ("group_norm", nn.Sequential(nn.Conv2d(3, 8, 1), nn.GroupNorm(2, 8), nn.Mish()), image),
        ("embedding", nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 4)), torch.randint(0, 20, (1, 7))),
        ("conv1d", nn.Sequential(nn.Conv1d(5, 8, 3, padding=1), nn.ELU(), nn.MaxPool1d(2)), sequence),
        (
            "conv3d",
            nn.Sequential(nn.Conv3d(2, 4, 3, padding=1), nn.ReLU(), nn.MaxPool3d(2)),
            torch.randn(1, 2, 4, 8, 8),
        ),
        ("einsum", Call(lambda x: torch.einsum("bij,bkj->bik", x, x)), sequence),
        ("cumsum", Call(lambda x: torch.cumsum(x, 1)), sequence),
        ("cumprod", Call(lambda x: torch.cumprod(x, 1)), sequence),
        ("topk", Call(lambda x: torch.topk(x, 3, -1)), sequence),
        ("argmax", Call(lambda x: x.argmax(-1)), sequence),
        ("gather", Call(lambda x: torch.gather(x, 1, torch.tensor([[[0, 1, 2, 3, 4, 0]]]))), sequence),
        ("grid_sample", Call(lambda x: nn.functional.grid_sample(x, torch.tanh(x[:, :2].permute(0, 2, 3, 1)))), image),
        ("padding", Call(lambda x: nn.functional.pad(x, (1, 2, 2, 1), mode="reflect")), image),
        ("logsumexp", Call(lambda x: torch.logsumexp(x, -1)), sequence),
        ("norms", Call(lambda x: x / x.norm(dim=-1, keepdim=True)), sequence),
        ("where", Call(lambda x: torch.where(x > 0, x, x.exp() - 1)), sequence),
        ("triangle", Call(lambda x: torch.tril(x @ x.transpose(1, 2))), sequence),
        ("einops", Call(lambda x: x.reshape(1, 3, 4, 4, 4, 4).permute(0, 2, 4, 1, 3, 5).flatten(3).mean(-1)), image),
        ("scatter", Call(lambda x: x.scatter(1, torch.zeros(1, 1, 6, dtype=torch.long), x[:, :1] * 2)), sequence),
        ("remainder", Call(lambda x: torch.remainder(x, 0.7)), sequence),
    ]

    def maker_of(network: Any, x: Any, opset: int, dynamo: bool, axes: Any) -> Maker:
        def maker(path: Path) -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                options: dict[str, Any] = {"dynamo": True} if dynamo else {"dynamo": False, "dynamic_axes": axes}
                torch.onnx.export(
                    network.eval(),
                    (x,),
                    str(path),
                    input_names=["x"],
                    opset_version=opset,
                    external_data=False,
                    **options,
                )

        return maker

    for name, network, x in networks:
        for opset in (11, 17):
            yield f"{name}_script_{opset}", {}, maker_of(network, x, opset, False, None)
        yield f"{name}_dynamo_18", {}, maker_of(network, x, 18, True, None)
    for name, network, x in networks[:3]:
        yield f"{name}_open_13", {"x": list(x.shape)}, maker_of(network, x, 13, False, {"x": {0: "n"}})


# ---------------------------------------------------------------------------------------------------------------------
# Keras and JAX
# ---------------------------------------------------------------------------------------------------------------------


def of_keras() -> Iterator[tuple[str, Shapes, Maker]]:
    """Keras through tf2onnx and through its own export."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras
    import tensorflow
    import tf2onnx
    from keras import layers

    logging.disable(logging.WARNING)
    networks: list[tuple[str, list[int], list[Any]]] = [
        ("dense", [6], [layers.Dense(8, "relu"), layers.Dense(3, "softmax")]),
        (
            "cnn",
            [16, 16, 3],
            [layers.Conv2D(8, 3, 2), layers.BatchNormalization(), layers.ReLU(), layers.GlobalAveragePooling2D()],
        ),
        (
            "separable",
            [16, 16, 3],
            [layers.SeparableConv2D(8, 3, padding="same"), layers.MaxPooling2D(), layers.Flatten()],
        ),
        (
            "transposed",
            [8, 8, 3],
            [layers.Conv2DTranspose(4, 3, 2, padding="same"), layers.UpSampling2D(interpolation="bilinear")],
        ),
        ("lstm", [5, 6], [layers.LSTM(8)]),
        ("lstm_sequences", [5, 6], [layers.LSTM(8, return_sequences=True), layers.LSTM(4)]),
        ("gru", [5, 6], [layers.GRU(8)]),
        ("gru_sequences", [5, 6], [layers.GRU(8, return_sequences=True)]),
        ("rnn", [5, 6], [layers.SimpleRNN(8)]),
        ("two_ways", [5, 6], [layers.Bidirectional(layers.LSTM(8, return_sequences=True))]),
        ("conv1d", [10, 6], [layers.Conv1D(8, 3, padding="causal"), layers.GlobalMaxPooling1D()]),
        ("normalized", [5, 6], [layers.LayerNormalization(), layers.Activation("gelu")]),
    ]

    def maker_of(shape: list[int], stack: list[Any], own: bool) -> Maker:
        def maker(path: Path) -> None:
            model = keras.Sequential([keras.Input(shape, name="x"), *stack])
            if own:
                model(tensorflow.zeros([1, *shape]))
                model.export(str(path), format="onnx", verbose=False)
                return
            function = tensorflow.function(lambda x: model(x))
            signature = [tensorflow.TensorSpec([1, *shape], tensorflow.float32, name="x")]
            proto, _ = tf2onnx.convert.from_function(function, input_signature=signature, opset=15)
            path.write_bytes(proto.SerializeToString())

        return maker

    for name, shape, stack in networks:
        yield f"{name}_tf2onnx", {}, maker_of(shape, stack, False)
        yield f"{name}_export", {"x": [1, *shape]}, maker_of(shape, stack, True)


def of_jax() -> Iterator[tuple[str, Shapes, Maker]]:
    """JAX through TensorFlow (jax2tf) and tf2onnx."""
    import jax
    import jax.numpy as jnp
    import tensorflow
    import tf2onnx
    from jax.experimental import jax2tf

    functions: list[tuple[str, Callable[[Any], Any]]] = [
        ("gelu", lambda x: jax.nn.gelu(x @ jnp.ones((6, 4)))),
        ("softmax", lambda x: jax.nn.softmax(x, axis=-1)),
        ("norm", lambda x: (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)),
    ]

    def maker_of(function: Callable[[Any], Any]) -> Maker:
        def maker(path: Path) -> None:
            converted = tensorflow.function(jax2tf.convert(function, native_serialization=False), autograph=False)
            signature = [tensorflow.TensorSpec([1, 5, 6], tensorflow.float32, name="x")]
            proto, _ = tf2onnx.convert.from_function(converted, input_signature=signature, opset=15)
            path.write_bytes(proto.SerializeToString())

        return maker

    for name, function in functions:
        yield name, {}, maker_of(function)


# ---------------------------------------------------------------------------------------------------------------------
# Packaging
# ---------------------------------------------------------------------------------------------------------------------


def run(folder: Path, targets: Sequence[str], only: str, output: Path | None) -> None:
    """Packages every model for every target, and counts."""
    import onnxruntime

    rows = []
    for path in sorted(folder.glob("*.onnx")):
        if only not in path.stem:
            continue
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        try:
            onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
            runs = True
        except Exception:  # its exceptions have no base of their own
            runs = False
        for target in targets:
            row = {"model": path.stem, "target": target, "onnxruntime_runs": runs, **_packaged(path, target)}
            rows.append(row)
            _tell(
                f"{path.stem:40s} {target:12s} {row['seconds']:5.1f} s  {row['outcome']} {row['reason'][:300]}",
            )
    if output is not None:
        output.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for target in targets:
        own = [row for row in rows if row["target"] == target]
        good = sum(row["outcome"] == "bundle" for row in own)
        runnable = [row for row in own if row["onnxruntime_runs"]]
        of_runnable = sum(row["outcome"] == "bundle" for row in runnable)
        faults = sum(row["outcome"] == "fault" for row in own)
        _tell(
            f"{target}: {good} of {len(own)} bundles; {of_runnable} of the {len(runnable)} that ONNX Runtime runs; "
            f"{faults} faults"
        )


def _packaged(path: Path, target: str) -> dict[str, Any]:
    from edgekit.errors import EdgeKitError
    from edgekit.graph.shape_request import ShapeRequest
    from edgekit.pipeline import PackageRequest, package
    from edgekit.progress import Progress

    side = path.with_suffix(".json")
    shapes = json.loads(side.read_text()) if side.exists() else {}
    start = time.perf_counter()
    outcome, reason = "bundle", ""
    with tempfile.TemporaryDirectory() as scratch:
        try:
            package(
                PackageRequest(path, target, Path(scratch) / "bundle", shapes=ShapeRequest(shapes=shapes)), Progress()
            )
        except EdgeKitError as error:
            outcome = "fault" if error.exit_code == 3 else "refused"
            reason = " ".join(str(error).split())
        except Exception as error:  # what no stage made an error of its own
            outcome, reason = "fault", repr(error)
    return {"outcome": outcome, "reason": reason, "seconds": round(time.perf_counter() - start, 2)}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("command", choices=("make", "run"))
    parser.add_argument("folder", type=Path, help="where the models are")
    parser.add_argument("--only", default="", help="models whose name contains this")
    parser.add_argument("--targets", default="ios18,intel-cpu,onnxruntime", help="default: %(default)s")
    parser.add_argument("--json", type=Path, help="write a line per model and target")
    options = parser.parse_args()
    if options.command == "make":
        make(options.folder, options.only)
    else:
        run(options.folder, options.targets.split(","), options.only, options.json)


if __name__ == "__main__":
    main()
