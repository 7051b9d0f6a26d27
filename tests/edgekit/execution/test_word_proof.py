from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper

from edgekit.execution.reference import NotRunnableError
from edgekit.execution.word_proof import difference_on_words
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.graph.words.inputs import WordInputs, with_word_inputs
from edgekit.model import Model

ML = "ai.onnx.ml"


def _model(node: str = "LabelEncoder", words: int = 300, **attributes: object) -> Model:
    keys = [f"word {number}" for number in range(words)]
    given = {"keys_strings": keys, "values_int64s": list(range(words)), "default_int64": -5}
    graph = helper.make_graph(
        [helper.make_node(node, ["x"], ["y"], domain=ML, **(attributes or given))],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.STRING, ["N", 4])],
        [helper.make_empty_tensor_value_info("y")],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 3)]
    return infer_shapes(Model(ir.from_proto(helper.make_model(graph, opset_imports=opsets, ir_version=8))))


def _difference(before: Model, found: WordInputs) -> str | None:
    return difference_on_words(before, found.model, found.looked_up, found.vocabularies)


def test_nothing_differs() -> None:
    model = _model()
    assert _difference(model, with_word_inputs(model)) is None


@pytest.mark.parametrize("place", [0, 150, 299, 300], ids=["first", "one of many", "last", "any other word"])
def test_one_wrong_value_is_seen(place: int) -> None:
    model = _model(words=300)
    found = with_word_inputs(model)
    (table,) = found.model.graph.initializers.values()
    assert table.const_value is not None
    values = np.array(table.const_value.numpy())
    values[place] = 77
    table.const_value = ir.tensor(values, name=table.name)
    assert _difference(model, found) == "value y has other values"


def test_words_that_the_model_fails_at_tell_nothing() -> None:
    model = _model("OneHotEncoder", cats_strings=["a", "b"], zeros=0)
    assert _difference(model, with_word_inputs(model)) is None


def test_a_model_that_does_not_run_on_any_words_is_not_proven() -> None:
    model = _model("OneHotEncoder", cats_strings=["a"], zeros=1)
    for node in model.graph:
        node.attributes.add(ir.AttrInt64s("cats_int64s", [1]))  # both, which ONNX Runtime refuses
    with pytest.raises(NotRunnableError):
        _difference(model, WordInputs(model, {"x": ("a",)}, looked_up=("y",)))
