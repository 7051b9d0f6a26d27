"""Describes how an app uses a bundle: the files it needs, how it feeds the model and reads the outputs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import Any

from edgekit.preprocessing import image, wav
from edgekit.reporting.summary import Manifest
from edgekit.units import bytes_text

MOST_LABELS = 200
_PREPARED = image.SUFFIXES | wav.SUFFIXES
"""Suffixes of samples that the preprocessing is applied to; arrays come prepared, nobody knows how."""
_COLOURS = {"RGB": "red, green, blue", "BGR": "blue, green, red", "GRAY": "grey (0.299 red + 0.587 green + 0.114 blue)"}
_SCORES = {
    "probabilities": "probabilities that add up to 1",
    "logits": "logits: softmax makes probabilities of them",
    "independent": "a probability for each class by itself; they do not add up to 1",
    "integers": "integers, of which the class has the largest; no probabilities follow from them",
}
_ACTIVATIONS = {
    "none": "from 0 to 1",
    "logistic": "of which 1 / (1 + exp(-x)) makes scores from 0 to 1",
    "softmax": "of which softmax over the row makes scores from 0 to 1",
}


def app_texts(manifest: Manifest) -> list[str]:
    """Paragraphs for an app's developer: files, settings, preparation of inputs, meaning of outputs."""
    return [*_files(manifest), *_settings(manifest), *_preparation(manifest), *_outputs(manifest)]


def class_names(manifest: Manifest) -> list[tuple[str, str]]:
    """Number and name of the first :data:`MOST_LABELS` classes; then a row that says how many more there are."""
    labels = manifest["labels"] or []
    rows = [(str(number), label) for number, label in enumerate(labels[:MOST_LABELS])]
    return rows if len(labels) <= MOST_LABELS else [*rows, ("…", f"{len(labels) - MOST_LABELS} more in manifest.json")]


def _files(manifest: Manifest) -> Iterator[str]:
    model = manifest["model"]
    shipped = [path for path in model["files"] if path not in model.get("alternatives", ())]
    golden = sum(file["bytes"] for file in manifest["files"] if file["path"].startswith("golden/"))
    text = f"An app takes {_and(shipped)}, {bytes_text(manifest['size']['bytes'])}, and what it needs of manifest.json."
    if spare := model.get("alternatives", ()):
        text += f" {_and(spare)} hold{'s' if len(spare) == 1 else ''} the same once more."
    yield f"{text} The golden samples, {bytes_text(golden)}, and the check's files are for the check alone."


def _settings(manifest: Manifest) -> Iterator[str]:
    if settings := manifest["model"].get("app_settings"):
        named = ", ".join(f"{name} = {value}" for name, value in settings.items())
        yield f"It sets {named}. Without it the device may compute something else than was verified."


def _preparation(manifest: Manifest) -> Iterator[str]:
    declared = manifest["preprocessing"]
    if declared is None:
        return
    prepared = _picture(declared) if declared["kind"] == "image" else _sound(declared)
    names = manifest.get("golden", {}).get("names")
    is_file = bool(names) and PurePath(names[0]).suffix.casefold() in _PREPARED
    is_of_files = is_file and manifest["accuracy"]["data"]["kind"] == "samples"
    golden = f" golden/0/inputs/0.npy is {names[0]} so prepared." if is_of_files else ""
    yield f"{prepared}{golden} `edgekit.load(BUNDLE).prepare(FILE)` gives the input of a file of your own."


def _picture(declared: Mapping[str, Any]) -> str:
    height, width = declared["size"]
    smooth = f"{declared['interpolation']} (Pillow's)"
    share = declared.get("crop_fraction", 1.0)
    cover = f"{width / share:.0f} by {height / share:.0f}"
    place = "in the middle" if declared.get("pad_align") == "center" else "at the left and top"
    resized = {
        "none": f"it has to be {width} wide and {height} high",
        "stretch": f"resized to {width} wide and {height} high, {smooth}",
        "crop": f"resized by one factor, {smooth}, until it covers {cover}; of that the middle, {width} wide and "
        f"{height} high",
        "pad": f"resized by one factor, {smooth}, until it fits into {width} wide and {height} high; it lies {place}, "
        f"the rest is pixels of {declared.get('pad_value')}",
    }[declared["resize"]]
    axes = "N: 1, C: channels, H: rows, W: columns" if "C" in declared["layout"] else "H: rows, W: columns"
    return (
        f"A picture is turned upright by its Exif data, {resized}. Its pixels are {_COLOURS[declared['color']]}, in "
        f"this order, from 0 to 255; the input is {_formula(declared)}, as {declared['dtype']} laid out "
        f"{declared['layout']} ({axes})."
    )


def _formula(declared: Mapping[str, Any]) -> str:
    scale, mean, std = declared["scale"], declared["mean"], declared["std"]
    text = "pixel" if scale == 1 else "pixel / 255" if scale == 1 / 255 else f"pixel * {_number(scale)}"
    text += f" - {_number(mean)}" if any(mean) else ""
    if all(number == 1 for number in std):
        return text
    return f"({text}) / {_number(std)}"


