"""What the report tells an app's developer; the sentences are written out from the manifests."""

from __future__ import annotations

from typing import Any

import pytest

from edgekit.reporting.app import app_texts, class_names

COLUMNS = {"output": "o", "width": 84, "turned": True}
BOXES = {
    "form": "rows",
    "suppressed": False,
    "coordinates": {**COLUMNS, "first": 0, "count": 4},
    "coordinates_are": "centre_and_size",
    "unit": "pixel",
    "order": "xy",
    "scores": {**COLUMNS, "first": 4, "count": 80},
    "activation": "none",
    "background": None,
    "objectness": None,
    "classes": None,
}
PICTURE = {
    "kind": "image",
    "scale": 1 / 255,
    "mean": [0.485, 0.456, 0.406],
    "std": [0.229, 0.224, 0.225],
    "color": "BGR",
    "size": [224, 192],
    "resize": "crop",
    "crop_fraction": 0.875,
    "pad_value": 0,
    "pad_align": "center",
    "interpolation": "bilinear",
    "layout": "NCHW",
    "dtype": "float32",
}
SOUND = {"kind": "audio", "sample_rate": 16000, "length": 8000, "fit": "pad-crop", "scale": 1.0, "dtype": "float32"}


def texts(**given: Any) -> list[str]:
    manifest = {
        "model": {"files": ["model.bin", "model.xml"]},
        "files": [{"path": "golden/0/inputs/0.npy", "bytes": 2000}, {"path": "model.bin", "bytes": 9}],
        "size": {"bytes": 1500},
        "preprocessing": None,
        "accuracy": {"meaning": None},
        "labels": None,
    }
    return app_texts({**manifest, **given})


def test_the_files_and_settings_of_an_app() -> None:
    model = {
        "files": ["model.onnx", "model.ort"],
        "alternatives": ["model.ort"],
        "app_settings": {"PRECISION": "f32", "MODE": "exact"},
    }
    assert texts(model=model) == [
        "An app takes model.onnx, 1.5 kB, and what it needs of manifest.json. model.ort holds the same once more. "
        "The golden samples, 2 kB, and the check's files are for the check alone.",
        "It sets PRECISION = f32, MODE = exact. Without it the device may compute something else than was verified.",
    ]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {},
            "resized by one factor, bilinear (Pillow's), until it covers 219 by 256; of that the middle, 192 wide and "
            "224 high. Its pixels are blue, green, red, in this order, from 0 to 255; the input is (pixel / 255 - "
            "[0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225], as float32 laid out NCHW (N: 1, C: channels, H: rows, W: "
            "columns).",
        ),
        (
            {"resize": "pad", "pad_value": 114, "color": "GRAY", "mean": [0.0], "std": [1.0], "layout": "HW"},
            "resized by one factor, bilinear (Pillow's), until it fits into 192 wide and 224 high; it lies in the "
            "middle, the rest is pixels of 114. Its pixels are grey (0.299 red + 0.587 green + 0.114 blue), in this "
            "order, from 0 to 255; the input is pixel / 255, as float32 laid out HW (H: rows, W: columns).",
        ),
        (
            {"resize": "stretch", "scale": 1, "color": "RGB", "mean": [127.5], "std": [127.5], "dtype": "float16"},
            "resized to 192 wide and 224 high, bilinear (Pillow's). Its pixels are red, green, blue, in this order, "
            "from 0 to 255; the input is (pixel - 127.5) / 127.5, as float16 laid out NCHW (N: 1, C: channels, H: "
            "rows, W: columns).",
        ),
    ],
)
def test_how_a_picture_becomes_the_input(changed: dict[str, Any], told: str) -> None:
    (_, text) = texts(preprocessing={**PICTURE, **changed})
    assert text == (
        f"A picture is turned upright by its Exif data, {told} `edgekit.load(BUNDLE).prepare(FILE)` gives the input of "
        "a file of your own."
    )


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            {},
            "one channel, 8000 samples, zeros behind shorter ones, longer ones cut at the end; the input is the "
            "samples from -1 to 1 (16-bit PCM / 32768), as float32.",
        ),
        (
            {"dtype": "int16", "fit": "none", "channel": "mix", "scale": 0.5},
            "the mean of the channels, 8000 samples; the input is the samples PCM values as they are, times 0.5, as "
            "int16.",
        ),
    ],
)
def test_how_a_sound_becomes_the_input(changed: dict[str, Any], told: str) -> None:
    (_, text) = texts(preprocessing={**SOUND, **changed})
    assert text.startswith(f"A sound has 16000 samples a second, {told} `edgekit.load")


