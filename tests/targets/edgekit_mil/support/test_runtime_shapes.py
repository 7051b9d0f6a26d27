from __future__ import annotations

import numpy as np
import pytest
import sympy
from onnx.helper import make_node

from edgekit_mil.core.mil import Function, ct, get_new_symbol, mb, types
from edgekit_mil.core.values import Unsupported
from edgekit_mil.support.runtime_shapes import (
    most_computed,
    most_of,
    note_greater_limit,
    note_limit,
    reshape_target,
)

SCORES = np.array([[0.1, 0.9, 0.4], [0.8, 0.2, 0.7]], np.float32)
ONE = np.array(1, np.float32)


def detections():
    """The places of high scores, and how many there are: sizes that only a run tells."""
    return [
        make_node("Greater", ["x", "least"], ["high"]),
        make_node("NonZero", ["high"], ["columns"]),
        make_node("Transpose", ["columns"], ["places"]),
    ]


CONSTANTS = {"least": np.array(0.5, np.float32)}


@pytest.mark.parametrize(
    ("nodes", "dtype", "constants"),
    [
        ([make_node("GatherND", ["x", "places"], ["y"])], "float32", {}),
        (
            [
                make_node("GatherND", ["x", "places"], ["found"]),
                make_node("ScatterND", ["zeros", "places", "found"], ["y"]),
            ],
            "float32",
            {"zeros": np.zeros((2, 3), np.float32)},
        ),
        ([make_node("ReduceSum", ["places", "first"], ["y"], keepdims=0)], "int64", {"first": np.array([0])}),
        ([make_node("Concat", ["places", "more"], ["y"], axis=0)], "int64", {"more": np.array([[7, 7]])}),
        (
            [make_node("Greater", ["places", "zero"], ["c"]), make_node("Where", ["c", "one", "minus"], ["y"])],
            "float32",
            {"zero": np.array(0), "one": ONE, "minus": -ONE},
        ),
        ([make_node("Shape", ["places"], ["y"])], "int64", {}),
        ([make_node("Size", ["places"], ["y"])], "int64", {}),
        ([make_node("Flatten", ["places"], ["y"])], "int64", {}),
        ([make_node("Reshape", ["places", "pairs"], ["y"])], "int64", {"pairs": np.array([-1, 1, 2])}),
        ([make_node("Unsqueeze", ["places", "first"], ["y"])], "int64", {"first": np.array([0])}),
        (
            [make_node("Slice", ["places", "one", "end", "one"], ["y"])],
            "int64",
            {"one": np.array([1]), "end": np.array([2])},
        ),
        ([make_node("ArgMax", ["places"], ["y"], axis=0)], "int64", {}),
        (
            [make_node("OneHot", ["places", "depth", "values"], ["y"])],
            "float32",
            {"depth": np.array(3), "values": np.array([0, 1], np.float32)},
        ),
        ([make_node("Cast", ["places"], ["f"], to=1), make_node("Softmax", ["f"], ["y"], axis=0)], "float32", {}),
        ([make_node("Tile", ["places", "twice"], ["y"])], "int64", {"twice": np.array([2, 1])}),
        ([make_node("Expand", ["places", "shape"], ["y"])], "int64", {"shape": np.array([3, 1, 2])}),
        ([make_node("Expand", ["places", "shape"], ["y"])], "int64", {"shape": np.array([2])}),
        (
            [make_node("Cast", ["places"], ["p"], to=2), make_node("MatMulInteger", ["p", "b", "two"], ["y"])],
            "int32",
            {"b": np.array([[3, -4], [5, 6]], np.int8), "two": np.array(2, np.uint8)},
        ),
        ([make_node("CumSum", ["places", "axis"], ["y"])], "int64", {"axis": np.array(0)}),
        ([make_node("Shape", ["places"], ["s"]), make_node("Expand", ["z", "s"], ["y"])], "int64", {"z": np.array(5)}),
        ([make_node("Shape", ["places"], ["s"]), make_node("ConstantOfShape", ["s"], ["y"])], "float32", {}),
    ],
    ids=lambda value: "+".join(node.op_type for node in value) if isinstance(value, list) else "",
)
def test_sizes_that_a_run_tells_agree(graph_agrees, nodes, dtype, constants):
    graph_agrees([*detections(), *nodes], {"x": SCORES}, {"y": dtype}, {**CONSTANTS, **constants})


def test_limits_of_sums_and_of_what_is_no_sum():
    first, second, unknown = (get_new_symbol() for _ in range(3))
    note_limit(first, 4)
    note_limit(second, 3, 5)
    assert most_of(first + second + 2) == 21
    assert most_of(2 * first - second) == 8
    note_limit(second, 7)
    assert most_of(second) == 7
    note_greater_limit(unknown, first, second)
    assert most_of(unknown) == 7
    for size in (sympy.floor(first / 2), first * second, first + get_new_symbol()):
        with pytest.raises(Unsupported, match="no known limit"):
            most_of(size)


def test_what_is_open_on_both_sides_cancels_out_as_a_factor_too():
    batch, length = get_new_symbol(), get_new_symbol()
    assert reshape_target([batch, 4, 12, 16], [4 * batch, -1, 16]) == [-1, 12, 16]
    assert reshape_target([4 * batch, length, 16], [batch, 4, -1, 16]) == [batch, 4, -1, 16]


def test_what_a_program_computes_is_at_most_the_least_constant_that_it_is_compared_with():
    with Function({"x": mb.placeholder(shape=(2,), dtype=types.int32)}, ct.target.iOS18) as function:
        x = function.inputs["x"]
        least = mb.reduce_min(x=mb.concat(values=[np.int32([3]), x], axis=0), keep_dims=False)
        limits = {
            most_computed(mb.minimum(x=x, y=np.int32(5))): 5,
            most_computed(mb.expand_dims(x=mb.minimum(x=mb.minimum(x=np.int32(4), y=x), y=7), axes=[0])): 4,
            most_computed(mb.reshape(x=least, shape=[1])): 3,
        }
        assert list(limits) == list(limits.values())
        for unknown in (x, mb.maximum(x=x, y=np.int32(5)), mb.reduce_min(x=x), mb.sub(x=np.int32(5), y=x)):
            assert most_computed(unknown) is None
