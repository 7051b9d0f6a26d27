from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from edgekit.errors import InputError
from edgekit.graph.reading.vetting import (
    MOST_LEVELS,
    MOST_NODES,
    check_depth,
    check_equations,
    check_expansion,
    check_references,
    check_texts,
    unreadable_as_input_error,
)

PATH = Path("m.onnx")


def nested(depth: int, calls: int, *, first_calls: str = "Relu") -> onnx.ModelProto:
    """Functions, each of which calls the one before it a few times."""
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for level in range(depth):
        kind = first_calls if level == 0 else f"f{level - 1}"
        domain = "own" if kind.startswith("f") else ""
        values = ["p", *(f"v{call}" for call in range(calls))]
        nodes = [helper.make_node(kind, [values[n]], [values[n + 1]], domain=domain) for n in range(calls)]
        functions.append(helper.make_function("own", f"f{level}", ["p"], [values[-1]], nodes, opsets))
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    graph = helper.make_graph(
        [helper.make_node(f"f{depth - 1}", ["x"], ["y"], domain="own")],
        "g",
        [value],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    return helper.make_model(graph, functions=functions[::-1], opset_imports=opsets)


def test_functions_that_stand_for_a_billion_nodes_are_counted_not_inlined() -> None:
    with pytest.raises(InputError) as raised:
        check_expansion(nested(30, 2), PATH)
    assert str(raised.value) == (
        "m.onnx: its functions expand to too many nodes\n"
        f"expected: {MOST_NODES + 20 * 61} nodes at most, as the file has 61\n"
        f"found: {2**30}"
    )


@pytest.mark.parametrize(("depth", "calls"), [(1, 3), (10, 2), (17, 2), (500, 1)])
def test_functions_that_stay_small_pass(depth: int, calls: int) -> None:
    check_expansion(nested(depth, calls), PATH)


@pytest.mark.parametrize("depth", [1, 2, 5])
def test_a_function_that_calls_itself_is_named(depth: int) -> None:
    with pytest.raises(InputError, match=r"m\.onnx: function 'f\d' calls itself"):
        check_expansion(nested(depth, 2, first_calls=f"f{depth - 1}"), PATH)


def test_what_a_reader_stumbles_over_is_an_error_about_the_file() -> None:
    failure = RuntimeError("deserializing failed")
    failure.__cause__ = KeyError("dtype 99")
    with pytest.raises(InputError) as raised, unreadable_as_input_error(PATH):
        raise failure
    assert str(raised.value).splitlines()[:3] == [
        "m.onnx: cannot be read as a model",
        "expected: a graph that onnx and onnx_ir can read",
        "found: KeyError: 'dtype 99'",
    ]


def test_what_the_system_refuses_stays_what_it_is() -> None:
    with pytest.raises(PermissionError), unreadable_as_input_error(PATH):
        raise PermissionError(13, "denied", "m.onnx")


@pytest.mark.parametrize(
    "equation", ["ij,jk->ik", "...ij,...jk->...ik", "i...->...", " b i j , b j k -> b i k ", "ii", "", "->"]
)
def test_equations_of_the_grammar_pass(equation: str) -> None:
    check_equations(with_equation(equation), PATH)


@pytest.mark.parametrize("equation", ["......", "....", "...a...->a", "a.b->a", "i->j->k", "1,2->", "a;b"])
def test_equations_on_which_shape_inference_may_never_end_are_refused(equation: str) -> None:
    with pytest.raises(InputError) as raised:
        check_equations(with_equation(equation), PATH)
    assert str(raised.value) == (
        "m.onnx: node 'product' (Einsum) has an invalid equation\n"
        "expected: terms of letters and at most one `...`, such as `...ij,...jk->...ik`\n"
        f"found: {equation}"
    )


def with_equation(equation: str) -> onnx.ModelProto:
    node = helper.make_node("Einsum", ["x"], ["y"], name="product", equation=equation)
    inside = helper.make_graph([node], "b", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    holder = helper.make_node("If", ["k"], ["z"], then_branch=inside, else_branch=inside)
    return helper.make_model(helper.make_graph([holder], "g", [], []))


def branches(depth: int) -> onnx.ModelProto:
    """Branches inside branches; the innermost holds one node."""
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["v"])], "g", [], [])
    for level in range(depth):
        node = helper.make_node("If", ["k"], [f"v{level}"], name=f"if{level}", then_branch=graph)
        graph = helper.make_graph([node], "g", [], [])
    return helper.make_model(graph)


