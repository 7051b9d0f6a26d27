"""Checks data against the JSON Schemas that ship with EdgeKit."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgekit.suggestions import near_names

FOLDER = Path(__file__).parent
_NUMBERS = {"number": "number", "integer": "whole number"}
_TYPES = {
    "number": "a number",
    "integer": "a whole number",
    "string": "a text",
    "array": "a list",
    "object": "an object",
    "boolean": "true or false",
    "null": "null",
}


def find_flaw(instance: object, schema: str, definition: str | None = None) -> str | None:
    """Returns the most relevant flaw of ``instance``, with its place, or None if it is valid.

    3.0 is not an integer here, though it is one for JSON Schema: Python does not accept it as an index into a list.

    Args:
        instance: Plain data, as JSON or TOML give it.
        schema: File name of the schema beside this module.
        definition: Name under the schema's ``$defs``, to check against this part of the schema only.
    """
    try:
        text = json.dumps(instance, sort_keys=True)
    except (TypeError, ValueError, RecursionError):  # a date of TOML, or nested too deeply for JSON
        return _flaw(instance, schema, definition)
    return None if _is_valid(text, schema, definition) else _flaw(instance, schema, definition)


@functools.lru_cache(maxsize=16)
def _is_valid(text: str, schema: str, definition: str | None) -> bool:
    """Whether a JSON document has no flaw. Commands read the manifest of one bundle several times."""
    return _flaw(json.loads(text), schema, definition) is None


def _flaw(instance: object, schema: str, definition: str | None) -> str | None:
    from jsonschema.exceptions import best_match

    flaw = best_match(_validator(schema, definition).iter_errors(instance))
    if flaw is None:
        return None
    where = flaw.json_path.removeprefix("$").removeprefix(".")
    message = _message(flaw)
    return f"{where}: {message}" if where else message


def not_finite(instance: object, where: str = "") -> str | None:
    """Where plain data hold NaN, an infinity, an integer beyond 64 bits or a text with a NUL; None if nowhere.

    JSON Schema accepts all of these as numbers and texts, and every comparison with NaN is false.
    """
    if isinstance(instance, dict):
        parts = ((f"{where}.{key}".removeprefix("."), value) for key, value in instance.items())
        return next((flaw for place, value in parts if (flaw := not_finite(value, place))), None)
    if isinstance(instance, list):
        places = ((f"{where}[{place}]", value) for place, value in enumerate(instance))
        return next((flaw for place, value in places if (flaw := not_finite(value, place))), None)
    if isinstance(instance, float) and not math.isfinite(instance):
        return f"{where}: {instance} is not a finite number"
    if isinstance(instance, int) and abs(instance) >= 1 << 63:
        return f"{where}: an integer of more than 64 bits"
    if isinstance(instance, str) and "\0" in instance:
        return f"{where}: a text with a NUL"
    return None


def _message(flaw: Any) -> str:
    """The message of a flaw, in EdgeKit's words where it has some: a schema's ``title`` says what a text has to be."""
    if flaw.validator == "pattern" and "title" in flaw.schema:
        return f"{flaw.instance!r} is not {flaw.schema['title']}"
    if flaw.validator == "exclusiveMinimum":
        return f"{flaw.instance!r} is not greater than {flaw.validator_value}"
    if flaw.validator == "type" and isinstance(flaw.instance, str) and flaw.validator_value in ("number", "integer"):
        kind = _NUMBERS[flaw.validator_value]
        return f"the text {flaw.instance!r} is not a {kind}, which stands without quotes or a unit"
    if flaw.validator == "type" and (kinds := _kinds(flaw.validator_value)) is not None:
        return f"{flaw.instance!r} is not {kinds}"
    if flaw.validator == "required":
        missing = next(key for key in flaw.validator_value if key not in flaw.instance)
        choices = flaw.schema.get("properties", {}).get(missing, {}).get("enum")
        known = flaw.schema.get("properties", {})
        strange = [key for key in flaw.instance if known and key not in known]
        return (
            f"{missing!r} is missing"
            + (f": one of {', '.join(map(str, choices))}" if choices else "")
            + (f"; {strange[0]!r} is not a key" if strange else "")
        )
    if flaw.validator == "enum":
        return f"{flaw.instance!r} is not one of {', '.join(map(str, flaw.validator_value))}"
    if flaw.validator == "const":
        return f"{json.dumps(flaw.validator_value)} was expected, not {flaw.instance!r}"
    if flaw.validator in ("oneOf", "anyOf") and flaw.context:
        return _none_of(flaw)
    return _unknown_keys(flaw) if flaw.validator == "additionalProperties" else str(flaw.message)


def _none_of(flaw: Any) -> str:
    """The message for a value that fits no alternative: names all of them, or is jsonschema's if one has no name."""
    ways = [_called(way) for way in flaw.validator_value]
    described = [way for way in ways if way is not None]
    return f"{flaw.instance!r} is not {' or '.join(described)}" if len(described) == len(ways) else str(flaw.message)


def _called(way: Mapping[str, Any]) -> str | None:
    """How a message names what a part of a schema accepts; None if it has no name for it."""
    if "title" in way:
        return str(way["title"])
    if "const" in way:
        return json.dumps(way["const"])
    return _kinds(way.get("type", []))


def _kinds(types: str | Sequence[str]) -> str | None:
    """How messages name one or several types of JSON; None if one of the types has no name."""
    names = [_TYPES.get(each) for each in ([types] if isinstance(types, str) else types)]
    return " or ".join(map(str, names)) if names and None not in names else None


def _unknown_keys(flaw: Any) -> str:
    """The message for an object with a key that the schema does not know, with the keys that were probably meant."""
    known = flaw.schema.get("properties", {})
    unknown = [key for key in flaw.instance if key not in known]
    if not known or not unknown:
        return str(flaw.message)
    meant = near_names(unknown[0], known)
    return f"unknown key {unknown[0]!r} (expected {meant})"


@functools.cache
def _validator(schema: str, definition: str | None) -> Any:
    from jsonschema import Draft202012Validator, validators

    document = json.loads((FOLDER / schema).read_text(encoding="utf-8"))
    if definition is not None:
        document = {"$ref": f"#/$defs/{definition}", "$defs": document["$defs"]}
    types = Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    )
    resolved = {**_resolved(document, document), "$defs": document.get("$defs", {})}
    return validators.extend(Draft202012Validator, type_checker=types)(resolved)


def _resolved(part: Any, document: Mapping[str, Any], within: tuple[str, ...] = ()) -> Any:
    """Returns a part of a schema with its references replaced by what they refer to, except recursive references.

    A validator looks up a reference each time that it meets it, which is half of its work.
    """
    if isinstance(part, list):
        return [_resolved(each, document, within) for each in part]
    if not isinstance(part, dict):
        return part
    reference = part.get("$ref")
    if reference in within:
        return part
    beside = {key: _resolved(value, document, within) for key, value in part.items() if key not in ("$ref", "$defs")}
    if not isinstance(reference, str):
        return {"$ref": _resolved(reference, document, within), **beside} if "$ref" in part else beside
    named: Any = document
    for step in reference.removeprefix("#/").split("/"):
        named = named[step]
    resolved = _resolved(named, document, (*within, reference))
    return {"allOf": [resolved, beside]} if beside else resolved
