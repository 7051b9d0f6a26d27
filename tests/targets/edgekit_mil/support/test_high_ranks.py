from __future__ import annotations

import numpy as np
import pytest
from onnx.helper import make_node

from edgekit.errors import UnsupportedOpsError


def tensor(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


@pytest.mark.parametrize("perm", [[0, 3, 1, 4, 2, 5], [5, 4, 3, 2, 1, 0], [0, 1, 3, 2, 4, 5], [2, 0, 1, 5, 3, 4]])
def test_transpose_of_rank_six_agrees(agrees, perm):
    agrees("Transpose", [tensor(2, 3, 2, 3, 2, 3)], perm=perm)


def test_blocks_are_moved_between_reshapes(graph_agrees):
    nodes = [
        make_node("Reshape", ["x", "apart"], ["a"]),
        make_node("Transpose", ["a"], ["b"], perm=[0, 1, 3, 2, 4, 5]),
        make_node("Relu", ["b"], ["c"]),
        make_node("Reshape", ["c", "together"], ["y"]),
    ]
    constants = {"apart": np.array([1, 2, 2, 3, 2, 4]), "together": np.array([-1, 4, 4])}
    graph_agrees(nodes, {"x": tensor(1, 4, 6, 4)}, {"y": "float32"}, constants)


@pytest.mark.parametrize("shape", [(2, 1, 3, 2, 2, 2), (3, 1, 1, 2), (), (1, 2, 1, 1, 2, 2)])
def test_broadcasting_of_rank_six_agrees(agrees, shape):
    agrees("Add", [tensor(2, 2, 3, 2, 2, 2), tensor(*shape)], fed=[0, 1])


def test_broadcasting_every_second_dimension_is_refused(lower):
    a, b = tensor(2, 1, 2, 1, 2, 1), tensor(1, 2, 1, 2, 1, 2)
    with pytest.raises(UnsupportedOpsError, match="broadcasts 6 dimensions apart"):
        lower("Add", [a, b], fed=[0, 1])


@pytest.mark.parametrize("keepdims", [0, 1])
def test_reduction_of_rank_seven_agrees(agrees, keepdims):
    agrees("ReduceMax", [tensor(2, 1, 3, 2, 1, 2, 2), np.array([2, 3, 5])], opset=18, keepdims=keepdims)


def test_other_movements_of_rank_six_agree(agrees):
    x = tensor(2, 2, 3, 2, 2, 2)
    agrees("Gather", [x, np.array([2, 0])], axis=2)
    agrees("GatherElements", [x, np.zeros((2, 2, 1, 2, 2, 2), np.int64)], axis=2)
    agrees("Slice", [x, np.array([1, -1]), np.array([3, -3]), np.array([2, 5]), np.array([1, -1])])
    agrees("Concat", [x, x], fed=[0, 1], axis=2)
    agrees("Expand", [x[:, :1], np.array([2, 2, 3, 2, 2, 2])])
    agrees("Unsqueeze", [x, np.array([3])])
    agrees("Squeeze", [x[:, :1], np.array([1])])


def test_operator_that_needs_five_dimensions_says_so(lower):
    with pytest.raises(UnsupportedOpsError, match="rank 6, Core ML has 5 dimensions at most"):
        lower("CumSum", [tensor(2, 2, 2, 2, 2, 2), np.array(0)])


def test_operator_goes_by_its_definition_where_that_takes_any_rank(agrees):
    agrees("Softmax", [tensor(2, 2, 2, 2, 2, 2)], axis=3)


@pytest.mark.parametrize(
    ("scale", "zero_point", "axis"),
    [
        (np.float32(0.5), np.uint8(9), 1),
        (np.array([0.5, 2, 1], np.float32), np.array([0, 3, 9], np.uint8), 2),
        (np.array([0.5, 2], np.float32), np.array([0, 3], np.uint8), -1),
    ],
)
def test_quantization_of_rank_six_agrees(graph_agrees, scale, zero_point, axis):
    nodes = [
        make_node("Reshape", ["x", "apart"], ["a"]),
        make_node("QuantizeLinear", ["a", "scale", "zero_point"], ["q"], axis=axis),
        make_node("DequantizeLinear", ["q", "scale", "zero_point"], ["d"], axis=axis),
        make_node("Transpose", ["d"], ["t"], perm=[0, 1, 3, 2, 4, 5]),
        make_node("Reshape", ["t", "together"], ["y"]),
    ]
    constants = {"apart": np.array([1, 2, 3, 2, 2, 2]), "together": np.array([-1]), "scale": np.array(scale)}
    graph_agrees(nodes, {"x": tensor(4, 12) * 0.9}, {"y": "float32"}, {**constants, "zero_point": np.array(zero_point)})
