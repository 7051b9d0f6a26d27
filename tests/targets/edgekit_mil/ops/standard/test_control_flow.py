from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.helper import make_graph, make_node, make_tensor_value_info

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError
from edgekit_mlprogram.conversion import convert_graph as convert_to_package

FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def info(name, kind=FLOAT, shape=None):
    return make_tensor_value_info(name, kind, shape)


def branch(op_type, *, constant=None):
    nodes = [make_node(op_type, ["x"], ["b"])]
    if constant is not None:
        nodes = [make_node("Constant", [], ["b"], value=onnx.numpy_helper.from_array(constant))]
    return make_graph(nodes, op_type, [], [info("b")])


@pytest.mark.parametrize("chosen", [True, False])
def test_known_condition_leaves_one_branch(graph_agrees, chosen):
    shrinks = make_graph([make_node("ReduceSum", ["x"], ["b"], keepdims=0)], "sum", [], [info("b")])
    node = make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=shrinks)
    graph_agrees([node], {"x": X}, {"y": "float32"}, {"c": np.array(chosen)})


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize("constant", [None, np.full((2, 3), 9, np.float32)])
def test_condition_is_computed_at_run_time(graph_agrees, chosen, constant):
    node = make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=branch("Identity", constant=constant))
    graph_agrees([node], {"c": np.array([chosen]), "x": X}, {"y": "float32"})


def test_branches_of_different_shapes_are_refused(convert_graph):
    shrinks = make_graph([make_node("ReduceSum", ["x"], ["b"], keepdims=0)], "sum", [], [info("b")])
    node = make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=shrinks)
    with pytest.raises(UnsupportedOpsError, match=r"one branch gives float \[2, 3\], the other float \[\]"):
        convert_graph([node], {"c": np.array(True), "x": X}, {"y": "float32"})


def test_gap_within_a_branch_is_named(convert_graph):
    nodes = [
        make_node("BitCast", ["x"], ["bits"], name="taken apart", to=onnx.TensorProto.INT32),
        make_node("Cast", ["bits"], ["b"], to=onnx.TensorProto.FLOAT),
    ]
    apart = make_graph(nodes, "apart", [], [info("b")])
    node = make_node("If", ["c"], ["y"], name="choice", then_branch=branch("Neg"), else_branch=apart)
    with pytest.raises(UnsupportedOpsError, match="choice > taken apart"):
        convert_graph([node], {"c": np.array(True), "x": X}, {"y": "float32"}, opset=26)


def doubling_body(*, until=None):
    """Doubles a state, hands it out every turn, and goes on while it is under a limit."""
    nodes = [make_node("Add", ["s", "s"], ["s2"]), make_node("Mul", ["s2", "x"], ["row"])]
    if until is None:
        nodes.append(make_node("Identity", ["go"], ["go_on"]))
    else:
        limit = onnx.numpy_helper.from_array(np.array(until, np.float32))
        nodes += [
            make_node("Constant", [], ["limit"], value=limit),
            make_node("ReduceMax", ["s2"], ["top"], keepdims=0),
            make_node("Less", ["top", "limit"], ["go_on"]),
        ]
    inputs = [info("i", INT64, []), info("go", BOOL, []), info("s", FLOAT, [3])]
    return make_graph(nodes, "body", inputs, [info("go_on", BOOL), info("s2"), info("row")])


LOOP = {"final": "float32", "rows": "float32"}


@pytest.mark.parametrize("count", [0, 1, 4])
def test_known_number_of_turns_is_unrolled(convert_graph, graph_agrees, count):
    node = make_node("Loop", ["n", "", "start"], ["final", "rows"], body=doubling_body())
    constants = {"n": np.array(count), "start": np.ones(3, np.float32)}
    graph_agrees([node], {"x": X}, LOOP, constants)


@pytest.mark.parametrize("until", [5.0, 1e9])
def test_condition_ends_a_loop_of_the_program(graph_agrees, until):
    node = make_node("Loop", ["n", "", "start"], ["final", "rows"], body=doubling_body(until=until))
    graph_agrees([node], {"x": X, "start": np.ones(3, np.float32)}, LOOP, {"n": np.array(6)})


@pytest.mark.parametrize("count", [0, 3])
def test_number_of_turns_is_computed_at_run_time(graph_agrees, count):
    body = make_graph(
        [
            make_node("Cast", ["i"], ["turn"], to=FLOAT),
            make_node("Add", ["s", "turn"], ["s2"]),
            make_node("Identity", ["go"], ["go2"]),
        ],
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("s", FLOAT, [2, 3])],
        [info("go2", BOOL), info("s2")],
    )
    node = make_node("Loop", ["n", "", "x"], ["y"], body=body)
    graph_agrees([node], {"n": np.array(count), "x": X}, {"y": "float32"})


