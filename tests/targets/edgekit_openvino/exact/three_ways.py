"""One model executed by ONNX Runtime, by OpenVINO as its own frontend reads it, and as EdgeKit converts it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import openvino

import edgekit_openvino


def expected(proto: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> np.ndarray:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(proto.SerializeToString(), options).run(None, feeds)[0]


def as_read(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    """Returns what OpenVINO computes of a model that its own frontend reads, without EdgeKit's corrections."""
    onnx.save(proto, folder / "plain.onnx")
    compiled = openvino.Core().compile_model(folder / "plain.onnx", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return next(iter(compiled(feeds).values()))


def converted(proto: onnx.ModelProto, feeds: dict[str, np.ndarray], folder: Path) -> np.ndarray:
    return edgekit_openvino.load(edgekit_openvino.convert(proto, folder / "model")).run(feeds)["y"]
