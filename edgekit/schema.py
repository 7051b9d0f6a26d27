"""Checks data against the JSON Schemas that ship with EdgeKit."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def find_flaw(instance: object, schema: str, definition: str | None = None) -> str | None:
    """The most telling thing that is wrong with ``instance``, where it stands and what it is; None if it is valid.

    Args:
        instance: Plain data, as JSON or TOML give it.
        schema: File name of the schema beside this module.
        definition: Name under the schema's ``$defs`` where a part of the whole is to be checked.
    """
    from jsonschema.exceptions import best_match

    flaw = best_match(_validator(schema, definition).iter_errors(instance))
    if flaw is None:
        return None
    where = flaw.json_path.removeprefix("$").removeprefix(".")
    return f"{where}: {flaw.message}" if where else str(flaw.message)


@functools.cache
def _validator(schema: str, definition: str | None) -> Any:
    from jsonschema import Draft202012Validator

    document = json.loads((FOLDER / schema).read_text(encoding="utf-8"))
    if definition is not None:
        document = {"$ref": f"#/$defs/{definition}", "$defs": document["$defs"]}
    return Draft202012Validator(document)