@pytest.mark.parametrize("count", [0, 3])
def test_outputs_of_a_number_of_turns_that_is_fed(graph_agrees, count):
    node = make_node("Loop", ["n", "", "start"], ["final", "rows"], body=doubling_body())
    graph_agrees([node], {"n": np.array(count), "x": X[:1], "start": np.ones(3, np.float32)}, LOOP)


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("is_fed", [False, True])
def test_state_that_grows(graph_agrees, count, is_fed):
    body = make_graph(
        [make_node("Concat", ["s", "x"], ["s2"], axis=0), make_node("Identity", ["go"], ["go2"])],
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("s")],
        [info("go2", BOOL), info("s2")],
    )
    node = make_node("Loop", ["n", "", "x"], ["y"], body=body)
    number = {"n": np.array(count)}
    graph_agrees([node], {"x": X} | (number if is_fed else {}), {"y": "float32"}, {} if is_fed else number)


def greedy_body(axis, *, reads):
    """Adds a row or a column to a list every turn, until a sum is reached; what it adds may depend on the list."""
    nodes = [
        make_node("Add", ["s", "x"], ["s2"]),
        make_node("Concat", ["found", "s2"], ["found2"], axis=axis),
        make_node("ReduceMax", ["found2" if reads else "s2"], ["top"], keepdims=0),
        make_node("Less", ["top", "limit"], ["go2"]),
    ]
    inputs = [info("i", INT64, []), info("go", BOOL, []), info("found"), info("s", FLOAT, [2, 3])]
    return make_graph(nodes, "body", inputs, [info("go2", BOOL), info("found2"), info("s2")])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("at_first", [0, 2])
@pytest.mark.parametrize("limit", [-1.0, 13.0, 1e9])
def test_a_list_that_the_body_only_adds_to(graph_agrees, axis, at_first, limit):
    shape = [2, 3]
    shape[axis] = at_first
    node = make_node("Loop", ["n", "", "none", "x"], ["y", "last"], body=greedy_body(axis, reads=False))
    constants = {
        "n": np.array(5),
        "none": np.full(shape, 7, np.float32),
        "limit": np.array(limit, np.float32),
    }
    graph_agrees([node], {"x": X}, {"y": "float32", "last": "float32"}, constants)


def test_a_list_that_the_body_reads_is_refused(convert_graph):
    node = make_node("Loop", ["n", "", "none", "x"], ["y", "last"], body=greedy_body(0, reads=True))
    constants = {"n": np.array(5), "none": np.zeros((0, 3), np.float32), "limit": np.array(9, np.float32)}
    with pytest.raises(UnsupportedOpsError, match=r"a state changes from \[0, 3\] to \[2, 3\]"):
        convert_graph([node], {"x": X}, {"y": "float32", "last": "float32"}, constants)


def test_a_state_whose_sizes_only_a_run_tells(graph_agrees):
    """A row that is cut out by the number of the turn: its size is one, which is not known before."""
    nodes = [
        make_node("Unsqueeze", ["i", "zero"], ["from"]),
        make_node("Add", ["from", "one"], ["to"]),
        make_node("Slice", ["x", "from", "to", "zero"], ["row"]),
        make_node("Mul", ["s", "two"], ["s1"]),
        make_node("Add", ["row", "s1"], ["s2"]),
        make_node("ReduceMax", ["s2"], ["top"], keepdims=0),
        make_node("Less", ["top", "limit"], ["go2"]),
    ]
    inputs = [info("i", INT64, []), info("go", BOOL, []), info("s", FLOAT, [1, 3])]
    body = make_graph(nodes, "body", inputs, [info("go2", BOOL), info("s2")])
    node = make_node("Loop", ["n", "", "start"], ["y"], body=body)
    constants = {
        "n": np.array(2),
        "zero": np.array([0]),
        "one": np.array([1]),
        "two": np.array(2, np.float32),
        "limit": np.array(100, np.float32),
        "start": np.ones((1, 3), np.float32),
    }
    graph_agrees([node], {"x": X}, {"y": "float32"}, constants)


def scan_body():
    return make_graph(
        [make_node("Add", ["s", "e"], ["s2"]), make_node("Mul", ["s2", "e"], ["o"])],
        "body",
        [info("s", FLOAT, [3]), info("e", FLOAT, [3])],
        [info("s2"), info("o")],
    )


@pytest.mark.parametrize("length", [4, 5000])
@pytest.mark.parametrize("direction", [0, 1])
def test_scan_agrees_unrolled_and_looped(graph_agrees, rng, length, direction):
    attributes = {"scan_input_directions": [direction], "scan_output_directions": [direction], "num_scan_inputs": 1}
    node = make_node("Scan", ["start", "sequence"], ["final", "rows"], body=scan_body(), **attributes)
    sequence = rng.uniform(-1e-2, 1e-2, (length, 3)).astype(np.float32)
    graph_agrees([node], {"start": np.ones(3, np.float32), "sequence": sequence}, LOOP)


