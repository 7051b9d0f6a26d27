from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper

import edgekit
from edgekit.errors import InputError
from edgekit.features.draws import Draw
from edgekit.graph.input_notes import KEY
from edgekit.graph.reading.onnx_file import write_model
from edgekit.model import Model
from edgekit.stages.load import Load

POLICY = """<ir_version: 8, opset_import: ["" : 17]>
policy (float[1, 64] state) => (float[1, 64] action) {
    noise = RandomNormalLike <mean = 1.0, scale = 2.0> (state)
    mixed = MatMul(state, w)
    action = Add(mixed, noise)
}"""
PLAIN = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] noise, int64[1] word, float[1, 4] x) => (float[1, 4] y) {
    taken = Gather <axis = 0> (x, zero)
    wide = Cast <to = 1> (word)
    a = Add(noise, taken)
    y = Add(a, wide)
}"""
NOISE = {"distribution": "normal", "first": 1.0, "second": 2.0}


def stated(file: Path) -> dict[str, Any]:
    found = {entry.key: entry.value for entry in onnx.load(file).metadata_props}
    return json.loads(found[KEY]) if KEY in found else {}


@pytest.fixture
def noted(tmp_path: Path) -> Callable[[str], Path]:
    """A file with texts for metadata."""

    def write(text: str) -> Path:
        proto = onnx.parser.parse_model(PLAIN)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([0]), "zero"))
        helper.set_model_props(proto, {KEY: text, "author": "somebody"})
        onnx.save(proto, tmp_path / "noted.onnx")
        return tmp_path / "noted.onnx"

    return write


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
def test_a_quantized_file_tells_what_its_random_numbers_are_drawn_from(tmp_path: Path, target: str) -> None:
    rng = np.random.default_rng(0)
    proto = onnx.parser.parse_model(POLICY)
    weights = rng.standard_normal((64, 64)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(proto, tmp_path / "policy.onnx")
    (tmp_path / "data").mkdir()
    for number in range(8):
        np.savez(tmp_path / "data" / f"{number}.npz", state=rng.standard_normal((1, 64)).astype(np.float32))

    edgekit.quantize(
        tmp_path / "policy.onnx",
        tmp_path / "small.onnx",
        data=tmp_path / "data",
        target=target,
        scheme="int8-weights",
    )
    bundle = edgekit.package(tmp_path / "small.onnx", target, tmp_path / "out", data=tmp_path / "data", quantize="none")

    assert stated(tmp_path / "small.onnx") == {"random_numbers": {"drawn": NOISE}}
    told = {feature.name: feature.drawn for feature in bundle.inputs}
    assert told == {"state": None, "random_numbers": Draw("normal", 1.0, 2.0)}
    runner = edgekit.load(bundle)
    state = rng.standard_normal((1, 64)).astype(np.float32)
    first, second = (next(iter(runner.run({"state": state}).values())) for _ in range(2))
    assert not np.array_equal(first, second)  # drawn anew, where the app gives none


def test_a_quantized_file_tells_the_words_that_its_numbers_stand_for(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = ["blue", "grün", "red"]
    nodes = [
        helper.make_node("OneHotEncoder", ["colour"], ["hot"], domain="ai.onnx.ml", cats_strings=words, zeros=1),
        helper.make_node("Reshape", ["hot", "flat"], ["row"]),
        helper.make_node("MatMul", ["row", "w"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info("colour", TensorProto.STRING, [4, 1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 64])],
        [
            onnx.numpy_helper.from_array(np.array([4, 3]), "flat"),
            onnx.numpy_helper.from_array(rng.standard_normal((3, 64)).astype(np.float32), "w"),
        ],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("ai.onnx.ml", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "table.onnx")
    (tmp_path / "data").mkdir()
    for number in range(8):
        np.savez(tmp_path / "data" / f"{number}.npz", colour=rng.choice([*words, "other"], (4, 1)))

    edgekit.quantize(tmp_path / "table.onnx", tmp_path / "small.onnx", target="intel-cpu", scheme="int8-weights")
    bundle = edgekit.package(
        tmp_path / "small.onnx", "intel-cpu", tmp_path / "out", data=tmp_path / "data", quantize="none"
    )

    assert stated(tmp_path / "small.onnx") == {"colour": {"vocabulary": words}}
    (feature,) = bundle.inputs
    assert (feature.dtype, feature.vocabulary) == ("int64", tuple(words))
    by_word, by_number = (
        edgekit.load(bundle).run({"colour": column})["y"]
        for column in (np.array([["red"], ["grün"], ["blue"], ["mauve"]]), np.array([[2], [1], [0], [3]]))
    )
    np.testing.assert_array_equal(by_word, by_number)


def test_what_a_file_tells_is_told_by_files_that_are_made_of_it(noted: Callable[[str], Path], tmp_path: Path) -> None:
    notes = {"noise": {"drawn": NOISE}, "word": {"vocabulary": ["a", "b"]}}
    source = noted(json.dumps(notes))

    edgekit.extract(source, tmp_path / "part.onnx", outputs=["a"])
    loaded = Load()(source).model
    write_model(loaded, tmp_path / "whole.onnx")

    assert stated(tmp_path / "whole.onnx") == notes
    assert stated(tmp_path / "part.onnx") == {"noise": {"drawn": NOISE}}
    assert dict(loaded.metadata) == {"author": "somebody"}


def test_a_file_without_such_inputs_has_no_such_metadata(noted: Callable[[str], Path], tmp_path: Path) -> None:
    write_model(Load()(noted("{}")).model, tmp_path / "plain.onnx")
    assert [entry.key for entry in onnx.load(tmp_path / "plain.onnx").metadata_props] == ["author"]


def test_an_input_that_is_gone_is_a_warning(noted: Callable[[str], Path]) -> None:
    result = Load()(noted(json.dumps({"gone": {"drawn": NOISE}, "noise": {"drawn": NOISE}})))
    assert result.record["warnings"] == [f"its metadata ({KEY!r}) describe input 'gone', which the model does not have"]
    assert result.model.drawn == {"noise": Draw("normal", 1.0, 2.0)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", r"found: \[\]"),
        ('{"noise": {"taken": 1}}', "of input 'noise'"),
        (json.dumps({"noise": {"drawn": NOISE, "vocabulary": []}}), "of input 'noise'"),
        (json.dumps({"noise": {"drawn": {**NOISE, "distribution": "bytes"}}}), "'bytes' is not one of"),
        (json.dumps({"noise": {"drawn": {**NOISE, "second": -1}}}), "-1 is negative, and a scale is at least 0"),
        (json.dumps({"noise": {"drawn": {**NOISE, "first": float("nan")}}}), "not a finite number"),
        (json.dumps({"noise": {"drawn": {"distribution": "uniform", "first": 1, "second": 0}}}), "0 is below 1"),
        (json.dumps({"word": {"drawn": NOISE}}), "'drawn' of input word: int64"),
        (json.dumps({"x": {"vocabulary": ["a"]}}), "'vocabulary' of input x: float32"),
        (json.dumps({"word": {"vocabulary": ["a", "a"]}}), "non-unique"),
        (json.dumps({"word": {"vocabulary": ["\ud800"]}}), "not valid Unicode"),
        (json.dumps({"word": {"vocabulary": ["a\0"]}}), "a text with a NUL"),
    ],
)
def test_other_metadata_under_that_key_are_refused(noted: Callable[[str], Path], text: str, found: str) -> None:
    with pytest.raises(InputError, match=found) as raised:
        Load()(noted(text))
    assert "noted.onnx" in str(raised.value)
    assert raised.value.hint == f"quantize the float model again, or take {KEY!r} out of metadata_props"


def test_the_given_model_is_not_changed_by_writing_it(noted: Callable[[str], Path], tmp_path: Path) -> None:
    model: Model = Load()(noted(json.dumps({"noise": {"drawn": NOISE}}))).model
    write_model(model, tmp_path / "again.onnx")
    assert KEY not in model.metadata
