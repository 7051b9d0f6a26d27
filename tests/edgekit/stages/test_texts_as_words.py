from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import edgekit
from edgekit.data.sampled_shapes import sampled_shapes
from edgekit.errors import EdgeKitError, InputError
from edgekit.features.tokens import TokenRule
from edgekit.graph.input_notes import KEY
from edgekit.reporting.summary import stage_record
from edgekit.stages.load import Load
from edgekit.stages.words_as_numbers import WordsAsNumbers

WORDS = ["#", "bad", "fine", "good", "so", "very"]
PAIRS = ["so", "so", "very", "good"]
GRAMS = len(WORDS) + len(PAIRS) // 2


def _save(path: Path, shape: list[Any], **tokenizer: Any) -> Path:
    """What skl2onnx writes of a TfidfVectorizer in front of a linear model."""
    given = {"mark": 0, "mincharnum": 1, "pad_value": "#", "tokenexp": "[a-zA-Z0-9_]+", **tokenizer}
    nodes = [
        helper.make_node("Reshape", ["text", "flat"], ["one"]),
        helper.make_node(
            "StringNormalizer", ["one"], ["small"], case_change_action="LOWER", locale="C", is_case_sensitive=0
        ),
        helper.make_node("Tokenizer", ["small"], ["words"], name="cut", domain="com.microsoft", **given),
        helper.make_node("Flatten", ["words"], ["rows"]),
        helper.make_node(
            "TfIdfVectorizer",
            ["rows"],
            ["counts"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, len(WORDS)],
            ngram_indexes=[1, 0, 2, 7, 4, 5, 6, 3],
            pool_strings=[*WORDS, *PAIRS],
        ),
        helper.make_node("MatMul", ["counts", "w"], ["scores"]),
    ]
    weights = np.random.default_rng(0).standard_normal((GRAMS, 64)).astype(np.float32)
    graph = helper.make_graph(
        nodes,
        "texts",
        [helper.make_tensor_value_info("text", TensorProto.STRING, shape)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, [None, 64])],
        [onnx.numpy_helper.from_array(np.array([-1]), "flat"), onnx.numpy_helper.from_array(weights, "w")],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return _save(tmp_path / "texts.onnx", [None], pad_value="of no text")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Texts, the longest of 17 words."""
    folder = tmp_path / "data"
    folder.mkdir()
    for number, text in enumerate(
        ["Very good", "so so, BAD", "", "fine-\N{LATIN SMALL LETTER E WITH ACUTE}so", "a " * 17]
    ):
        np.savez(folder / f"{number}.npz", text=np.array([text]))
    return folder


def _original(model: Path, texts: list[str]) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"text": np.array(texts, object)})[0])


@pytest.mark.parametrize("target", ["intel-cpu", "ios18"])
def test_a_classifier_of_texts_packages_and_takes_texts(tmp_path: Path, model: Path, data: Path, target: str) -> None:
    bundle = edgekit.package(model, target, tmp_path / "out", data=data, quantize="none")
    (feature,) = bundle.inputs
    assert (feature.dtype, feature.shape[-1], feature.vocabulary) == ("int64", 32, tuple(WORDS))
    assert feature.tokens == (TokenRule(expression="[a-zA-Z0-9_]+", case="ascii-lower", count=32),)
    assert bundle.manifest["inputs"][0]["tokens"] == [
        {"expression": "[a-zA-Z0-9_]+", "case": "ascii-lower", "count": 32}
    ]
    assert stage_record(bundle.manifest, "words as numbers")["tokens"] == {"text": [32]}
    loaded = edgekit.load(bundle)
    for text in ("Good, very very GOOD!", "", "so\N{NO-BREAK SPACE}so so bad_"):
        found = loaded.run([text])["scores"]
        np.testing.assert_allclose(found, _original(model, [text]), atol=0.02)
    numbers = np.full((1, 32), len(WORDS))
    numbers[0, :2] = 5, 3
    np.testing.assert_array_equal(loaded.run(numbers)["scores"], loaded.run(["VERY good"])["scores"])
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None
    if target != "ios18":  # whose check runs on a Mac
        subprocess.run([sys.executable, "check.py"], cwd=bundle.path, check=True, capture_output=True)

    too_long = "a text has more words than the input has places for\nexpected: up to 32: what matches"
    with pytest.raises(InputError, match=f"input 'text': {too_long}"):
        loaded.run(["so " * 33])
    (tmp_path / "long").mkdir()
    np.savez(tmp_path / "long" / "0.npz", text=np.array(["so " * 33]))
    with pytest.raises(InputError, match=rf"0\.npz, array 'text': {too_long}"):
        edgekit.verify(bundle, data=tmp_path / "long", model=model)


def test_several_texts_at_once(tmp_path: Path, data: Path) -> None:
    model = _save(tmp_path / "column.onnx", ["N", 1], pad_value="of no text")
    (tmp_path / "columns").mkdir()
    for number in range(3):
        np.savez(tmp_path / "columns" / f"{number}.npz", text=np.array([["very"], ["so so bad"]][: 1 + number % 2]))
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=tmp_path / "columns", quantize="none")
    assert bundle.inputs[0].shape[1:] == (1, 16)
    texts = [["very good"], ["bad"], [""]]
    np.testing.assert_allclose(edgekit.load(bundle).run(np.array(texts))["scores"], _original(model, texts), atol=1e-5)
    with pytest.raises(InputError, match="the array's shape is not the model's"):
        edgekit.load(bundle).run(np.array(["very good"]))


def test_places_are_as_many_as_samples_need(model: Path, data: Path, tmp_path: Path) -> None:
    loaded = Load()(model).model
    result = WordsAsNumbers(sampled_shapes(data))(loaded)
    assert result.record == {
        "inputs": {"text": 6},
        "tokens": {"text": [32]},
        "warnings": [
            "input 'text' takes the numbers of up to 32 words (what matches [a-zA-Z0-9_]+, in lower case of ASCII "
            "letters) in place of each text: from 0, a word's place among 6 words ('#', 'bad', 'fine', 'good', "
            "'so' …), or 6 for any other word and behind the last one"
        ],
    }
    assert WordsAsNumbers()(loaded).record["tokens"] == {"text": [64]}
    assert WordsAsNumbers(counts={"text": [5]})(loaded).model.inputs[0].shape == (None, 5)
    assert WordsAsNumbers(counts={})(loaded).record["inputs"] == {}
    (tmp_path / "numbers").mkdir()
    np.savez(tmp_path / "numbers" / "0.npz", text=np.array([[1, 2, 6]]))
    assert WordsAsNumbers(sampled_shapes(tmp_path / "numbers"))(loaded).record["tokens"] == {"text": [3]}


def test_samples_may_hold_the_numbers(model: Path, tmp_path: Path) -> None:
    (tmp_path / "numbers").mkdir()
    for number in range(3):
        np.savez(tmp_path / "numbers" / f"{number}.npz", text=np.array([[5, 3, number, 6]]))
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=tmp_path / "numbers", quantize="none")
    assert bundle.inputs[0].shape[-1] == 4
    np.testing.assert_allclose(
        edgekit.load(bundle).run(np.array([[5, 3, 1, 6]]))["scores"], _original(model, ["very good bad"]), atol=1e-5
    )


def test_each_text_counts_as_it_does_alone(tmp_path: Path) -> None:
    """The original takes what it fills shorter texts with for a word of them, where the word is one that it knows."""
    model = _save(tmp_path / "texts.onnx", [None], tokenexp="[a-z#]+")
    result = WordsAsNumbers()(Load()(model).model)
    assert result.record["inputs"] == {"text": 6}
    assert result.record["warnings"][1] == (
        "if several texts are given at once, the original fills the shorter ones with '#' and counts it as a word; "
        "the built model computes each text as if it were given alone"
    )
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data" / "0.npz", text=np.array(["so so bad", "fine"]))
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=tmp_path / "data", quantize="none")
    together = edgekit.load(bundle).run(["so so bad", "fine"])["scores"]
    alone = [_original(model, [text])[0] for text in ("so so bad", "fine")]
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert not np.allclose(_original(model, ["so so bad", "fine"]), alone, atol=1e-3)


def test_without_samples_a_text_at_a_time_is_built(tmp_path: Path, model: Path) -> None:
    assert edgekit.package(model, "intel-cpu", tmp_path / "one").inputs[0].shape == (1, 64)
    (tmp_path / "tables").mkdir()
    np.savez(tmp_path / "tables" / "0.npz", text=np.array([["so"]]))
    with pytest.raises(InputError, match=r"expected: text: str 1\nfound: text: str64 1×1"):
        edgekit.package(model, "intel-cpu", tmp_path / "out", data=tmp_path / "tables")
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", shapes={"text": [2]})
    assert bundle.inputs[0].shape == (2, 64)


def test_a_check_asks_about_what_is_built(model: Path) -> None:
    assert edgekit.check(model, "intel-cpu").supported


def test_texts_that_python_may_cut_otherwise_stay(tmp_path: Path, data: Path) -> None:
    model = _save(tmp_path / "texts.onnx", [None], tokenexp="[a-z]+|[0-9]")
    result = WordsAsNumbers(sampled_shapes(data))(Load()(model).model)
    assert "tokens" not in result.record
    assert result.record["warnings"][0].startswith(
        "input 'text' still takes texts: node 'cut' (com.microsoft.Tokenizer): expression '[a-z]+|[0-9]' has "
        "alternatives, groups or anchors, which may match otherwise elsewhere; `edgekit extract MODEL"
    )
    with pytest.raises(EdgeKitError):
        edgekit.package(model, "intel-cpu", tmp_path / "out", data=data)


def test_a_quantized_file_tells_how_texts_become_words(tmp_path: Path, model: Path, data: Path) -> None:
    small = tmp_path / "small.onnx"
    edgekit.quantize(model, small, data=data, target="ios18", scheme="int8-weights")
    rules = [{"expression": "[a-zA-Z0-9_]+", "case": "ascii-lower", "count": 32}]
    stated = {entry.key: entry.value for entry in onnx.load(small).metadata_props}
    assert json.loads(stated[KEY]) == {"text": {"vocabulary": WORDS, "tokens": rules}}
    bundle = edgekit.package(small, "intel-cpu", tmp_path / "out", data=data, quantize="none")
    assert bundle.manifest["inputs"][0]["tokens"] == rules
    edgekit.load(bundle).run(["very good"])

    for wrong, found in (
        ([{"count": 31}], "'tokens' with 31 places"),
        ([{"expression": "(a)", "count": 32}], "has alternatives, groups or anchors"),
        ([{"count": 32, "pad": 1}], "unknown key 'pad'"),
    ):
        proto = onnx.load(small)
        helper.set_model_props(proto, {KEY: json.dumps({"text": {"vocabulary": WORDS, "tokens": wrong}})})
        onnx.save(proto, tmp_path / "changed.onnx")
        with pytest.raises(InputError, match=found):
            Load()(tmp_path / "changed.onnx")


def test_a_manifest_whose_rules_do_not_fit_is_refused(tmp_path: Path, model: Path, data: Path) -> None:
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=data, quantize="none")
    for wrong, found in (
        ([{"count": 5}], "tokens of text: no 5 numbers of words in the last dimension"),
        ([{"expression": "a|b", "count": 32}], "tokens of text: expression 'a|b' has alternatives"),
    ):
        manifest = json.loads((bundle.path / "manifest.json").read_text())
        manifest["inputs"][0]["tokens"] = wrong
        (bundle.path / "manifest.json").write_text(json.dumps(manifest))
        with pytest.raises(InputError, match=found.replace("|", r"\|")):
            edgekit.load(bundle.path)
