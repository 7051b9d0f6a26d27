"""Samples one by one, of lengths of their own, become what the same arrays in files are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import edgekit
from edgekit.data.npz import read_npz
from edgekit.data.sample_lists import list_as_folder, list_of, read_lines
from edgekit.errors import InputError
from edgekit.model import ValueSpec

GRAPH = """
g (int64[1, seq] ids, float[1, seq, 2] x) => (float[1, seq, 2] y)
<float[4, 2] words = {0, 1, 2, 3, 4, 5, 6, 7}> { w = Gather <axis = 0> (words, ids) y = Add (w, x) }
"""
TEXTS = [[0, 1, 2], [3, 3], [1, 0, 2, 3, 1]]


def arrays(ids: list[int]) -> dict[str, np.ndarray]:
    return {"ids": np.array([ids]), "x": np.full((1, len(ids), 2), 0.5, np.float32)}


def plain(ids: list[int]) -> dict[str, list[Any]]:
    """As a tokenizer gives it, without the dimension that counts samples."""
    return {"ids": ids, "x": [[0.5, 0.5]] * len(ids)}


def drawn() -> Iterator[dict[str, np.ndarray]]:
    return (arrays(ids) for ids in TEXTS)


def in_lines(folder: Path) -> Path:
    file = folder / "texts.jsonl"
    file.write_text("\n\n".join(json.dumps(plain(ids)) for ids in TEXTS))
    return file


@pytest.mark.parametrize(
    "given",
    [
        lambda _: [arrays(ids) for ids in TEXTS],
        lambda _: [plain(ids) for ids in TEXTS],
        lambda _: drawn(),
        lambda _: drawn,
        in_lines,
    ],
    ids=["list", "lists of numbers", "generator", "function", "JSON lines"],
)
def test_each_is_a_sample(given: Callable[[Path], Any], onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    bundle = edgekit.package(onnx_file(GRAPH), "ort", tmp_path / "out", data=given(tmp_path), quantize="none")
    assert bundle.manifest["accuracy"]["data"] == {"kind": "samples", "samples": 3}
    for ids, (feeds, outputs) in zip(TEXTS, bundle.golden(), strict=True):
        np.testing.assert_array_equal(feeds["ids"], [ids])
        np.testing.assert_allclose(outputs["y"], [[[2 * one + 0.5, 2 * one + 1.5] for one in ids]])


def test_verify_takes_them(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    model = onnx_file(GRAPH)
    bundle = edgekit.package(model, "ort", tmp_path / "out", data=drawn, quantize="none")
    for data in (drawn, in_lines(tmp_path)):
        accuracy = edgekit.verify(bundle, data=data, model=model).accuracy
        assert accuracy is not None
        assert accuracy.samples == 3


def test_a_label_by_another_name(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    model = onnx_file("g (float[1, 2] x) => (float[1, 2] y) { y = Identity(x) }")
    rows = [{"x": [[float(one), 1.0 - one]], "kind": 1 - one} for one in (0, 1) * 10]
    bundle = edgekit.package(model, "ort", tmp_path / "out", data=rows, label="kind", quantize="none")
    assert bundle.manifest["accuracy"]["task"]["reference"] == 1.0


def test_texts_hold_what_ends_no_line_of_json(tmp_path: Path) -> None:
    """JSON takes U+2028 in a string as it is (RFC 8259, section 7)."""
    texts = ["a\u2028b", "c\x85d"]
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": text}, ensure_ascii=False) + "\n" for text in texts), encoding="utf-8")
    assert [sample["text"] for _, sample in read_lines(file).samples] == texts


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        ("", "{file}: holds no samples\nexpected: arrays by the names of the inputs, for each sample"),
        (
            '{"ids": [1], "x": [[1, 2]]}\n[1, 2]',
            "{file}:2: is not a sample\nexpected: arrays by the names of the inputs\nfound: list",
        ),
        ('{"ids": [1}', "{file}:1: the line cannot be read: "),
        (
            '{"ids": [1.5], "x": [[1, 2]]}',
            "{file}:1, 'ids': cannot be made an array of the input's type\nexpected: ids: int64 1×seq\nfound: [[1.5]]",
        ),
        ('{"ids": [1], "x": [[1, 2]], "more": {}}', "{file}:1, 'more': is not an array\nexpected: numbers or texts\n"),
    ],
)
def test_lines_that_are_no_samples(onnx_file: Callable[..., Path], tmp_path: Path, lines: str, error: str) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(lines)
    with pytest.raises(InputError) as refused:
        edgekit.package(onnx_file(GRAPH), "ort", tmp_path / "out", data=file)
    assert str(refused.value).startswith(error.format(file=file))


def test_what_is_no_list_of_samples(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="samples one by one, each a mapping of arrays by the inputs' names"):
        edgekit.package(onnx_file(GRAPH), "ort", tmp_path / "out", data=[1, 2])


CITIES = """<ir_version: 8, opset_import: ["" : 17, "ai.onnx.ml" : 2]> g (string[n, 1] city) => (int64[n, 1] place) {
   place = ai.onnx.ml.LabelEncoder <keys_strings = ["Bern", "Graz"], values_int64s = [4, 7], default_int64 = 9> (city)
}"""


@pytest.mark.parametrize(
    "given",
    ["Köln", ["Köln"], [["Köln"]], np.array([["Köln"]]), np.array([["Köln"]], object)],
    ids=["text", "list for one sample", "list", "array", "objects"],
)
def test_texts_become_an_array(given: Any) -> None:
    city = ValueSpec("city", "str", (None, 1))
    if isinstance(given, str):
        city = ValueSpec("city", "str", (None,))
    samples = list_of([{"city": given}], "list")
    assert samples is not None
    with list_as_folder(samples, [city], None) as folder:
        (arrays,) = map(read_npz, folder.iterdir())
    assert arrays["city"].tolist() == (["Köln"] if isinstance(given, str) else [["Köln"]])
    assert arrays["city"].dtype.kind == "U"


def test_texts_are_samples(tmp_path: Path) -> None:
    onnx.save(onnx.parser.parse_model(CITIES), tmp_path / "cities.onnx")
    file = tmp_path / "cities.jsonl"
    file.write_text("".join(json.dumps({"city": [city]}) + "\n" for city in ("Graz", "Bern", "Köln")))
    bundle = edgekit.package(tmp_path / "cities.onnx", "ort", tmp_path / "out", data=file, quantize="none")
    assert [outputs["place"].item() for _, outputs in bundle.golden()] == [7, 4, 9]


@pytest.mark.parametrize("stray", [None, 7, float("nan"), b"Bern", True, ["Bern"]])
def test_what_is_no_text_is_refused(stray: Any) -> None:
    samples = list_of([{"city": [["Bern"], [stray]]}], "list")
    assert samples is not None
    with (
        pytest.raises(InputError) as caught,
        list_as_folder(samples, [ValueSpec("city", "str", (None, 1))], None),
    ):
        pass
    assert str(caught.value).startswith(
        "list, sample 0, 'city': holds a value that is not a text\n"
        "expected: city: str ?×1\n"
        f"found: {stray!r}\n"
        "hint: give texts"
    )


@pytest.mark.parametrize("given", ["[1]", "1", "null", '"a"'])
def test_lines_that_are_no_samples_are_not_taken_for_none(
    given: str, onnx_file: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "texts.jsonl").write_text(f"{given}\n")
    with pytest.raises(InputError, match=r"texts\.jsonl:1: is not a sample\nexpected: arrays by the names of the"):
        edgekit.package(onnx_file(GRAPH), "ort", tmp_path / "out", data=tmp_path / "texts.jsonl", quantize="none")


def test_errors_about_a_sample_name_its_line(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    file = tmp_path / "texts.jsonl"
    file.write_text(f"{json.dumps(plain([1, 2]))}\n\n{json.dumps({'ids': [1, 2]})}\n")
    with pytest.raises(InputError) as caught:
        edgekit.package(onnx_file(GRAPH), "ort", tmp_path / "out", data=file, quantize="none")
    assert str(caught.value).startswith(
        f"{file}:3: the sample's arrays are not named as the model's inputs\nexpected: ids, x\nfound: ids"
    )


def test_an_object_without_arrays_is_not_taken_for_no_samples(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"list, sample 0: .* not named as the model's inputs\nexpected: ids, x\nfound: no array"
    ):
        edgekit.package(onnx_file(GRAPH), "ort", tmp_path / "out", data=[{}], quantize="none")


@pytest.mark.parametrize("step", [1, -1])
def test_a_label_beside_the_one_that_is_named(step: int) -> None:
    """As a data set with two sets of classes has it; which of the two counted depended on their order."""
    sample = {"x": [1.0], "label": 0, "fine": 1}
    given = list_of([dict(list(sample.items())[::step])], "--data list")
    assert given is not None
    with (
        pytest.raises(InputError, match="sample 0: holds 'label' beside the label") as error,
        list_as_folder(given, [ValueSpec("x", "float32", (1, 1))], "fine"),
    ):
        pass
    assert error.value.expected == "the class in 'fine' alone"
