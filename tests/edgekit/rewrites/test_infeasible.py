from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.reference import ReferenceEvaluator

from edgekit.errors import InputError
from edgekit.execution.reference import Reference
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.rewrites.infeasible import without_infeasible_branch
from edgekit.stages.fix_shapes import FixShapes
from edgekit.stages.load import Load

OnnxModel = Callable[..., onnx.ModelProto]
WriteOnnx = Callable[..., Path]

TWO_RATES = """g (float[1, L] x, int64 rate) => (float[1, 2] y) {
    is_high = Equal(rate, high)
    y = If (is_high) <
        then_branch = t () => (float[1, 2] a) { a = MatMul(x, long) },
        else_branch = e () => (float[1, 2] b) { b = MatMul(x, short) }
    >
}"""
"""Frames of 6 samples at the high rate, of 3 at any other."""
TABLES = {
    "high": np.array(16000),
    "long": np.arange(12, dtype=np.float32).reshape(6, 2),
    "short": np.ones((3, 2), np.float32),
}


@pytest.mark.parametrize(("size", "rate", "infeasible"), [(6, 16000, 8000), (3, 8000, 16000)])
def test_the_branch_that_cannot_run_gives_nan(onnx_file: WriteOnnx, size: int, rate: int, infeasible: int) -> None:
    path = onnx_file(TWO_RATES, **TABLES)
    result = FixShapes(ShapeRequest({"L": size}))(Load()(path).model)
    (warning,) = result.record["warnings"]
    assert f"for a condition that is {'false' if size == 6 else 'true'} cannot run" in warning
    reference = Reference(result.model, fast=True)
    x = np.random.default_rng(0).standard_normal((1, size)).astype(np.float32)
    (expected,) = ReferenceEvaluator(onnx.load(path)).run(None, {"x": x, "rate": np.array(rate)})
    found = reference.run({"x": x, "rate": np.array(rate)})["y"]
    np.testing.assert_allclose(found, np.asarray(expected), rtol=1e-5)
    assert np.isnan(reference.run({"x": x, "rate": np.array(infeasible)})["y"]).all()


def test_shapes_that_no_branch_takes_are_refused(onnx_file: WriteOnnx) -> None:
    with pytest.raises(InputError, match="cannot take these shapes"):
        FixShapes(ShapeRequest({"L": 4}))(Load()(onnx_file(TWO_RATES, **TABLES)).model)


def test_integers_cannot_say_that_there_is_no_result(onnx_model: OnnxModel) -> None:
    graph = """g (float[1, 6] x, int64 rate) => (int64[1] y) {
        is_high = Equal(rate, high)
        y = If (is_high) <
            then_branch = t () => (int64[1] a) { c = MatMul(x, long) a = ArgMax <axis = 1, keepdims = 0> (c) },
            else_branch = e () => (int64[1] b) { d = MatMul(x, short) b = ArgMax <axis = 1, keepdims = 0> (d) }
        >
    }"""
    model = Model(ir.from_proto(onnx_model(graph, **TABLES)))
    assert without_infeasible_branch(infer_shapes(model, strict=False)) is None
