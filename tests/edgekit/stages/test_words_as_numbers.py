from __future__ import annotations

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
from edgekit.errors import EdgeKitError, InputError
from edgekit.graph.words import lists
from edgekit.reporting.summary import stage_record
from edgekit.stages.load import Load
from edgekit.stages.words_as_numbers import WordsAsNumbers
from edgekit.target import Support

ML = "ai.onnx.ml"
COLOURS = ["blue", "green", "red"]
SIZES = ["large", "small"]
ROWS = 4


def _save(
    path: Path, nodes: list[onnx.NodeProto], inputs: dict[str, Any], outputs: dict[str, Any], **constants: Any
) -> Path:
    graph = helper.make_graph(
        nodes,
        "table",
        [helper.make_tensor_value_info(name, *described) for name, described in inputs.items()],
        [helper.make_tensor_value_info(name, *described) for name, described in outputs.items()],
        [onnx.numpy_helper.from_array(np.array(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid(ML, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), path)
    return path


@pytest.fixture(params=["ignore", "error"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """What skl2onnx writes of a ColumnTransformer with OneHotEncoder(handle_unknown=…) and a LogisticRegression."""
    zeros = int(request.param == "ignore")
    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Concat", ["colour", "size"], ["texts"], axis=1),
        helper.make_node("ArrayFeatureExtractor", ["texts", "place_0"], ["text_0"], domain=ML),
        helper.make_node("ArrayFeatureExtractor", ["texts", "place_1"], ["text_1"], domain=ML),
        helper.make_node("OneHotEncoder", ["text_0"], ["hot_0"], domain=ML, cats_strings=COLOURS, zeros=zeros),
        helper.make_node("OneHotEncoder", ["text_1"], ["hot_1"], domain=ML, cats_strings=SIZES, zeros=zeros),
        helper.make_node("Concat", ["hot_0", "hot_1"], ["hot"], axis=2),
        helper.make_node("Reshape", ["hot", "flat"], ["encoded"]),
        helper.make_node("Concat", ["encoded", "weight"], ["features"], axis=1),
        helper.make_node(
            "LinearClassifier",
            ["features"],
            ["label", "scores"],
            domain=ML,
            classlabels_strings=["bad", "good", "ugly"],
            coefficients=rng.standard_normal(21).tolist(),
            intercepts=rng.standard_normal(3).tolist(),
            multi_class=1,
            post_transform="SOFTMAX",
        ),
    ]
    return _save(
        tmp_path / "table.onnx",
        nodes,
        {
            "colour": (TensorProto.STRING, [ROWS, 1]),
            "size": (TensorProto.STRING, [ROWS, 1]),
            "weight": (TensorProto.FLOAT, [ROWS, 2]),
        },
        {"label": (TensorProto.STRING, [ROWS]), "scores": (TensorProto.FLOAT, [ROWS, 3])},
        place_0=np.array([0]),
        place_1=np.array([1]),
        flat=np.array([ROWS, 5]),
    )


def _drawn(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "colour": rng.choice(COLOURS, (ROWS, 1)),
        "size": rng.choice(SIZES, (ROWS, 1)),
        "weight": rng.standard_normal((ROWS, 2)).astype(np.float32),
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Samples of what the model as it was exported takes: texts."""
    folder = tmp_path / "data"
    folder.mkdir()
    for seed in range(6):
        np.savez(folder / f"{seed}.npz", **_drawn(seed))
    return folder


def _original(model: Path, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    label, scores = session.run(["label", "scores"], feeds)
    return {"label": np.searchsorted(["bad", "good", "ugly"], label), "scores": scores}


@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu", "ios18"])
def test_a_table_with_columns_of_texts_packages_and_takes_texts(
    tmp_path: Path, model: Path, data: Path, target: str
) -> None:
    bundle = edgekit.package(model, target, tmp_path / "out", data=data, quantize="none")
    told = {feature.name: (feature.dtype, feature.vocabulary) for feature in bundle.inputs}
    if target == "onnxruntime":
        assert told == {"colour": ("str", None), "size": ("str", None), "weight": ("float32", None)}
    else:
        assert told == {
            "colour": ("int64", ("blue", "green", "red")),
            "size": ("int64", ("large", "small")),
            "weight": ("float32", None),
        }
    loaded = edgekit.load(bundle)
    for seed in (0, 17):
        feeds = _drawn(seed)
        expected, found = _original(model, feeds), loaded.run(feeds)
        np.testing.assert_array_equal(found["label"], expected["label"])
        np.testing.assert_allclose(found["scores"], expected["scores"], atol=0.01)
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None
    if target != "ios18":  # whose check runs on a Mac
        subprocess.run([sys.executable, "check.py"], cwd=bundle.path, check=True, capture_output=True)


def test_words_that_the_model_does_not_know_have_one_number(tmp_path: Path, model: Path) -> None:
    loaded = edgekit.load(edgekit.package(model, "ios18", tmp_path / "out"))
    feeds = _drawn(3) | {"colour": np.array([["red"], ["pink"], [""], ["Red"]])}
    numbers = feeds | {"colour": np.array([[2], [3], [3], [3]])}
    for found, expected in zip(loaded.run(feeds).values(), loaded.run(numbers).values(), strict=True):
        np.testing.assert_array_equal(found, expected)
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    try:
        (expected,) = session.run(["scores"], feeds)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:  # handle_unknown="error"
        return
    np.testing.assert_allclose(loaded.run(feeds)["scores"], expected, atol=0.01)


def test_lists_of_texts_and_numbers_are_taken_and_strange_numbers_refused(tmp_path: Path, model: Path) -> None:
    loaded = edgekit.load(edgekit.package(model, "intel-cpu", tmp_path / "out"))
    feeds = _drawn(1)
    listed = {name: array.tolist() for name, array in feeds.items()}
    np.testing.assert_array_equal(loaded.run(listed)["scores"], loaded.run(feeds)["scores"])
    with pytest.raises(InputError) as raised:
        loaded.run(feeds | {"size": np.array([[0], [1], [3], [2]])})
    assert str(raised.value) == (
        "input 'size': a number stands for no word\n"
        "expected: 0 to 1 for the words of the vocabulary, 2 for any other\n"
        "found: 3\nhint: texts may be given as well"
    )


def test_samples_may_hold_the_numbers(tmp_path: Path, model: Path, data: Path) -> None:
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out", data=data, quantize="none")
    folder = tmp_path / "numbers"
    folder.mkdir()
    for number, (feeds, _) in enumerate(bundle.golden()):
        assert feeds["colour"].dtype == np.int64
        np.savez(folder / f"{number}.npz", **feeds)
    assert edgekit.verify(bundle, data=folder, model=model).accuracy is not None
    np.savez(folder / "strange.npz", **feeds | {"colour": np.full((ROWS, 1), -1)})
    with pytest.raises(InputError, match=r"strange\.npz, array 'colour': a number stands for no word"):
        edgekit.verify(bundle, data=folder, model=model)


def test_a_bundle_for_two_devices_takes_numbers_where_one_of_them_has_no_texts(tmp_path: Path, model: Path) -> None:
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "out", also=["ios18"])
    assert [feature.dtype for feature in bundle.inputs] == ["int64", "int64", "float32"]


def test_it_is_told_and_the_check_of_operators_follows(model: Path) -> None:
    found = edgekit.check(model, "ios18")
    assert found.warnings[-4 if "fails" in found.warnings[-1] else -2 :][:2] == (
        "input 'colour' takes the number of a word in place of the text: from 0, its place among 3 words "
        "('blue', 'green', 'red'), or 3 for any other word",
        "input 'size' takes the number of a word in place of the text: from 0, its place among 2 words "
        "('large', 'small'), or 2 for any other word",
    )
    assert Support.UNSUPPORTED not in {verdict.support for verdict in found.verdicts}


def test_quantized_on_samples_of_texts(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LabelEncoder", ["word"], ["id"], domain=ML, classes_strings=["a", "b", "c"], default_int64=3),
        helper.make_node("Gather", ["table", "id"], ["row"]),
        helper.make_node("MatMul", ["row", "weights"], ["y"]),
    ]
    rng = np.random.default_rng(0)
    path = _save(
        tmp_path / "net.onnx",
        nodes,
        {"word": (TensorProto.STRING, [5])},
        {"y": (TensorProto.FLOAT, [5, 8])},
        table=rng.standard_normal((4, 16)).astype(np.float32),
        weights=rng.standard_normal((16, 8)).astype(np.float32),
    )
    folder = tmp_path / "data"
    folder.mkdir()
    for seed in range(4):
        np.savez(folder / f"{seed}.npz", word=np.random.default_rng(seed).choice(["a", "b", "c", "d"], 5))
    edgekit.quantize(path, tmp_path / "q.onnx", data=folder, scheme="int8", target="intel-cpu")
    (taken,) = onnx.load(tmp_path / "q.onnx").graph.input
    assert taken.type.tensor_type.elem_type == TensorProto.INT64
    edgekit.quantize(path, tmp_path / "t.onnx", data=folder, scheme="int8", target="onnxruntime")
    (taken,) = onnx.load(tmp_path / "t.onnx").graph.input
    assert taken.type.tensor_type.elem_type == TensorProto.STRING


def test_texts_that_are_not_looked_up_stay_and_the_reason_is_told(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("StringNormalizer", ["word"], ["lower"], name="lower_case", case_change_action="LOWER"),
        helper.make_node(
            "TfIdfVectorizer",
            ["lower"],
            ["counts"],
            mode="TF",
            min_gram_length=1,
            max_gram_length=1,
            max_skip_count=0,
            ngram_counts=[0],
            ngram_indexes=[0, 1],
            pool_strings=["a", "b"],
        ),
        helper.make_node("Neg", ["counts"], ["y"]),
    ]
    path = _save(tmp_path / "net.onnx", nodes, {"word": (TensorProto.STRING, [2])}, {"y": (TensorProto.FLOAT, [2])})
    result = WordsAsNumbers()(Load()(path).model)
    assert result.record == {
        "inputs": {},
        "warnings": [
            "input 'word' still takes texts: node 'lower_case' (StringNormalizer) uses texts for something other "
            "than looking them up in a list; `edgekit extract MODEL --inputs counts --outputs y -o PART` cuts out "
            "the part that computes with numbers"
        ],
    }
    part = edgekit.extract(path, tmp_path / "part.onnx", inputs=["counts"], outputs=["y"])
    assert [(spec.name, spec.dtype) for spec in part.inputs] == [("counts", "float32")]
    with pytest.raises(EdgeKitError):
        edgekit.package(path, "ios18", tmp_path / "out")


def test_texts_stay_where_numbers_do_not_compute_the_same(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    change = lists._list_numbers

    def with_a_fault(node: Any, texts: str, ints: str, numbers: dict[str, int]) -> None:
        change(node, texts, ints, {word: len(numbers) - number for word, number in numbers.items()})

    monkeypatch.setattr(lists, "_list_numbers", with_a_fault)
    result = WordsAsNumbers()(Load()(model).model)
    assert result.record["inputs"] == {}
    assert result.record["warnings"] == [
        f"input {name!r} still takes texts: with numbers in place of texts, the model computes something else: "
        "value hot_0 differs by 1, its largest value is 1"
        for name in ("colour", "size")
    ]
    assert [spec.dtype for spec in result.model.inputs] == ["str", "str", "float32"]


def test_only_what_looks_words_up_has_to_run_on_drawn_inputs(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("LabelEncoder", ["word"], ["id"], domain=ML, classes_strings=["a", "b"], default_int64=0),
        helper.make_node("Gather", ["id", "place"], ["y"]),
    ]
    path = _save(
        tmp_path / "net.onnx",
        nodes,
        {"word": (TensorProto.STRING, ["N"]), "place": (TensorProto.INT64, ["M"])},
        {"y": (TensorProto.INT64, ["M"])},
    )
    result = WordsAsNumbers()(Load()(path).model)
    assert result.record["inputs"] == {"word": 2}


def test_the_manifest_tells_which_inputs_take_numbers(tmp_path: Path, model: Path) -> None:
    bundle = edgekit.package(model, "intel-cpu", tmp_path / "out")
    assert bundle.manifest["inputs"][0]["vocabulary"] == COLOURS
    assert stage_record(bundle.manifest, "words as numbers")["inputs"] == {"colour": 3, "size": 2}
    assert not stage_record(edgekit.package(model, "onnxruntime", tmp_path / "texts").manifest, "words as numbers")
