"""Long lists of trees are left out of what looks at shapes, and come back."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgekit.execution.equivalence import Equivalence
from edgekit.graph.long_lists import leave_out_long_lists, light_message, put_back, take_long_lists
from edgekit.graph.sizes.shapes import infer_shapes, light_proto
from edgekit.model import Model

ML = "ai.onnx.ml"
STUMPS = 600
FEATURES = 3


def forest(kind: str = "TreeEnsembleRegressor") -> onnx.ModelProto:
    """600 trees of one comparison each, behind them two Identity nodes."""
    rng = np.random.default_rng(0)
    prefix, leaves = ("class", (1, 2)) if kind.endswith("Classifier") else ("target", (1, 2))
    every = [(tree, node) for tree in range(STUMPS) for node in range(3)]
    weighted = [(tree, node) for tree in range(STUMPS) for node in leaves]
    attributes = {
        "nodes_treeids": [tree for tree, _ in every],
        "nodes_nodeids": [node for _, node in every],
        "nodes_featureids": [int(rng.integers(FEATURES)) for _ in every],
        "nodes_values": rng.standard_normal(len(every)).tolist(),
        "nodes_modes": ["LEAF" if node else "BRANCH_LEQ" for _, node in every],
        "nodes_truenodeids": [0 if node else 1 for _, node in every],
        "nodes_falsenodeids": [0 if node else 2 for _, node in every],
        f"{prefix}_treeids": [tree for tree, _ in weighted],
        f"{prefix}_nodeids": [node for _, node in weighted],
        f"{prefix}_ids": [tree % 3 if prefix == "class" else 0 for tree, _ in weighted],
        f"{prefix}_weights": rng.standard_normal(len(weighted)).tolist(),
    }
    own = {"classlabels_int64s": [4, 5, 6]} if prefix == "class" else {"n_targets": 1}
    made = ["label", "inner"] if prefix == "class" else ["inner"]
    nodes = [
        helper.make_node(kind, ["x"], made, domain="ai.onnx.ml", name="forest", **attributes, **own),
        helper.make_node("Identity", ["inner"], ["further"], name="one"),
        helper.make_node("Identity", ["further"], ["y"], name="two"),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, FEATURES])
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    outputs += [helper.make_tensor_value_info("label", TensorProto.INT64, None)] if prefix == "class" else []
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(helper.make_graph(nodes, "g", [x], outputs), opset_imports=imports, ir_version=8)


def forest_of_opset_5() -> onnx.ModelProto:
    """1,100 trees of one comparison each, as ai.onnx.ml 5 writes them: thresholds and leaves stand in tensors."""
    rng = np.random.default_rng(0)
    count = 1100
    lists = {
        "tree_roots": range(count),
        "nodes_featureids": rng.integers(FEATURES, size=count).tolist(),
        "nodes_truenodeids": range(0, 2 * count, 2),
        "nodes_trueleafs": [1] * count,
        "nodes_falsenodeids": range(1, 2 * count, 2),
        "nodes_falseleafs": [1] * count,
        "leaf_targetids": [0] * (2 * count),
    }
    tensors = {
        "nodes_modes": np.zeros(count, np.uint8),
        "nodes_splits": rng.standard_normal(count).astype(np.float32),
        "leaf_weights": rng.standard_normal(2 * count).astype(np.float32),
    }
    attributes = {name: list(numbers) for name, numbers in lists.items()}
    messages = {name: numpy_helper.from_array(numbers, name) for name, numbers in tensors.items()}
    node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", n_targets=1, **attributes, **messages)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [7, FEATURES])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("ai.onnx.ml", 5)]
    return helper.make_model(helper.make_graph([node], "g", [x], [y]), opset_imports=imports, ir_version=10)


def text_classifier() -> onnx.ModelProto:
    """A vocabulary of 1,500 words, a linear classifier of three classes behind it, and a regressor of one number."""
    rng = np.random.default_rng(0)
    words = [f"word{number}" for number in range(1500)]
    counted = helper.make_node(
        "TfIdfVectorizer",
        ["text"],
        ["counts"],
        mode="TFIDF",
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
        ngram_counts=[0],
        ngram_indexes=list(range(len(words))),
        pool_strings=words,
        weights=rng.uniform(0.5, 2, len(words)).tolist(),
    )
    classes = {"classlabels_ints": [4, 5, 6], "intercepts": [0.1, 0.2, 0.3], "post_transform": "SOFTMAX"}
    coefficients, slopes = rng.standard_normal(3 * len(words)).tolist(), rng.standard_normal(len(words)).tolist()
    nodes = [
        counted,
        helper.make_node(
            "LinearClassifier", ["counts"], ["label", "scores"], domain=ML, coefficients=coefficients, **classes
        ),
        helper.make_node("LinearRegressor", ["counts"], ["number"], domain=ML, coefficients=slopes, targets=1),
    ]
    text = helper.make_tensor_value_info("text", TensorProto.STRING, [1, 5])
    types = {"label": TensorProto.INT64, "scores": TensorProto.FLOAT, "number": TensorProto.FLOAT}
    outputs = [helper.make_tensor_value_info(name, kind, None) for name, kind in types.items()]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid(ML, 3)]
    return helper.make_model(helper.make_graph(nodes, "g", [text], outputs), opset_imports=imports, ir_version=8)


def run(proto: onnx.ModelProto, x: np.ndarray, name: str = "x") -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {name: x})


@pytest.mark.parametrize("kind", ["TreeEnsembleRegressor", "TreeEnsembleClassifier"])
def test_light_messages_are_small_and_tell_the_same_types(kind: str) -> None:
    proto = forest(kind)
    light = light_proto(Model(ir.from_proto(proto)))
    assert light.ByteSize() < 1500 < proto.ByteSize()
    told, of_light = (onnx.shape_inference.infer_shapes(each, data_prop=True) for each in (proto, light))
    assert {value.name: value.type for value in told.graph.value_info} == {
        value.name: value.type for value in of_light.graph.value_info
    }
    assert [value.type for value in told.graph.output] == [value.type for value in of_light.graph.output]


def test_inferred_models_keep_their_lists() -> None:
    proto = forest()
    model = Model(ir.from_proto(proto))
    x = np.random.default_rng(1).standard_normal((7, FEATURES)).astype(np.float32)
    inferred = infer_shapes(model)
    assert inferred.graph.outputs[0].shape == [7, 1]
    np.testing.assert_array_equal(run(inferred.proto(), x)[0], run(proto, x)[0])


def test_tensors_are_as_short_as_the_lists_beside_them() -> None:
    proto = forest_of_opset_5()
    model = Model(ir.from_proto(proto))
    assert light_proto(model).ByteSize() < 1500 < proto.ByteSize()
    x = np.random.default_rng(1).standard_normal((7, FEATURES)).astype(np.float32)
    inferred = infer_shapes(model)
    assert inferred.graph.outputs[0].shape == [7, 1]
    np.testing.assert_array_equal(run(inferred.proto(), x)[0], run(proto, x)[0])
    graph_model = ir.from_proto(proto)
    put_back(graph_model, leave_out_long_lists(graph_model))
    np.testing.assert_array_equal(run(ir.to_proto(graph_model), x)[0], run(proto, x)[0])


def test_vocabularies_and_linear_coefficients_are_left_out_of_what_looks_at_shapes() -> None:
    proto = text_classifier()
    light = light_proto(Model(ir.from_proto(proto)))
    assert light.ByteSize() < 6000 < proto.ByteSize() - 30_000  # 1,500 ngram_indexes stay
    told, of_light = (onnx.shape_inference.infer_shapes(each, data_prop=True) for each in (proto, light))
    assert [value.type for value in told.graph.output] == [value.type for value in of_light.graph.output]
    assert [value.type for value in told.graph.value_info] == [value.type for value in of_light.graph.value_info]
    texts = np.array([["word3", "word1400", "other", "word3", "word7"]], object)
    inferred = infer_shapes(Model(ir.from_proto(proto)))
    assert [list(value.shape or ()) for value in inferred.graph.outputs] == [[1], [1, 3], [1, 1]]
    for found, expected in zip(*(run(each, texts, "text") for each in (inferred.proto(), proto)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_lists_come_back_to_the_node_that_had_them() -> None:
    model = ir.from_proto(forest())
    expected = ir.to_proto(model)
    lists = leave_out_long_lists(model)
    attributes_left = model.graph[0].attributes.values()
    shortened = {each.name for each in attributes_left if isinstance(each.value, tuple) and len(each.value) == 1}
    assert shortened == {name for _, name in lists}
    assert "nodes_modes" in shortened
    put_back(model, lists)
    found = ir.to_proto(model)
    attributes = [{each.name: each for each in proto.graph.node[0].attribute} for proto in (expected, found)]
    assert attributes[0] == attributes[1]


def test_lists_of_a_message_come_back_with_equal_elements_as_one() -> None:
    proto = forest()
    attributes = {each.name: each for each in proto.graph.node[0].attribute}
    attributes["target_weights"].floats[:4] = [0.0, -0.0, np.nan, 0.5]
    expected = {each.name: helper.get_attribute_value(each) for each in attributes.values()}
    lists = take_long_lists(proto)
    assert proto.ByteSize() < 1500
    model = ir.from_proto(proto)
    put_back(model, lists)
    found = {each.name: helper.get_attribute_value(each) for each in ir.to_proto(model).graph.node[0].attribute}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(np.array(found[name]), np.array(value))
    weights = np.array(found["target_weights"][:4])
    np.testing.assert_array_equal(np.signbit(weights[:2]), [False, True])
    node_ids = model.graph[0].attributes["nodes_treeids"].value
    assert len({id(number) for number in node_ids}) == STUMPS


def test_a_light_message_is_the_node_but_for_its_lists() -> None:
    node = ir.from_proto(forest()).graph[0]
    message, lists = light_message(node)
    full = ir.to_proto(node)
    assert [message.input, message.output, message.name, message.domain] == [
        full.input,
        full.output,
        full.name,
        full.domain,
    ]
    short = {each.name: each for each in message.attribute}
    for attribute in full.attribute:
        if attribute.name in lists:
            assert len(short[attribute.name].ints or short[attribute.name].floats or short[attribute.name].strings) == 1
        else:
            assert short[attribute.name] == attribute


@pytest.mark.parametrize("changed", [False, True])
def test_changes_around_a_forest_are_proven_with_its_lists(*, changed: bool) -> None:
    """The proof executes the forest itself, once where it is the same and once with another threshold."""
    proto = forest("TreeEnsembleClassifier")
    before = Model(ir.from_proto(proto))
    del proto.graph.node[1:]
    proto.graph.node[0].output[1] = "y"
    if changed:
        for attribute in proto.graph.node[0].attribute:
            if attribute.name == "class_weights":
                attribute.floats[-1] += 5
                attribute.floats[-2] += 5
    after = infer_shapes(Model(ir.from_proto(proto)), strict=False)
    difference = Equivalence(infer_shapes(before, strict=False)).difference(after)
    assert (difference is not None) == changed
