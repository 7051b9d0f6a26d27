from __future__ import annotations

import datetime
from typing import Any

import jsonschema
import pytest

from edgekit import schema
from edgekit.schema import find_flaw

CONFIG = "config.schema.json"


def project() -> dict[str, Any]:
    return {"bundle": [{"name": "a", "model": "m.onnx", "target": "web", "dims": {"N": 1}}]}


def test_a_document_that_is_changed_after_it_was_valid_is_looked_at_again() -> None:
    document = project()
    assert find_flaw(document, CONFIG) is None
    document["bundle"][0]["modle"] = document["bundle"][0].pop("model")
    flaw = find_flaw(document, CONFIG)
    assert flaw is not None
    assert "modle" in flaw
    assert find_flaw(document, CONFIG) == flaw
    assert find_flaw(project(), CONFIG) is None


def test_a_valid_document_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checking the manifest of a large model takes a tenth of a second, and a command reads it several times."""
    looked = []
    look = schema._flaw
    monkeypatch.setattr(schema, "_flaw", lambda *arguments: looked.append(arguments) or look(*arguments))
    schema._is_valid.cache_clear()
    for _ in range(3):
        assert find_flaw(project(), CONFIG) is None
    reordered = {"bundle": [dict(reversed(project()["bundle"][0].items()))]}
    assert find_flaw(reordered, CONFIG) is None
    assert len(looked) == 1


def test_one_schema_says_nothing_about_another() -> None:
    table = {"kind": "image", "scale": 1}
    assert find_flaw(table, CONFIG, "preprocessing") is None
    assert find_flaw(table, CONFIG) is not None


def test_numbers_that_are_equal_are_told_apart() -> None:
    """3.0 is no integer here, and True is none: Python takes 1, 1.0 and True for the same key."""
    for size, fits in ((1, True), (1.0, False), (True, False), (1, True)):
        document = project()
        document["bundle"][0]["dims"]["N"] = size
        assert (find_flaw(document, CONFIG) is None) is fits, size


@pytest.mark.parametrize("strange", [datetime.date(2026, 1, 2), {"a": datetime.time(1)}])
def test_a_date_of_toml_is_a_flaw(strange: object) -> None:
    document = {"bundle": [{**project()["bundle"][0], "name": strange}]}
    flaw = find_flaw(document, CONFIG)
    assert flaw is not None
    assert flaw.startswith("bundle[0].name: ")


def test_a_value_of_none_of_several_types_is_told_them() -> None:
    document = {"type": "object", "properties": {"shape": {"type": "array", "items": {"type": ["integer", "null"]}}}}
    (flaw,) = jsonschema.Draft202012Validator(document).iter_errors({"shape": [1, {}]})
    assert schema._message(flaw) == "{} is not a whole number or null"


def test_a_value_that_is_none_of_several_things_is_told_which_they_are() -> None:
    document = {**project(), "budget": {"size": True}}
    assert find_flaw(document, CONFIG) == (
        "budget.size: True is not a whole number or a number of bytes, or a size such as '2.5 MB' "
        "(B; kB, MB, GB of 1000; KiB, MiB, GiB of 1024)"
    )


def test_references_are_resolved_when_the_schema_is_read() -> None:
    document = {
        "$defs": {"size": {"type": "integer", "minimum": 1}, "sizes": {"items": {"$ref": "#/$defs/size"}}},
        "properties": {
            "$ref": {"type": "string"},
            "wide": {"$ref": "#/$defs/sizes"},
            "few": {"$ref": "#/$defs/sizes", "maxItems": 2},
            "same": {"$ref": "#/properties/wide"},
        },
    }
    sizes = {"items": {"type": "integer", "minimum": 1}}
    assert schema._resolved(document, document) == {
        "properties": {
            "$ref": {"type": "string"},
            "wide": sizes,
            "few": {"allOf": [sizes, {"maxItems": 2}]},
            "same": sizes,
        },
    }
