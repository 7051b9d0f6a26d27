"""What a model's file states of itself in its metadata: names of classes, how pictures become its input, its task.

ONNX's ``metadata_props`` are texts by key, and each exporter has keys of its own:

- Ultralytics: ``names`` (``{0: 'person', …}``), ``task``, ``imgsz``, ``stride``, and texts of author and license. Its
  detectors take pictures in RGB, from 0 to 1, padded with grey to the input's size; its classifiers are cropped;
- PaddleOCR: ``character``, a character a line;
- names of a table's columns: ``feature_names``, written as classes are;
- others: ``labels``, ``classes``, ``class_names``, ``id2label``, as JSON, as a Python literal, by lines or by commas.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgekit.errors import InputError
from edgekit.files.lines import trimmed
from edgekit.model import ValueSpec
from edgekit.preprocessing import ImagePreprocessing

NAME_KEYS = ("names", "labels", "class_names", "classes", "id2label", "character")
FEATURE_KEYS = ("feature_names", "feature_names_in_")
"""What estimators of XGBoost, LightGBM and scikit-learn call the columns that they were trained on."""
TEXT_KEYS = ("description", "author", "license", "version")
"""Texts about the model that most formats have a place for."""
MOST_NAMES = 100_000
ULTRALYTICS = ("names", "stride")
"""The keys that Ultralytics' exporter has always written, and that its own loader relies on."""
GREY = 114
"""The brightness, from 0 to 255, that Ultralytics pads pictures with (``LetterBox``)."""
CLASSIFY = "classify"
DETECT = "detect"


def texts(metadata: Mapping[str, str]) -> dict[str, str]:
    """Description, author, license and version, as far as they are stated."""
    return {key: text for key in TEXT_KEYS if (text := metadata.get(key, "").strip())}


def task(metadata: Mapping[str, str]) -> str | None:
    """What an Ultralytics model is for: ``detect``, ``classify``, ``segment``, ``pose`` or ``obb``; None for others."""
    if not all(key in metadata for key in ULTRALYTICS):
        return None
    return metadata.get("task", DETECT)


def class_names(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the classes by index; empty where none are stated, or what is stated is no list of names."""
    for key in NAME_KEYS:
        names = _names(metadata.get(key, ""))
        if names and len(set(names)) == len(names) and all(names):
            return names
    return ()


def feature_names(metadata: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the columns of a table that the model takes as one matrix, in order (``feature_names``).

    Empty where none are stated, or what is stated is no list of different names.
    """
    for key in FEATURE_KEYS:
        names = _names(metadata.get(key, ""))
        if names and len(set(names)) == len(names) and all(names):
            return names
    return ()


def _names(text: str) -> tuple[str, ...]:
    found = _literal(text)
    if isinstance(found, Mapping):
        try:
            numbered = {int(number): name for number, name in found.items()}
        except (TypeError, ValueError):
            return ()
        if sorted(numbered) != list(range(len(numbered))):
            return ()
        found = [numbered[number] for number in range(len(numbered))]
    if isinstance(found, list | tuple):
        return tuple(trimmed(str(name)) for name in found) if len(found) <= MOST_NAMES else ()
    lines = text.strip("\n").split("\n")
    parts = lines if len(lines) > 1 else text.split(",")
    return tuple(map(trimmed, parts)) if 1 < len(parts) <= MOST_NAMES else ()


def _literal(text: str) -> Any:
    """The value of a text that is JSON or a Python literal, or None if the text is neither."""
    if not text.lstrip().startswith(("{", "[", "(")):
        return None
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
    return None


def preprocessing(metadata: Mapping[str, str], inputs: Sequence[ValueSpec]) -> ImagePreprocessing | None:
    """How pictures become the model's only input, resolved for this input; None if the file does not state it."""
    wanted = task(metadata)
    if wanted is None or len(inputs) != 1 or not inputs[0].dtype.startswith("float"):
        return None
    crops = wanted == CLASSIFY
    stated = ImagePreprocessing(scale=1 / 255, resize="crop" if crops else "pad", pad_value=0 if crops else GREY)
    try:
        return stated.resolve(inputs[0])
    except InputError:  # an input that is no picture of a fixed size
        return None