def _sound(declared: Mapping[str, Any]) -> str:
    channel = declared.get("channel")
    taken = "one channel" if channel is None else f"channel {channel}"
    taken = "the mean of the channels" if channel == "mix" else taken
    fitted = ", zeros behind shorter ones, longer ones cut at the end" if declared["fit"] == "pad-crop" else ""
    values = "PCM values as they are" if "int" in declared["dtype"] else "from -1 to 1 (16-bit PCM / 32768)"
    scale = "" if declared["scale"] == 1 else f", times {_number(declared['scale'])}"
    return (
        f"A sound has {declared['sample_rate']} samples a second, {taken}, {declared['length']} samples{fitted}; the "
        f"input is the samples {values}{scale}, as {declared['dtype']}."
    )


def _outputs(manifest: Manifest) -> Iterator[str]:
    classes = manifest.get("classes")
    if classes is not None and classes["scores"] is None:
        own = (
            f"; the classes' numbers are {_and(map(str, classes['numbers']))}, in order" if "numbers" in classes else ""
        )
        yield f"Output {classes['output']!r} is the number of the class{own}."
    elif classes is not None:
        levels = ""
        if "scale" in classes:
            zero_point = f"(integer - {classes['zero_point']})" if classes["zero_point"] else "integer"
            levels = f"; a number is {zero_point} * {classes['scale']:.9g}, where the output holds integers"
        yield f"Output {classes['output']!r} has a number for each class: {_SCORES[classes['scores']]}{levels}."
    meaning = manifest["accuracy"].get("meaning")
    if meaning is None:
        return
    boxes = meaning.get("boxes")
    if boxes is not None and boxes["form"] == "rows":
        yield _rows(boxes, manifest)
    elif boxes is not None:
        strides = _and([str(grid["stride"]) for grid in boxes["grids"]])
        yield (
            f"Outputs {_and(map(repr, meaning['outputs']))} are offsets of boxes from the cells of grids, {strides} "
            "pixels apart: accuracy.meaning.boxes in manifest.json has each grid. The app suppresses boxes that "
            "overlap."
        )
    elif meaning["kind"] != "boxes":
        several = len(meaning["outputs"]) > 1
        named = _and(map(repr, meaning["outputs"]))
        yield f"Output{'s' if several else ''} {named} hold{'' if several else 's'} {meaning['read_as']}."


def _rows(boxes: Mapping[str, Any], manifest: Manifest) -> str:
    horizontal, vertical = ("x", "y") if boxes["order"] != "yx" else ("y", "x")
    sizes = ("width", "height") if boxes["order"] != "yx" else ("height", "width")
    corners = "left, top, right, bottom" if boxes["order"] != "yx" else "top, left, bottom, right"
    unit = "pixels of the input" if boxes["unit"] == "pixel" else "shares of the input's width and height"
    centre = f"{horizontal} and {vertical} of the centre, {sizes[0]}, {sizes[1]}"
    are = corners if boxes["coordinates_are"] == "corners" else centre
    unknown = " (which of x and y comes first is not known)" if boxes["order"] is None else ""
    placed = f"{are}, in {unit}{unknown}"
    if boxes.get("cells"):
        strides = _and([str(grid["stride"]) for grid in boxes["cells"]])
        placed = (
            "offset of the centre from the row's cell and logarithms of width and height, in cells of grids "
            f"{strides} pixels apart, one grid after the other"
        )
    scores = "a score for each class" if boxes["scores"]["count"] > 1 else "the score"
    meanings = {
        "coordinates": placed,
        "objectness": "whether there is anything, a factor of all scores",
        "scores": f"{scores}, {_ACTIVATIONS[boxes['activation']]}",
        "classes": "the class",
    }
    parts: dict[str, list[str]] = {}
    for key, meant in meanings.items():
        if boxes[key] is not None:
            parts.setdefault(_table_of(boxes[key]), []).append(f"{_numbers_of(boxes[key])}: {meant}")
    text = " ".join(f"{table} is a box, numbers counted from 0: {'; '.join(here)}." for table, here in parts.items())
    if boxes["background"] is not None:
        text += f" Class {boxes['background']} is not an object, and is left out before the others are counted."
    if not boxes["suppressed"]:
        text += " Boxes overlap: of those of one class that do, the app keeps the one with the largest score."
    declared = manifest["preprocessing"]
    if declared is not None and declared["kind"] == "image" and declared["resize"] in ("pad", "crop"):
        border = "without the border" if declared["resize"] == "pad" else "with what was cut off"
        text += (
            f" To get places in the picture, take those in the input {border} and divide them by the resizing factor."
        )
    return text


def _table_of(columns: Mapping[str, Any]) -> str:
    row = "column" if columns["turned"] else "row"
    return f"Each {row} of {columns['width']} of output {columns['output']!r}"


def _numbers_of(columns: Mapping[str, Any]) -> str:
    first, last = columns["first"], columns["first"] + columns["count"] - 1
    return str(first) if first == last else f"{first} to {last}"


def _number(value: object) -> str:
    if isinstance(value, list):
        return _number(value[0]) if len(value) == 1 else f"[{', '.join(map(_number, value))}]"
    return f"{value:.9g}" if isinstance(value, float) else str(value)


def _and(names: Iterable[str]) -> str:
    *others, last = map(str, names)
    return f"{', '.join(others)} and {last}" if others else last
