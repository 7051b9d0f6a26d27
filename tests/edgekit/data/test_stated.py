from __future__ import annotations

import pytest

from edgekit.data import stated
from edgekit.model import ValueSpec

YOLO = {"names": "{0: 'cat', 1: 'dog'}", "stride": "32", "task": "detect", "imgsz": "[64, 96]"}
PICTURE = (ValueSpec("images", "float32", (1, 3, 64, 96)),)


@pytest.mark.parametrize(
    "metadata",
    [
        {"names": "{0: 'cat', 1: 'dog'}"},
        {"names": "['cat', 'dog']"},
        {"labels": '["cat", "dog"]'},
        {"id2label": '{"1": "dog", "0": "cat"}'},
        {"character": "cat\ndog"},
        {"classes": "cat, dog"},
        {"names": "{0: 'cat', 2: 'dog'}", "labels": "cat,dog"},
    ],
)
def test_names_of_classes_are_read_as_exporters_write_them(metadata: dict[str, str]) -> None:
    assert stated.class_names(metadata) == ("cat", "dog")


def test_a_character_may_be_a_wide_space() -> None:
    """PP-OCRv5's list of characters begins with U+3000."""
    assert stated.class_names({"character": "\u3000\na \nb"}) == ("\u3000", "a", "b")


@pytest.mark.parametrize(
    "text", ["", "two", "{0: 'cat', 1: 'cat'}", "{'a': 'cat'}", "[" * 2000, "{0: __import__('os')}", "['', 'a']"]
)
def test_what_is_no_list_of_names_gives_none(text: str) -> None:
    assert stated.class_names({"names": text}) == ()


def test_a_detector_takes_padded_pictures_and_a_classifier_cropped_ones() -> None:
    detector = stated.preprocessing(YOLO, PICTURE)
    assert detector is not None
    assert detector.as_record() == {
        "kind": "image",
        "scale": 1 / 255,
        "mean": [0.0],
        "std": [1.0],
        "color": "RGB",
        "size": [64, 96],
        "resize": "pad",
        "crop_fraction": 1.0,
        "pad_value": 114,
        "pad_align": "center",
        "interpolation": "bilinear",
        "layout": "NCHW",
        "dtype": "float32",
    }
    classifier = stated.preprocessing({**YOLO, "task": "classify"}, PICTURE)
    assert classifier is not None
    assert classifier.resize == "crop"


@pytest.mark.parametrize(
    ("metadata", "inputs"),
    [
        ({}, PICTURE),
        ({"names": "['a']"}, PICTURE),
        (YOLO, (*PICTURE, ValueSpec("sizes", "float32", (1, 2)))),
        (YOLO, (ValueSpec("images", "float32", (1, 3, "h", "w")),)),
        (YOLO, (ValueSpec("images", "uint8", (1, 3, 64, 96)),)),
    ],
)
def test_what_is_not_stated_or_no_picture_has_no_preprocessing(
    metadata: dict[str, str], inputs: tuple[ValueSpec, ...]
) -> None:
    assert stated.preprocessing(metadata, inputs) is None


def test_texts_about_the_model() -> None:
    assert stated.texts({"author": "A", "license": " MIT ", "date": "today", "version": ""}) == {
        "author": "A",
        "license": "MIT",
    }