def test_scanned_axes_are_taken(graph_agrees, rng):
    attributes = {"scan_input_axes": [1], "scan_output_axes": [1], "num_scan_inputs": 1}
    node = make_node("Scan", ["start", "sequence"], ["final", "rows"], body=scan_body(), **attributes)
    sequence = rng.standard_normal((3, 4)).astype(np.float32)
    graph_agrees([node], {"start": np.ones(3, np.float32), "sequence": sequence}, LOOP)


def test_branch_that_no_input_of_this_shape_fits_is_left_out(convert_graph):
    other = make_graph([make_node("MatMul", ["x", "square"], ["b"])], "misfit", [], [info("b")])
    node = make_node("If", ["c"], ["y"], then_branch=branch("Neg"), else_branch=other)
    constants = {"square": np.ones((7, 7), np.float32)}
    runner = convert_graph([node], {"c": np.array(True), "x": X}, {"y": "float32"}, constants)
    np.testing.assert_array_equal(runner.run({"c": np.array(True), "x": X})["y"], -X)


def test_contradiction_outside_of_branches_is_a_gap_that_says_so(convert_graph):
    nodes = [make_node("MatMul", ["x", "square"], ["y"], name="product")]
    with pytest.raises(UnsupportedOpsError, match=r"product.*cannot run with inputs of these shapes"):
        convert_graph(nodes, {"x": X}, {"y": "float32"}, {"square": np.ones((7, 7), np.float32)})


@pytest.mark.parametrize("limit", [2.0, 100.0])
def test_tensors_of_sizes_that_change_in_a_loop(graph_agrees, limit):
    """What a decoder does: writes row ``i`` of a buffer, which it finds by slicing at ``i``."""
    nodes = [
        make_node("Add", ["i0", "one"], ["next"]),
        make_node("Slice", ["s", "i0", "next", "axis"], ["old"]),
        make_node("Shape", ["old"], ["shape"]),
        make_node("Expand", ["x", "shape"], ["row"]),
        make_node("Squeeze", ["i0"], ["first"]),
        make_node("Squeeze", ["next"], ["last"]),
        make_node("Range", ["first", "last", "step"], ["places"]),
        make_node("Reshape", ["places", "column"], ["places_column"]),
        make_node("Expand", ["places_column", "shape"], ["indices"]),
        make_node("ScatterElements", ["s", "indices", "row"], ["s2"], axis=0),
        make_node("Identity", ["next"], ["i1"]),
        make_node("ReduceSum", ["s2"], ["total"], keepdims=0),
        make_node("Less", ["total", "limit"], ["go_on"]),
    ]
    body = make_graph(
        nodes,
        "body",
        [info("i", INT64, []), info("go", BOOL, []), info("i0", INT64, [1]), info("s", FLOAT, [5, 3])],
        [info("go_on", BOOL), info("i1", INT64), info("s2")],
    )
    constants = {
        "one": np.array([1]),
        "axis": np.array([0]),
        "step": np.array(1),
        "column": np.array([-1, 1]),
        "limit": np.array(limit, np.float32),
        "n": np.array(4),
        "zero": np.array([0]),
    }
    feeds = {"x": np.array([[1.0, 2.0, 3.0]], np.float32), "s": np.zeros((5, 3), np.float32)}
    loop = make_node("Loop", ["n", "", "zero", "s"], ["count", "y"], body=body)
    graph_agrees([loop], feeds, {"y": "float32"}, constants)


def test_a_branch_that_cannot_run_with_the_shapes_gives_nan(tmp_path):
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[2, 3] x, bool short) => (float[2, 4] y) {
        y = If (short) <
            then_branch = g1 () => (float[2, 4] a) { a = MatMul (x, w) },
            else_branch = g2 () => (float[2, 4] b) { b = MatMul (x, v) }
        > }"""
    )
    weights = np.arange(12, dtype=np.float32).reshape(3, 4)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((5, 4), np.float32), "v"))
    conversion = convert_to_package(
        ir.from_proto(model), tmp_path / "m", deployment_target_name="iOS18", precision="float32"
    )
    (note,) = conversion.notes
    assert "condition that is false cannot run with the fixed input shapes and is left out" in note
    runner = edgekit_coreml.load(conversion.package)
    x = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(runner.run({"x": x, "short": np.array(True)})["y"], x @ weights)
    assert np.isnan(runner.run({"x": x, "short": np.array(False)})["y"]).all()
