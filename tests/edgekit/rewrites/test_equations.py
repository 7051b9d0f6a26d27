"""Equations of Einsum that leave axes unnamed."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import helper

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import name_nodes, node_name
from edgekit.registry import installed_rewrites
from edgekit.rewrites.application import rewritten

RANDOM = np.random.default_rng(2)


def model(equation: str, shapes: list[list[int | str]]) -> onnx.ModelProto:
    names = "abc"[: len(shapes)]
    node = helper.make_node("Einsum", list(names), ["y"], equation=equation)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip(names, shapes, strict=True)]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def named(model_of, proto: onnx.ModelProto):
    """Returns the equation that the rewrite gives the node, or the reason why it leaves the node unchanged."""

    def refusals(candidate):
        return {node_name(node) for node in candidate.graph if "..." in node.attributes.get_string("equation", "")}

    candidate = model_of(proto)
    name_nodes(candidate.graph_model)
    result = rewritten(infer_shapes(candidate, strict=False), refusals, installed_rewrites())
    if result.dropped:
        return next(iter(result.dropped.values()))
    return next(node for node in result.model.graph if node.op_type == "Einsum").attributes.get_string("equation")


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("...ne,...n->...ne", [[1, 2, 5, 4], [1, 2, 5]], "abne,abn->abne"),
        ("...de,...nd,...n->...ne", [["N", 2, 3, 4], ["N", 2, 5, 3], ["N", 2, 5]], "abde,abnd,abn->abne"),
        ("i...,...j", [[3, 2], [2, 5]], "ia,aj->aij"),
        ("a...,b->ab...", [[3, 2], [4]], "ac,b->abc"),
    ],
)
def test_they_are_named(model_of, run, equation, shapes, expected):
    proto = model(equation, shapes)
    assert named(model_of, proto) == expected
    feeds = {
        name: RANDOM.standard_normal([2 if size == "N" else size for size in shape]).astype(np.float32)
        for name, shape in zip("abc", shapes, strict=False)
    }
    np.testing.assert_allclose(run(proto, feeds)[0], np.einsum(expected, *feeds.values()), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("...n,...n->...n", [[1, 2, 5], [3, 2, 5]], "bn,abn->abn"),
        ("...tnh,...snh->...nts", [[3, 1, 4, 2, 5], [1, 3, 6, 2, 5]], "atnh,bsnh->abnts"),
        ("...ij,...jk->...ik", [[3, 1, 2, 4], [1, 5, 4, 2]], "aij,bjk->abik"),
        ("...ij,...jk->...ik", [["N", 1, 2, 4], [1, 5, 4, 2]], "aij,bjk->abik"),
        ("...ij,...jk", [[1, 1, 2, 4], [3, 1, 4, 2]], "bij,abjk->abik"),
        ("i...,i...->...", [[2, 1, 4], [2, 3, 1]], "ib,ia->ab"),
    ],
)
def test_an_axis_of_size_1_is_broadcast(model_of, run, equation, shapes, expected):
    """Letters do not broadcast; an axis that a tensor does not have does."""
    proto = model(equation, shapes)
    assert named(model_of, proto) == expected
    feeds = {
        name: RANDOM.standard_normal([2 if size == "N" else size for size in shape]).astype(np.float32)
        for name, shape in zip("abc", shapes, strict=False)
    }
    np.testing.assert_allclose(run(proto, feeds)[0], np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)


def test_axes_of_several_sizes_are_left(model_of):
    found = named(model_of, model("...n,...n->...n", [["N", 2, 5], [3, 2, 5]]))
    assert "its unnamed axes have several sizes" in found


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("ab,bc,cd->ad", [[2, 3], [3, 4], [4, 5]], ["ab,bc->ac", "ac,cd->ad"]),
        ("ab,ac,bc", [[2, 3], [2, 4], [3, 4]], ["ab,ac->bc", "bc,bc->"]),
        ("ab,cb,da->bd", [[2, 3], [4, 3], [5, 2]], ["ab,cb->ab", "ab,da->bd"]),
        ("aab,b,c,cb->ac", [[2, 2, 3], [3], [4], [4, 3]], ["aab,b->ab", "ab,c->abc", "abc,cb->ac"]),
    ],
)
def test_several_tensors_are_multiplied_in_pairs(model_of, run, equation, shapes, expected):
    names = "abcd"[: len(shapes)]
    node = helper.make_node("Einsum", list(names), ["y"], equation=equation)
    inputs = [helper.make_tensor_value_info(name, 1, shape) for name, shape in zip(names, shapes, strict=True)]
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name="y")])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    candidate = model_of(proto)
    name_nodes(candidate.graph_model)

    def refusals(candidate):
        return {node_name(node) for node in candidate.graph if len(node.inputs) > 2}

    result = rewritten(infer_shapes(candidate, strict=False), refusals, installed_rewrites())

    assert [node.attributes.get_string("equation") for node in result.model.graph] == expected
    feeds = {name: RANDOM.standard_normal(shape).astype(np.float32) for name, shape in zip(names, shapes, strict=True)}
    got = run(ir.to_proto(result.model.graph_model), feeds)[0]
    np.testing.assert_allclose(got, np.einsum(equation, *feeds.values()), rtol=1e-4, atol=1e-5)
