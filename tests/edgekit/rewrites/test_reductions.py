"""Reductions by others, against ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from tests.edgekit.rewrites.test_tensor_operators import floats, rewritten_alone, single


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize(("shape", "opset"), [((2, 3, 4), 9), ((2, 3, 4, 5), 17), ((1, 2, 3, 2, 2), 18)])
def test_global_pools(model_of, run, shape, opset, power):
    x = {"x": floats(*shape)}
    proto = single("GlobalLpPool", x, opset=opset, p=power)
    changed = rewritten_alone(model_of, proto)
    assert "GlobalLpPool" not in {node.op_type for node in changed.graph.node}
    np.testing.assert_allclose(run(changed, x)[0], run(proto, x)[0], rtol=1e-5)


@pytest.mark.parametrize("opset", [12, 18])
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_extremes_of_8_bit_integers(model_of, run, op_type, dtype, keepdims, opset):
    limits = np.iinfo(dtype)
    x = {"x": np.random.default_rng(2).integers(limits.min, limits.max + 1, (2, 3, 4)).astype(dtype)}
    axes = {"axes": [1]} if opset < 18 else {}
    constants = {} if opset < 18 else {"a": np.array([1])}
    kind = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    proto = single(op_type, x, constants, opset=opset, kind=kind, keepdims=keepdims, **axes)
    changed = rewritten_alone(model_of, proto)
    assert [node.op_type for node in changed.graph.node] == ["Cast", op_type, "Cast"]
    np.testing.assert_array_equal(run(changed, x)[0], run(proto, x)[0])


@pytest.mark.parametrize("axes", [[1], [-1, 0], []], ids=str)
@pytest.mark.parametrize("settings", [{"keepdims": 0}, {"noop_with_empty_axes": 1}, {}], ids=str)
@pytest.mark.parametrize("op_type", ["ReduceLogSumExp", "ReduceL1", "ReduceL2", "ReduceLogSum"])
def test_axes_that_are_computed(model_of, run, op_type, settings, axes):
    x = {"x": floats(2, 1, 3, 4), "a": np.array(axes, np.int64)}
    if op_type == "ReduceLogSum":
        x["x"] = np.abs(x["x"])
    proto = single(op_type, x, opset=18, **settings)
    changed = rewritten_alone(model_of, proto)
    assert op_type not in {node.op_type for node in changed.graph.node}
    np.testing.assert_allclose(run(changed, x)[0], run(proto, x)[0], rtol=1e-5, atol=1e-6)
