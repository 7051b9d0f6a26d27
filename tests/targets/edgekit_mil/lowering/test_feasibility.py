from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx.helper import make_node

from edgekit.errors import InputError, UnsupportedOpsError
from edgekit_mil.core.values import constant
from edgekit_mil.lowering.feasibility import broken_rule, contradiction, refusal_by_reference

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)


def node(op_type, *names, **attributes):
    return ir.from_proto(make_node(op_type, list(names), ["y"], **attributes))


def test_a_node_that_runs_is_not_to_blame():
    assert refusal_by_reference(node("Gather", "x", "i"), [constant(X), constant(np.array([1]))], {"": 22}) is None
    assert refusal_by_reference(node("Div", "a", "b"), [constant(X), constant(X)], {"": 22}) is None


def test_a_node_without_a_kernel_is_not_to_blame():
    unsigned = constant(np.array([1, 2], np.uint16))
    assert refusal_by_reference(node("Relu", "x"), [constant(X.astype("int16"))], {"": 22}) is None
    assert refusal_by_reference(node("Neg", "x"), [unsigned], {"": 22}) is not None  # the standard has no such Neg


def test_a_value_that_is_read_twice_does_not_contradict_itself():
    assert contradiction(node("Add", "x", "x"), [constant(X.astype("uint8"))] * 2, {"": 22}) is None


def test_ranks_that_no_runtime_takes_are_the_models_fault(convert_graph):
    nodes = [make_node("GatherElements", ["x", "i"], ["y"], name="picks")]
    inputs = {"x": X, "i": np.zeros((1, 3, 1), np.int64)}
    with pytest.raises(UnsupportedOpsError, match=r"'picks'\): cannot run with inputs of these shapes: .*[Rr]ank"):
        convert_graph(nodes, inputs, {"y": "float32"})


def test_an_input_that_has_to_be_given(convert_graph):
    with pytest.raises(
        InputError, match=r"breaks the rules of ONNX: .*input 1 is marked single but has an empty string"
    ):
        convert_graph([make_node("Sub", ["x", ""], ["y"])], {"x": X}, {"y": "float32"})


def test_a_gap_among_any_number_of_inputs(convert_graph):
    with pytest.raises(InputError, match=r"breaks the rules of ONNX: .*'y'.*Max.*input 2 is left out of data_0"):
        convert_graph([make_node("Max", ["x", "", "x"], ["y"])], {"x": X}, {"y": "float32"})


BRANCHES = """<ir_version: 9, opset_import: ["" : 18]> g (float[2] x, bool c) => (float[2] y) {
    z = Neg (x)
    y = If (c) <
        then_branch = t () => (float[2] a) { a = Add (z, x) },
        else_branch = e () => (float[2] b) {
            k = If (c) <
                then_branch = u () => (float[2] d) { d = Add (z, x) },
                else_branch = v () => (float[2] f) { f = %s }>
            b = Neg (k)
        }>
}"""


@pytest.mark.parametrize(
    ("inner", "rule"), [("Neg (z)", None), ("Nope (z)", "No Op registered for Nope with domain_version of 18")]
)
def test_a_body_may_read_from_outside(inner, rule):
    chosen = list(ir.from_proto(onnx.parser.parse_model(BRANCHES % inner)).graph)[-1]
    assert broken_rule(chosen, onnx.defs.get_schema("If", 18), {"": 18}) == rule


def test_an_attribute_that_has_to_be_given(convert_graph):
    nodes = [make_node("BitShift", ["x", "x"], ["y"])]
    with pytest.raises(InputError, match="breaks the rules of ONNX: Required attribute 'direction' is missing"):
        convert_graph(nodes, {"x": np.array([1, 2], np.uint8)}, {"y": "uint8"})


def test_a_word_that_an_attribute_does_not_take(convert_graph):
    weights = {"w": np.ones((1, 3, 4), np.float32), "r": np.ones((1, 3, 1), np.float32)}
    nodes = [make_node("GRU", ["x", "w", "r"], ["y"], hidden_size=1, direction="sideways")]
    with pytest.raises(UnsupportedOpsError, match="unknown direction 'sideways'"):
        convert_graph(nodes, {"x": X[None], **weights}, {"y": "float32"})


def test_a_rewrite_that_fails_on_shapes_that_do_not_fit_leaves_the_refusal(convert_graph):
    nodes = [make_node("GatherElements", ["x", "i"], ["y"], name="picks")]
    inputs = {"x": np.zeros((3, 3, 0), np.float32), "i": np.zeros((2, 3), np.int64)}
    with pytest.raises(UnsupportedOpsError, match="'picks'"):
        convert_graph(nodes, inputs, {"y": "float32"}, {"i": inputs.pop("i")})


@pytest.mark.parametrize(
    ("op_type", "attributes", "others"),
    [
        ("LayerNormalization", {"axis": 3}, ["scale"]),
        ("Flatten", {"axis": 5}, []),
        ("ReduceMax", {"axes": [4]}, []),
    ],
)
def test_an_axis_that_the_tensor_does_not_have_is_refused(convert_graph, op_type, attributes, others):
    opset = 13 if op_type == "ReduceMax" else 23
    nodes = [make_node(op_type, ["x", *others], ["y"], **attributes)]
    with pytest.raises(UnsupportedOpsError, match="axis"):
        convert_graph(nodes, {"x": X}, {"y": "float32"}, {"scale": np.ones(4, np.float32)}, opset=opset)
