"""Small graphs, and ONNX Runtime to say what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import onnx_ir as ir
import pytest

Execute = Callable[[ir.Model, Mapping[str, np.ndarray]], list[np.ndarray]]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def execute() -> Execute:
    """Runs a model in ONNX Runtime without its graph optimizations."""
    import onnxruntime

    def run(model: ir.Model, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        message = ir.to_proto(model).SerializeToString()
        session = onnxruntime.InferenceSession(message, options, providers=["CPUExecutionProvider"])
        return list(session.run(None, dict(feeds)))

    return run


@pytest.fixture
def parse() -> Callable[..., ir.Model]:
    """A model from ONNX's text format, with constants given as arrays."""

    def build(text: str, **constants: np.ndarray) -> ir.Model:
        model = onnx.parser.parse_model(text)
        for name, array in constants.items():
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        onnx.checker.check_model(inferred)
        return ir.from_proto(inferred)

    return build
