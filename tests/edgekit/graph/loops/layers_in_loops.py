"""Recurrent layers as exporters' loops: their weights, and what ONNX Runtime computes of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime

BATCH, FEATURES, SIZE = 2, 3, 5


def filled(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.ModelProto:
    """The model with random numbers for what its text declares alone, by name, and zeros for ``zeros``."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(-1, 1, shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["zeros"] = np.zeros((BATCH, SIZE), np.float32)
    kept = [tensor for tensor in model.graph.initializer if tensor.name not in arrays]
    del model.graph.initializer[:]
    tensors = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items()]
    model.graph.initializer.extend([*kept, *tensors])
    return onnx.shape_inference.infer_shapes(model, data_prop=True)


def computed(model: onnx.ModelProto, steps: int, largest: float = 3.0) -> list[np.ndarray]:
    """What comes of random inputs up to a magnitude, and of a random state."""
    rng = np.random.default_rng(1)
    feeds = {
        "x": rng.uniform(-largest, largest, (steps, BATCH, FEATURES)).astype(np.float32),
        "fed": rng.uniform(-1, 1, (BATCH, SIZE)).astype(np.float32),
    }
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, feeds)
