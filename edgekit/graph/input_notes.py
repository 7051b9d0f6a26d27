"""What the graph does not tell of a model's inputs, kept in the metadata of its file: draws and vocabularies.

The graph of a file that was written after :mod:`edgekit.graph.random_inputs` or
:mod:`edgekit.graph.words.inputs` has an input of floats where a node drew random numbers, and one of integers where it
took texts. One key of ONNX's ``metadata_props`` holds, as JSON, what the manifest of a bundle says of such inputs::

    {"random_numbers": {"drawn": {"distribution": "normal", "first": 0.0, "second": 1.0}},
     "color": {"vocabulary": ["blue", "green", "red"]}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from edgekit.errors import InputError
from edgekit.features.draws import Draw
from edgekit.model import Model, ValueSpec
from edgekit.schema import find_flaw, not_finite

KEY = "edgekit.inputs"
"""The key of the metadata."""

_SCHEMA = "manifest.schema.json"
_KINDS = {"drawn": "draw", "vocabulary": "vocabulary"}
"""What may be said of an input, with the definition of it in the manifest's schema."""
_TYPES = {"drawn": ("float",), "vocabulary": ("int", "uint")}
"""With what the element type of such an input begins."""


def with_notes(model: Model) -> Model:
    """The model as its file is written: with the metadata that tell of its inputs, where there is something to tell."""
    notes: dict[str, dict[str, Any]] = {}
    for spec in model.inputs:
        if spec.drawn is not None:
            notes[spec.name] = {"drawn": spec.drawn.as_record()}
        elif spec.vocabulary is not None:
            notes[spec.name] = {"vocabulary": list(spec.vocabulary)}
    if not notes:
        return model
    noted = model.with_graph(model.graph_model.clone())
    noted.graph_model.metadata_props[KEY] = json.dumps(notes, separators=(",", ":"))
    return noted


def read_notes(model: Model) -> tuple[Model, list[str]]:
    """The model that knows of its inputs what the metadata of its file tell, which are taken out of them.

    Args:
        model: As it was read; its metadata are changed.

    Returns:
        The model, and what is not as it should be without being in the way: inputs that are gone.

    Raises:
        InputError: The metadata tell something else than :func:`with_notes` writes, or the input has another type.
    """
    text = model.graph_model.metadata_props.pop(KEY, None)
    if text is None:
        return model, []
    notes = _parsed(text, model)
    inputs = {spec.name: spec for spec in model.inputs}
    gone = [f"its metadata ({KEY!r}) tell of input {name!r}, which the model lacks" for name in notes.keys() - inputs]
    drawn, vocabularies = dict(model.drawn), dict(model.vocabularies)
    for name in notes.keys() & inputs:
        _check(notes[name], inputs[name], model)
        if "drawn" in notes[name]:
            drawn[name] = Draw.from_record(notes[name]["drawn"])
        else:
            vocabularies[name] = tuple(notes[name]["vocabulary"])
    return replace(model, drawn=drawn, vocabularies=vocabularies), sorted(gone)


def _parsed(text: str, model: Model) -> Mapping[str, Any]:
    try:
        notes = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unknown(model, f"no JSON: {error}") from error
    if not isinstance(notes, dict):
        raise _unknown(model, json.dumps(notes))
    return notes


def _check(note: object, spec: ValueSpec, model: Model) -> None:
    """Checks what the metadata tell of an input.

    Raises:
        InputError: It is something else than what is written there, or does not fit the input's type.
    """
    if not isinstance(note, dict) or len(note) != 1 or not note.keys() <= _KINDS.keys():
        raise _unknown(model, f"of input {spec.name!r}: {json.dumps(note)}")
    ((kind, told),) = note.items()
    flaw = not_finite(told, kind) or find_flaw(told, _SCHEMA, _KINDS[kind]) or _beyond(kind, told)
    if flaw is not None:
        raise _unknown(model, f"of input {spec.name!r}: {flaw}")
    if not spec.dtype.startswith(_TYPES[kind]):
        raise _unknown(model, f"{kind!r} of input {spec}")


def _beyond(kind: str, told: Any) -> str | None:
    """What no generator draws from, and no file can hold."""
    if kind == "drawn" and told["distribution"] != "uniform" and told["second"] < 0:
        return f"second: {told['second']} is no scale"
    if kind == "drawn" and told["distribution"] == "uniform" and told["second"] < told["first"]:
        return f"second: {told['second']} is below {told['first']}"
    if kind == "vocabulary" and any("\ud800" <= character <= "\udfff" for word in told for character in word):
        return "vocabulary: a word that is no text in Unicode"
    return None


def _unknown(model: Model, found: str) -> InputError:
    return InputError(
        f"its metadata tell of its inputs what EdgeKit does not write (key {KEY!r})",
        subject=model.source or model.name,
        expected='{"INPUT": {"drawn": {…}}} for floats, {"INPUT": {"vocabulary": [WORD, …]}} for integers',
        found=found,
        hint=f"quantize the float model again, or take {KEY!r} out of metadata_props",
    )
