"""Facts about a model's inputs that its graph does not contain, kept in its file's metadata: draws and vocabularies.

The graph of a file that was written after :mod:`edgekit.graph.random_inputs` or :mod:`edgekit.graph.words.inputs` has a
float input where a node drew random numbers, and an integer input where it accepted texts. One key of ONNX's
``metadata_props`` holds, as JSON, what the manifest of a bundle says about such inputs::

    {"random_numbers": {"drawn": {"distribution": "normal", "first": 0.0, "second": 1.0}},
     "color": {"vocabulary": ["blue", "green", "red"]},
     "text": {"vocabulary": ["bad", "good"], "tokens": [{"expression": "[a-z]+", "count": 32}]}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgekit.errors import InputError
from edgekit.features.draws import Draw
from edgekit.features.tokens import TokenRule, places
from edgekit.model import Model, ValueSpec
from edgekit.schema import find_flaw, not_finite

KEY = "edgekit.inputs"
"""The key of the metadata."""

_SCHEMA = "manifest.schema.json"
_KINDS = {"drawn": "draw", "vocabulary": "vocabulary", "tokens": "tokens"}
"""The kinds of notes on an input, each with its definition in the manifest's schema."""
_TOGETHER = ({"drawn"}, {"vocabulary"}, {"vocabulary", "tokens"})
_TYPES = {"drawn": ("float",), "vocabulary": ("int", "uint"), "tokens": ("int", "uint")}
"""For each kind, the possible beginnings of the input's element type."""


def with_notes(model: Model) -> Model:
    """Returns the model as it is written to a file: with metadata on its inputs, if there is anything to note."""
    notes: dict[str, dict[str, Any]] = {}
    for spec in model.inputs:
        if spec.drawn is not None:
            notes[spec.name] = {"drawn": spec.drawn.as_record()}
        elif spec.vocabulary is not None:
            notes[spec.name] = {"vocabulary": list(spec.vocabulary)}
            if spec.tokens:
                notes[spec.name]["tokens"] = [rule.as_record() for rule in spec.tokens]
    if not notes:
        return model
    noted = model.with_graph(model.graph_model.clone())
    noted.graph_model.metadata_props[KEY] = json.dumps(notes, separators=(",", ":"))
    return noted


def read_notes(model: Model) -> tuple[Model, list[str]]:
    """Returns the model with the notes on inputs from its metadata, which are removed from the metadata.

    Args:
        model: The model as it was read; its metadata are changed.

    Returns:
        The model, and warnings about notes on inputs that the model does not have.

    Raises:
        InputError: The metadata are not what :func:`with_notes` writes, or the input has another type.
    """
    text = model.graph_model.metadata_props.pop(KEY, None)
    if text is None:
        return model, []
    notes = _parsed(text, model)
    inputs = {spec.name: spec for spec in model.inputs}
    gone = [
        f"its metadata ({KEY!r}) describe input {name!r}, which the model does not have"
        for name in notes.keys() - inputs
    ]
    drawn, vocabularies, tokens = dict(model.drawn), dict(model.vocabularies), dict(model.tokens)
    for name in notes.keys() & inputs:
        _check(notes[name], inputs[name], model)
        if "drawn" in notes[name]:
            drawn[name] = Draw.from_record(notes[name]["drawn"])
        else:
            vocabularies[name] = tuple(notes[name]["vocabulary"])
        if "tokens" in notes[name]:
            tokens[name] = tuple(map(TokenRule.from_record, notes[name]["tokens"]))
    return replace(model, drawn=drawn, vocabularies=vocabularies, tokens=tokens), sorted(gone)


def _parsed(text: str, model: Model) -> Mapping[str, Any]:
    try:
        notes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unknown(model, f"no JSON: {error}") from error
    if not isinstance(notes, dict):
        raise _unknown(model, json.dumps(notes))
    return notes


def _check(note: object, spec: ValueSpec, model: Model) -> None:
    """Checks the note on an input.

    Raises:
        InputError: The note is not of a form that EdgeKit writes, or does not fit the input's type.
    """
    if not isinstance(note, dict) or set(note) not in _TOGETHER:
        raise _unknown(model, f"of input {spec.name!r}: {json.dumps(note)}")
    for kind, content in note.items():
        flaw = not_finite(content, kind) or find_flaw(content, _SCHEMA, _KINDS[kind]) or _beyond(kind, content)
        if flaw is not None:
            raise _unknown(model, f"of input {spec.name!r}: {flaw}")
        if not spec.dtype.startswith(_TYPES[kind]):
            raise _unknown(model, f"{kind!r} of input {spec}")
    rules = tuple(map(TokenRule.from_record, note.get("tokens", ())))
    if rules and (spec.shape or ())[-1:] != (places(rules),):
        raise _unknown(model, f"'tokens' with {places(rules)} places of input {spec}")


def _beyond(kind: str, content: Any) -> str | None:
    """Returns why a note cannot be drawn from or written to a file, or None if it is valid."""
    if kind == "drawn" and content["distribution"] != "uniform" and content["second"] < 0:
        return f"second: {content['second']} is negative, and a scale is at least 0"
    if kind == "drawn" and content["distribution"] == "uniform" and content["second"] < content["first"]:
        return f"second: {content['second']} is below {content['first']}"
    if kind == "vocabulary" and any("\ud800" <= character <= "\udfff" for word in content for character in word):
        return "vocabulary: a word that is not valid Unicode"
    if kind == "tokens":
        return next((flaw for rule in content if (flaw := TokenRule.from_record(rule).flaw) is not None), None)
    return None


def _unknown(model: Model, found: str) -> InputError:
    return InputError(
        f"its metadata describe its inputs in a form that EdgeKit does not write (key {KEY!r})",
        subject=model.source or model.name,
        expected='{"INPUT": {"drawn": {…}}} for floats, {"INPUT": {"vocabulary": [WORD, …]}} for integers, with '
        '"tokens": [{…}, …] for those of the words of a text',
        found=found,
        hint=f"quantize the float model again, or take {KEY!r} out of metadata_props",
    )
