from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx.helper import make_function, make_node, make_opsetid

from edgekit.errors import InputError, UnsupportedOpsError

X = np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4)
LOCAL = "test.functions"


def local(name, inputs, outputs, nodes, attributes=()):
    return make_function(LOCAL, name, inputs, outputs, nodes, [make_opsetid("", 21)], list(attributes))


def test_function_called_with_and_without_an_optional_input(graph_agrees):
    limited = local("Limited", ["v", "low", "high"], ["r"], [make_node("Clip", ["v", "low", "high"], ["r"])])
    nodes = [
        make_node("Limited", ["x", "", "one"], ["a"], domain=LOCAL),
        make_node("Limited", ["x", "zero"], ["b"], domain=LOCAL),
        make_node("Limited", ["x", "zero", "one"], ["c"], domain=LOCAL),
    ]
    constants = {"zero": np.array(0, np.float32), "one": np.array(1, np.float32)}
    graph_agrees(nodes, {"x": X}, dict.fromkeys("abc", "float32"), constants, functions=[limited])


def test_attributes_of_the_call_reach_the_body(graph_agrees):
    inner = make_node("LeakyRelu", ["v"], ["r"])
    reference = onnx.AttributeProto(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    inner.attribute.append(reference)
    leaky = local("Leaky", ["v"], ["r"], [inner], ["slope"])
    nodes = [
        make_node("Leaky", ["x"], ["a"], domain=LOCAL, slope=0.5),
        make_node("Leaky", ["a"], ["b"], domain=LOCAL, slope=0.1),
        make_node("Leaky", ["x"], ["c"], domain=LOCAL),
    ]
    graph_agrees(nodes, {"x": X}, dict.fromkeys("abc", "float32"), functions=[leaky])


def test_operator_without_lowering_goes_by_its_definition(agrees):
    scores = np.array([[0.2, 1.0, -1.0], [2.0, 0.1, 0.3]], np.float32)
    agrees("SoftmaxCrossEntropyLoss", [scores, np.array([1, 0])], outputs=["float32", "float32"], reduction="mean")


def test_all_gaps_are_named_with_what_can_be_done(convert_graph):
    nodes = [
        make_node("RandomNormalLike", ["x"], ["noise"], name="noise_maker"),
        make_node("Add", ["x", "noise"], ["sum"]),
        make_node("Mystery", ["sum"], ["strange"], name="mystery", domain="com.example"),
        make_node("CumSum", ["strange", "axis"], ["y"], name="behind"),
    ]
    with pytest.raises(UnsupportedOpsError) as refusal:
        convert_graph(nodes, {"x": X, "axis": np.array(0)}, {"y": "float32"})
    text = str(refusal.value)
    assert refusal.value.ops == ["RandomNormalLike", "com.example.Mystery"]
    assert "noise_maker" in text
    assert "make the random numbers an input of the model" in text
    assert "no lowering in domain com.example" in text


def test_input_that_the_operator_does_not_know_is_refused(convert_graph):
    node = make_node("Relu", ["x"], ["y"])
    node.attribute.append(onnx.helper.make_attribute("consumed_inputs", [0]))
    with pytest.raises(UnsupportedOpsError, match="attribute consumed_inputs is not known"):
        convert_graph([node], {"x": X}, {"y": "float32"})


def test_standard_domain_by_its_full_name(convert_graph):
    node = make_node("Neg", ["x"], ["y"], domain="ai.onnx")
    runner = convert_graph([node], {"x": X}, {"y": "float32"})
    np.testing.assert_array_equal(runner.run({"x": X})["y"], -X)


def test_nodes_in_any_order(graph_agrees):
    nodes = [
        make_node("Relu", ["b"], ["y"]),
        make_node("Neg", ["a"], ["b"]),
        make_node("Abs", ["x"], ["a"]),
    ]
    graph_agrees(nodes, {"x": X}, {"y": "float32"})


def test_nodes_that_wait_for_each_other_are_refused(convert_graph):
    nodes = [make_node("Add", ["x", "b"], ["a"]), make_node("Relu", ["a"], ["b"])]
    with pytest.raises(InputError, match="cycle"):
        convert_graph(nodes, {"x": X}, {"b": "float32"})


def test_layouts_of_a_processor_are_refused_with_what_can_be_done(convert_graph):
    nodes = [make_node("ReorderInput", ["x"], ["y"], domain="com.microsoft.nchwc")]
    with pytest.raises(UnsupportedOpsError, match="at ONNX Runtime's level extended or lower"):
        convert_graph(nodes, {"x": X}, {"y": "float32"})


def test_an_element_type_that_the_operator_is_not_defined_for_is_refused(convert_graph):
    counts = np.array([1, 2])
    with pytest.raises(UnsupportedOpsError, match=r"is not defined for int64: input 1 \(data_0\)"):
        convert_graph([make_node("Mean", ["x", "x"], ["y"])], {"x": counts}, {"y": "int64"})


def test_an_input_without_elements_is_told(convert_graph):
    nodes = [make_node("DynamicQuantizeLinear", ["x"], ["y", "s", "z"])]
    with pytest.raises(UnsupportedOpsError, match="has no lowering for an input without elements, of shape 3×0"):
        convert_graph(nodes, {"x": X[:, :0]}, {"y": "uint8", "s": "float32", "z": "uint8"})