def test_branches_nested_too_deeply_are_refused() -> None:
    check_depth(branches(MOST_LEVELS), PATH)
    with pytest.raises(InputError) as raised:
        check_depth(branches(MOST_LEVELS + 1), PATH)
    assert str(raised.value) == (
        "m.onnx: has subgraphs that are nested too deeply\nexpected: 24 levels at most\n"
        "found: more, at node 'v' (Identity)\nhint: write the branches side by side"
    )


def doubled(depth: int) -> onnx.ModelProto:
    """Branches both of which hold branches."""
    output = helper.make_tensor_value_info("v", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["v"])], "b", [], [output])
    for _ in range(depth):
        graph = helper.make_graph(
            [helper.make_node("If", ["k"], ["v"], then_branch=graph, else_branch=graph)], "b", [], [output]
        )
    return helper.make_model(graph)


def test_branches_that_double_with_every_level_are_refused_before_they_are_deep() -> None:
    check_depth(doubled(6), PATH)
    with pytest.raises(InputError) as raised:
        check_depth(doubled(7), PATH)
    assert str(raised.value) == (
        "m.onnx: has too many subgraphs inside each other\nexpected: 100 side by side at level 7 at most\n"
        "found: 128\nhint: compute the branches once, and choose between their results with Where"
    )


def with_nul(change: Callable[[onnx.ModelProto], None]) -> onnx.ModelProto:
    proto = nested(1, 1)
    change(proto)
    return proto


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda proto: setattr(proto, "producer_name", "a\0b"), "the producer"),
        (lambda proto: setattr(proto.graph, "name", "a\0b"), "the graph's name"),
        (lambda proto: proto.metadata_props.add(key="names", value="a\0b"), "an entry of the metadata"),
        (lambda proto: setattr(proto.functions[0], "name", "a\0b"), "a function's name"),
        (lambda proto: setattr(proto.graph.node[0], "name", "a\0b"), "the name of a node"),
        (lambda proto: proto.graph.node[0].output.append("a\0b"), "the name of a value"),
        (lambda proto: proto.graph.node[0].attribute.add(name="a\0b"), "the name of an attribute"),
        (lambda proto: setattr(proto.graph.input[0], "name", "a\0b"), "the name of a value"),
        (
            lambda proto: proto.graph.input[0].type.tensor_type.shape.dim.add(dim_param="a\0b"),
            "the name of a dimension",
        ),
    ],
)
def test_a_nul_in_a_text_is_refused(change: Callable[[onnx.ModelProto], None], what: str) -> None:
    check_texts(nested(1, 1), PATH)
    with pytest.raises(InputError) as caught:
        check_texts(with_nul(change), PATH)
    assert str(caught.value) == (
        f"m.onnx: {what} holds a NUL\nexpected: names and metadata without one\nfound: 'a\\x00b'\n"
        "hint: export the model again"
    )


@pytest.mark.parametrize(
    ("text", "what"), [(b"xxxx", "the name of a value"), (b"Relu", "the name of a node"), (b"gggg", "the graph's name")]
)
def test_a_name_that_is_not_in_utf_8(tmp_path: Path, text: bytes, what: str) -> None:
    from edgekit.stages.load import Load

    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["xxxx"], ["y"])],
        "gggg",
        [onnx.helper.make_tensor_value_info("xxxx", onnx.TensorProto.FLOAT, [4])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [4])],
    )
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx.helper.make_model(graph, ir_version=8).SerializeToString().replace(text, b"a\xff\xfeb"))
    with pytest.raises(InputError) as caught:
        Load()(path)
    assert str(caught.value).startswith(f"{path}: {what} is not text in UTF-8\nfound: b'a\\xff\\xfeb'\nhint: ")


def test_a_reference_to_an_attribute_outside_of_functions_is_refused() -> None:
    proto = nested(2, 2)
    for node in proto.functions[0].node:
        node.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    check_references(proto, PATH)
    proto.graph.node[0].attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    with pytest.raises(InputError) as caught:
        check_references(proto, PATH)
    assert str(caught.value) == (
        "m.onnx: node 'y' (f1) refers to an attribute of a function\n"
        "expected: a value of its attribute 'alpha': the node is in no function\n"
        "found: a reference to 'slope'\n"
        "hint: export the model again"
    )


def test_a_name_that_is_no_text() -> None:
    path = Path(os.fsdecode(b"caf\xe9.onnx"))
    with pytest.raises(InputError) as raised, unreadable_as_input_error(path):
        raise AssertionError("onnx is not asked")
    assert str(raised.value) == (
        f"{path}: its name, or that of a folder above it, is not text in UTF-8, which onnx and the runtimes need\n"
        "hint: rename it, or set PYTHONUTF8=1 where the system's locale is another"
    )