def test_a_golden_input_shows_a_file_prepared() -> None:
    golden = {"samples": 1, "names": ["cats/a cat.png"]}
    accuracy = {"meaning": None, "data": {"kind": "samples", "samples": 9}}
    (_, text) = texts(preprocessing=SOUND, golden=golden, accuracy=accuracy)
    assert "float32. golden/0/inputs/0.npy is cats/a cat.png so prepared. `edgekit.load" in text
    (_, text) = texts(preprocessing=SOUND, golden={"samples": 1, "names": ["0.npz"]}, accuracy=accuracy)
    assert "golden" not in text
    seeded = {**accuracy, "data": {"kind": "seeded"}}
    (_, text) = texts(preprocessing=SOUND, golden={"names": ["seed 0"]}, accuracy=seeded)
    assert "golden" not in text


@pytest.mark.parametrize(
    ("scores", "told"),
    [
        ("probabilities", "has a number for each class: probabilities that add up to 1."),
        ("logits", "has a number for each class: logits: softmax makes probabilities of them."),
        (None, "is the number of the class."),
    ],
)
def test_which_output_tells_the_class(scores: str | None, told: str) -> None:
    assert texts(classes={"output": "c", "scores": scores})[1:] == [f"Output 'c' {told}"]


def test_how_boxes_are_read() -> None:
    meaning = {"kind": "boxes", "outputs": ["o"], "boxes": BOXES}
    assert texts(accuracy={"meaning": meaning}, preprocessing={**PICTURE, "resize": "pad"})[2:] == [
        "Each column of 84 of output 'o' is a box, numbers counted from 0: 0 to 3: x and y of the centre, width, "
        "height, in pixels of the input; 4 to 83: a score for each class, from 0 to 1. Boxes overlap: of those of "
        "one class that do, the app keeps the one with the largest score. To get places in the picture, take those "
        "in the input without the border and divide them by the resizing factor."
    ]
    several = {
        **BOXES,
        "suppressed": True,
        "coordinates": {"output": "boxes", "width": 4, "turned": False, "first": 0, "count": 4},
        "coordinates_are": "corners",
        "unit": "share",
        "order": "yx",
        "scores": {"output": "scores", "width": 3, "turned": False, "first": 0, "count": 3},
        "activation": "logistic",
        "background": 0,
    }
    meaning = {"kind": "boxes", "outputs": ["boxes", "scores"], "boxes": several}
    assert texts(accuracy={"meaning": meaning})[1:] == [
        "Each row of 4 of output 'boxes' is a box, numbers counted from 0: 0 to 3: top, left, bottom, right, in shares "
        "of the input's width and height. Each row of 3 of output 'scores' is a box, numbers counted from 0: 0 to 2: a "
        "score for each class, of which 1 / (1 + exp(-x)) makes scores from 0 to 1. Class 0 is not an object, and is "
        "left out before the others are counted."
    ]


def test_the_embedding_among_other_outputs() -> None:
    meaning = {"kind": "embeddings", "outputs": ["461"], "read_as": "vectors that are compared by their angle"}
    assert texts(accuracy={"meaning": meaning})[1:] == ["Output '461' holds vectors that are compared by their angle."]


def test_the_names_of_many_classes() -> None:
    labels = [f"class {number}" for number in range(1000)]
    rows = class_names({"labels": labels})
    assert len(rows) == 201
    assert rows[199:] == [("199", "class 199"), ("…", "800 more in manifest.json")]
    assert class_names({"labels": None}) == []
