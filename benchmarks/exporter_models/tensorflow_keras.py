"""Keras and TensorFlow, through tf2onnx and through Keras' own export."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from exporter_models import Maker, Shapes


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


def of_tflite() -> Iterator[tuple[str, Shapes, Maker]]:
    """TensorFlow Lite files, through tf2onnx and tflite2onnx: floats, and integers after quantization."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import keras
    import numpy as np
    import tensorflow
    import tf2onnx
    from keras import layers

    rng = np.random.default_rng(0)
    networks: list[tuple[str, list[int], list[Any]]] = [
        ("dense", [6], [layers.Dense(8, "relu"), layers.Dense(3, "softmax")]),
        (
            "cnn",
            [16, 16, 3],
            [layers.Conv2D(8, 3, 2), layers.BatchNormalization(), layers.ReLU(6), layers.GlobalAveragePooling2D()],
        ),
        (
            "separable",
            [16, 16, 3],
            [layers.SeparableConv2D(8, 3, padding="same"), layers.MaxPooling2D(), layers.Flatten(), layers.Dense(4)],
        ),
        ("upscale", [8, 8, 3], [layers.Conv2D(4, 3, padding="same"), layers.UpSampling2D(interpolation="bilinear")]),
        ("transposed", [8, 8, 3], [layers.Conv2DTranspose(4, 3, 2, padding="same")]),
        ("normalized", [5, 6], [layers.LayerNormalization(), layers.Dense(4, "tanh")]),
        ("lstm", [5, 6], [layers.LSTM(8, unroll=True)]),
    ]

    def maker_of(shape: list[int], stack: list[Any], kind: str, other: bool) -> Maker:
        def maker(path: Path) -> None:
            model = keras.Sequential([keras.Input(shape, 1, name="x"), *stack])
            converter = tensorflow.lite.TFLiteConverter.from_keras_model(model)
            if kind == "int8":
                converter.optimizations = [tensorflow.lite.Optimize.DEFAULT]
                samples = [[rng.standard_normal((1, *shape)).astype(np.float32)] for _ in range(8)]
                converter.representative_dataset = lambda: samples
            lite = path.with_suffix(".tflite")
            try:
                lite.write_bytes(converter.convert())
                if other:
                    import tflite2onnx

                    tflite2onnx.convert(str(lite), str(path))
                    return
                proto, _ = tf2onnx.convert.from_tflite(str(lite), opset=15)
                path.write_bytes(proto.SerializeToString())
            finally:
                lite.unlink(missing_ok=True)

        return maker

    for name, shape, stack in networks:
        yield f"{name}_float", {}, maker_of(shape, stack, "float", False)
        yield f"{name}_int8", {}, maker_of(shape, stack, "int8", False)
        yield f"{name}_tflite2onnx", {}, maker_of(shape, stack, "float", True)
