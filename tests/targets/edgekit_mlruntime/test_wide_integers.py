from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest

import edgekit_coreml
from edgekit_mlruntime.failures import ExecutionError

LARGEST = 2**31 - 1


@pytest.fixture
def run(tmp_path):
    """Runs a node with one or two inputs: in the runtime, and in ONNX Runtime."""

    def both(op_type, inputs, constants=(), dtype="int64", source=None, **attributes):
        source = source or dtype
        kinds = [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in (source, dtype)]
        names = [f"x{index}" for index in range(len(inputs))]
        feeds = {name: np.array(values, source) for name, values in zip(names, inputs, strict=True)}
        initializers = [onnx.numpy_helper.from_array(np.array(k), f"k{index}") for index, k in enumerate(constants)]
        nodes = [
            onnx.helper.make_node(op_type, [*names, *(k.name for k in initializers)], ["y"], **attributes),
        ]
        graph = onnx.helper.make_graph(
            nodes,
            "g",
            [onnx.helper.make_tensor_value_info(name, kinds[0], feed.shape) for name, feed in feeds.items()],
            [onnx.helper.make_tensor_value_info("y", kinds[1], None)],
            initializers,
        )
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
        runner = edgekit_coreml.load(edgekit_coreml.convert(model, tmp_path / "m", precision="float32"))
        (expected,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
        return runner.run(feeds)["y"], expected

    return both


LEAST = -(2**31)
CASES = {
    "Add": ([[LARGEST, 5], [0, 1]], [[LARGEST, 5], [1, 1]]),
    "Sub": ([[-LARGEST, 5], [1, 1]], [[-LARGEST, 5], [2, 1]]),
    "Mul": ([[46340, 5], [46340, 1]], [[46341, 5], [46341, 1]]),
    "Abs": ([[LEAST + 1, 5]], [[LEAST, 5]]),
    "Div": ([[LEAST + 1, 5], [1, -1]], [[LEAST, 5], [-1, 1]]),
    "MatMul": ([[[LARGEST, 0]], [[1], [1]]], [[[LARGEST, 1]], [[1], [1]]]),
}


@pytest.mark.parametrize("op_type", CASES)
def test_arithmetic_of_wide_integers_fits_or_fails(run, op_type):
    fitting, leaving = CASES[op_type]
    np.testing.assert_array_equal(*run(op_type, fitting))
    with pytest.raises(ExecutionError, match="does not fit int32"):
        run(op_type, leaving)


@pytest.mark.parametrize(
    ("op_type", "constants", "attributes"),
    [
        ("ReduceSum", [np.array([0])], {}),
        ("CumSum", [np.array(0)], {}),
        ("ReduceProd", [], {"axes": [0]}),
        ("ReduceL1", [], {"axes": [0]}),
        ("Einsum", [], {"equation": "i->"}),
        ("MatMul", [np.array([1, 1, 1])], {}),
        ("ScatterElements", [np.array([0]), np.array([2**30])], {"reduction": "add"}),
        ("ScatterElements", [np.array([0]), np.array([2])], {"reduction": "mul"}),
        ("ScatterND", [np.array([[0]]), np.array([2**30])], {"reduction": "add"}),
    ],
)
def test_sums_and_products_fit_or_fail(run, op_type, constants, attributes):
    np.testing.assert_array_equal(*run(op_type, [[2**29, 1, 2]], constants, **attributes))
    with pytest.raises(ExecutionError, match="does not fit int32"):
        run(op_type, [[2**30, 2**30, 2]], constants, **attributes)


@pytest.mark.parametrize(
    ("attributes", "fitting", "leaving"),
    [
        ({"reverse": 1}, [5, LARGEST, -5], [-5, LARGEST, 5]),
        ({"exclusive": 1}, [LARGEST, 0, 1], [LARGEST, 1, 0]),
        ({"exclusive": 1, "reverse": 1}, [1, 0, LARGEST], [0, 1, LARGEST]),
    ],
)
def test_a_running_sum_is_looked_at_as_it_runs(run, attributes, fitting, leaving):
    np.testing.assert_array_equal(*run("CumSum", [fitting], [np.array(0)], **attributes))
    with pytest.raises(ExecutionError, match="does not fit int32"):
        run("CumSum", [leaving], [np.array(0)], **attributes)


def test_powers_fit_or_fail(run):
    np.testing.assert_array_equal(*run("Pow", [[2, 3]], [np.array(30 // 2)]))
    with pytest.raises(ExecutionError, match=r"found: .*68719476736"):
        run("Pow", [[2, 8]], [np.array(12)])


def test_floats_too_large_for_the_integer_fail_and_infinite_ones_do_not(run):
    attributes = {"dtype": "int64", "source": "float32", "to": onnx.TensorProto.INT64}
    np.testing.assert_array_equal(*run("Cast", [[2.5, -3e8]], **attributes))
    run("Cast", [[np.inf, np.nan]], **attributes)
    with pytest.raises(ExecutionError, match="does not fit int32"):
        run("Cast", [[1e10]], **attributes)


def test_integers_of_32_bits_wrap_around(run):
    actual, expected = run("Add", [[LARGEST], [1]], dtype="int32")
    np.testing.assert_array_equal(actual, expected)
