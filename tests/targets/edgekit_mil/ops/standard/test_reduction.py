from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml

SIGNED = ["ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]
ALL = [*SIGNED, "ReduceLogSum", "ReduceLogSumExp"]


@pytest.mark.parametrize("op_type", ALL)
@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [None, [1], [0, -1]])
def test_axes_from_an_input_agree(agrees, rng, op_type, keepdims, axes):
    x = rng.uniform(0.5, 1.5, (2, 3, 4)).astype(np.float32)
    agrees(op_type, [x, None if axes is None else np.array(axes)], opset=18, keepdims=keepdims)


@pytest.mark.parametrize("op_type", ALL)
def test_axes_from_an_attribute_agree(agrees, rng, op_type):
    agrees(op_type, [rng.uniform(0.5, 1.5, (2, 3, 4)).astype(np.float32)], opset=11, axes=[-1, 0], keepdims=0)


@pytest.mark.parametrize("op_type", SIGNED)
def test_integers_agree(agrees, op_type):
    x = np.array([[3, -2, 5], [1, 4, -6]], np.int32)
    agrees(op_type, [x, np.array([1])], outputs=["int32"], opset=18)


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_truth_values_agree(agrees, op_type):
    x = np.array([[True, False], [True, True]])
    agrees(op_type, [x, np.array([1])], outputs=["bool"], opset=20, against="reference")


@pytest.mark.parametrize("dtype", ["float32", "int32"])
@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin", "ReduceSum", "ReduceProd"])
def test_nothing_reduces_to_the_neutral_element(lower, op_type, dtype):
    (reduced,) = lower(op_type, [np.zeros((2, 0, 3), dtype), np.array([1])], outputs=[dtype], opset=18, keepdims=0)
    limits = (-np.inf, np.inf) if dtype == "float32" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    neutral = {"ReduceMax": limits[0], "ReduceMin": limits[1], "ReduceSum": 0, "ReduceProd": 1}[op_type]
    assert reduced.shape == (2, 3)
    np.testing.assert_array_equal(reduced, np.full((2, 3), neutral, dtype))


@pytest.mark.parametrize("op_type", [*SIGNED, "ReduceLogSum", "ReduceLogSumExp"])
def test_no_axes_reduce_nothing_where_asked(agrees, rng, op_type):
    """What is done to each element is left: a square, an absolute value, a logarithm."""
    x = rng.standard_normal((2, 3)).astype(np.float32)
    x = np.abs(x) + 1 if op_type == "ReduceLogSum" else x
    agrees(op_type, [x, np.array([], np.int64)], opset=18, noop_with_empty_axes=1)


@pytest.mark.parametrize(
    ("op_type", "expected"),
    [("ReduceL2", [1, 2, 8, 20]), ("ReduceLogSum", [0, 0, 2, 2]), ("ReduceMean", [1, 2, 8, 20])],
)
def test_no_axes_reduce_no_integers_where_asked(lower, op_type, expected):
    """Logarithms of 8 and 20 are 2.08 and 2.996; integers are truncated."""
    inputs = [np.array([1, 2, 8, 20]), np.array([], np.int64)]
    (found,) = lower(op_type, inputs, outputs=["int64"], opset=18, noop_with_empty_axes=1)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("row", [[-np.inf, -np.inf], [np.inf, 1.0], [np.inf, -np.inf]], ids=str)
def test_infinite_exponents_agree(agrees, row):
    agrees("ReduceLogSumExp", [np.array([row, [1.0, 2.0]], np.float32), np.array([1])], opset=18)


def test_large_exponents_do_not_overflow(agrees):
    agrees("ReduceLogSumExp", [np.array([[1000.0, 1001.0, -np.inf]], np.float32)], opset=18)


def test_scalar_agrees(agrees):
    agrees("ReduceL1", [np.array(-3.0, np.float32)], opset=18)


@pytest.mark.parametrize("op_type", ["ReduceMean", "ReduceSum"])
def test_rows_of_a_number_that_may_be_none(tmp_path, rng, op_type):
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
    g (float[5, 3] x, float[5] wanted) => (float[3] y) <int64[1] first = {{0}}, float low = {{0.5}}> {{
        is_wanted = Greater (wanted, low)
        rows = Compress <axis = 0> (x, is_wanted)
        y = {op_type} <keepdims = 0> (rows, first)
    }}""")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runner = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "m", precision="float32"))
    for wanted in ([1, 0, 1, 1, 0], [0, 0, 0, 0, 0]):
        feeds = {"x": rng.standard_normal((5, 3)).astype(np.float32), "wanted": np.array(wanted, np.float32)}
        np.testing.assert_allclose(runner.run(feeds)["y"], session.run(None, feeds)[0], rtol=1e-6, atol=1e-6)
