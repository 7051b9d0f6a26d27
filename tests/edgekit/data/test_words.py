from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from edgekit.api import package, verify
from edgekit.data.words import ANY_WORDS, Words, word_limits
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit.stages.load import Load

COLOURS, SIZES = ["red", "green", "blue"], ["small", "large"]


def saved(path: Path, nodes: list[onnx.NodeProto], shape: list[int], constants: dict[str, np.ndarray]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    onnx.save(model, path)
    return path


def encoder(x: str, y: str, words: list[str]) -> onnx.NodeProto:
    return helper.make_node("OneHotEncoder", [x], [y], domain="ai.onnx.ml", cats_strings=words, zeros=0)


def columns(path: Path) -> Path:
    """A table of texts, each column with its own categories; ONNX Runtime refuses other texts."""
    nodes = [
        helper.make_node("Gather", ["x", "first"], ["colour"], axis=1),
        helper.make_node("Gather", ["x", "second"], ["size"], axis=1),
        encoder("colour", "c", COLOURS),
        encoder("size", "s", SIZES),
        helper.make_node("Concat", ["c", "s"], ["y"], axis=2),
    ]
    return saved(path, nodes, [2, 2], {"first": np.array([0]), "second": np.array([1])})


def lines(path: Path, expression: str = "[a-z]+") -> Path:
    """Lines of words, counted."""
    count = helper.make_node(
        "TfIdfVectorizer",
        ["words"],
        ["y"],
        max_gram_length=1,
        max_skip_count=0,
        min_gram_length=1,
        mode="TF",
        ngram_counts=[0],
        ngram_indexes=[0, 1, 2],
        pool_strings=["quick", "brown", "fox"],
    )
    cut = helper.make_node(
        "Tokenizer",
        ["lower"],
        ["words"],
        domain="com.microsoft",
        mark=0,
        mincharnum=1,
        pad_value="#",
        tokenexp=expression,
    )
    lower = helper.make_node("StringNormalizer", ["x"], ["lower"], case_change_action="LOWER", locale="C")
    path = saved(path, [lower, cut, count], [3], {})
    model = onnx.load(path)
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, path)
    return path


def test_words_are_those_of_the_column(tmp_path: Path) -> None:
    words = word_limits(Load()(columns(tmp_path / "m.onnx")).model)["x"]
    assert words == Words(((0, tuple(COLOURS)), (1, tuple(SIZES))))
    drawn = words.draw(np.random.default_rng(0), (50, 2))
    assert set(drawn[:, 0]) == set(COLOURS)
    assert set(drawn[:, 1]) == set(SIZES)


def test_a_text_that_is_cut_is_a_line_of_words(tmp_path: Path) -> None:
    words = word_limits(Load()(lines(tmp_path / "m.onnx")).model)["x"]
    assert words == Words(((None, ("quick", "brown", "fox")),), in_lines=True)
    drawn = words.draw(np.random.default_rng(0), (50,))
    assert {word for line in drawn for word in line.split()} == {"quick", "brown", "fox"}
    assert max(len(line.split()) for line in drawn) > 1


def test_without_words_in_the_graph_any_will_do(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["n"], to=TensorProto.FLOAT),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    words = word_limits(Load()(saved(tmp_path / "m.onnx", nodes, [2], {})).model)["x"]
    assert set(words.draw(np.random.default_rng(0), (50,))) == set(ANY_WORDS)


@pytest.mark.parametrize("make", [columns, lines])
def test_a_text_model_becomes_a_bundle_for_onnxruntime(tmp_path: Path, make: object) -> None:
    assert callable(make)
    bundle = package(make(tmp_path / "m.onnx"), "onnxruntime", tmp_path / "bundle")
    assert [feature.dtype for feature in bundle.inputs] == ["str"]
    assert [output.name for output in verify(bundle).golden] == ["y"]


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("ios18", "ML Programs have no tensors of type string"),
        ("intel-cpu", "OpenVINO's ONNX frontend has no conversion for it"),
    ],
)
def test_targets_without_texts_say_so(tmp_path: Path, target: str, reason: str) -> None:
    with pytest.raises(UnsupportedOpsError) as caught:
        package(lines(tmp_path / "m.onnx", "[a-z]+|[0-9]"), target, tmp_path / "bundle")
    assert reason in str(caught.value)


def test_the_part_of_a_table_that_a_column_is_of(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Concat", ["a", "b"], ["table"], axis=1),
        helper.make_node("Gather", ["table", "first"], ["colour"], axis=1),
        helper.make_node("Gather", ["table", "last"], ["size"], axis=1),
        encoder("colour", "c", COLOURS),
        encoder("size", "s", SIZES),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(name, TensorProto.STRING, ["N", width]) for name, width in (("a", 1), ("b", 2))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "cs"],
        [helper.make_tensor(name, TensorProto.INT64, [1], [at]) for name, at in (("first", 0), ("last", -1))],
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]),
        tmp_path / "m.onnx",
    )
    words = word_limits(Load()(tmp_path / "m.onnx").model)
    assert words == {"a": Words(((0, tuple(COLOURS)),)), "b": Words(((1, tuple(SIZES)),))}


@pytest.mark.parametrize(
    ("node", "shape", "columns"),
    [
        (helper.make_node("Gather", ["x", "last"], ["p"], axis=-1), [2, 3], ((2, ("cat",)),)),
        (helper.make_node("Gather", ["x", "last"], ["p"], axis=0), [2, 3], ((None, ("cat",)),)),
        (helper.make_node("Gather", ["x", "last"], ["p"]), [], ((None, ("cat",)),)),
    ],
    ids=["a column from the end", "rows", "a scalar, which is not valid"],
)
def test_the_column_that_is_picked(node: onnx.NodeProto, shape: list[int], columns: object) -> None:
    last = helper.make_tensor("last", TensorProto.INT64, [1], [-1])
    encode = helper.make_node(
        "LabelEncoder", ["p"], ["y"], domain="ai.onnx.ml", keys_strings=["cat"], values_int64s=[1]
    )
    taken = helper.make_tensor_value_info("x", TensorProto.STRING, shape)
    graph = helper.make_graph([node, encode], "g", [taken], [helper.make_empty_tensor_value_info("y")], [last])
    model = Model(ir.from_proto(helper.make_model(graph)))
    assert word_limits(model)["x"] == Words(columns)
