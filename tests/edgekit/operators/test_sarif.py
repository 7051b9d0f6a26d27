from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edgekit.errors import InputError
from edgekit.operators.sarif import Finding, Level, Rule, sarif_log, write_sarif

# What SARIF 2.1.0 asks of the objects used here, by the numbers of its sections.
STANDARD: dict[str, Any] = {
    "type": "object",
    "required": ["version", "runs"],  # 3.13.2, 3.13.4
    "additionalProperties": False,
    "properties": {
        "$schema": {"type": "string", "format": "uri"},
        "version": {"const": "2.1.0"},
        "runs": {"type": "array", "items": {"$ref": "#/$defs/run"}},
    },
    "$defs": {
        "message": {"type": "object", "anyOf": [{"required": ["text"]}, {"required": ["id"]}]},  # 3.11
        "level": {"enum": ["none", "note", "warning", "error"]},  # 3.27.10
        "run": {
            "type": "object",
            "required": ["tool"],  # 3.14.6
            "additionalProperties": False,
            "properties": {
                "tool": {
                    "type": "object",
                    "required": ["driver"],  # 3.18.2
                    "properties": {"driver": {"$ref": "#/$defs/component"}},
                },
                "results": {"type": "array", "items": {"$ref": "#/$defs/result"}},
            },
        },
        "component": {
            "type": "object",
            "required": ["name"],  # 3.19.8
            "properties": {
                "rules": {
                    "type": "array",
                    "uniqueItems": True,  # 3.19.23
                    "items": {
                        "type": "object",
                        "required": ["id"],  # 3.49.3
                        "properties": {
                            "shortDescription": {"$ref": "#/$defs/message"},
                            "defaultConfiguration": {
                                "type": "object",
                                "properties": {"level": {"$ref": "#/$defs/level"}},
                            },
                        },
                    },
                }
            },
        },
        "result": {
            "type": "object",
            "required": ["message"],  # 3.27.11
            "additionalProperties": False,
            "properties": {
                "ruleId": {"type": "string"},
                "ruleIndex": {"type": "integer", "minimum": -1},
                "level": {"$ref": "#/$defs/level"},
                "message": {"$ref": "#/$defs/message"},
                "locations": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "physicalLocation": {
                                "type": "object",
                                "anyOf": [{"required": ["address"]}, {"required": ["artifactLocation"]}],  # 3.29.2
                                "properties": {
                                    "artifactLocation": {
                                        "type": "object",
                                        "properties": {"uri": {"type": "string", "pattern": "^[^ \\\\]+$"}},
                                    },
                                    "region": {
                                        "type": "object",
                                        "properties": {"startLine": {"type": "integer", "minimum": 1}},  # 3.30.5
                                    },
                                },
                            },
                            "logicalLocations": {"type": "array", "items": {"type": "object"}},
                        },
                    },
                },
                "partialFingerprints": {"type": "object", "additionalProperties": {"type": "string"}},  # 3.27.17
                "properties": {"type": "object"},
            },
        },
    },
}

MISSING = Rule("unsupported-operator", "The target cannot take the node.", Level.ERROR)
SLOW = Rule("falls-back", "The node runs elsewhere.", Level.WARNING)
FOUND = [
    Finding(SLOW, "Erf 'e' falls back", Path("models/a b.onnx"), "e", {"operator": "Erf"}),
    Finding(MISSING, "Det 'd' is unsupported", Path("models/a b.onnx"), "d"),
    Finding(SLOW, "Erf 'f' falls back", Path("models/a b.onnx"), "f"),
]


@pytest.mark.parametrize("findings", [[], FOUND], ids=["none", "some"])
def test_a_log_is_what_the_standard_asks(findings: list[Finding]) -> None:
    log = sarif_log(findings, tool="edgekit check", version="1.0")
    jsonschema.Draft202012Validator.check_schema(STANDARD)
    jsonschema.validate(log, STANDARD)
    (run,) = log["runs"]
    assert len(run["results"]) == len(findings)


def test_results_point_at_their_rules_and_places() -> None:
    (run,) = sarif_log(FOUND, tool="edgekit check", version="1.0")["runs"]
    rules = run["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["falls-back", "unsupported-operator"]
    for result in run["results"]:
        rule = rules[result["ruleIndex"]]
        assert result["ruleId"] == rule["id"]  # 3.27.6
        assert result["level"] == rule["defaultConfiguration"]["level"]
        (location,) = result["locations"]
        assert location["physicalLocation"]["artifactLocation"]["uri"] == "models/a%20b.onnx"  # RFC 3986
    named = [result["locations"][0]["logicalLocations"][0]["fullyQualifiedName"] for result in run["results"]]
    assert named == ["e", "d", "f"]


def test_a_finding_is_recognized_again_wherever_its_text_changes() -> None:
    def identities(findings: list[Finding]) -> list[str]:
        (run,) = sarif_log(findings, tool="edgekit check", version="1.0")["runs"]
        return [result["partialFingerprints"]["edgekit/v1"] for result in run["results"]]

    first = identities(FOUND)
    assert len(set(first)) == len(FOUND)
    changed = [Finding(f.rule, f"{f.message}!", Path("elsewhere") / f.file.name, f.part) for f in FOUND]
    assert identities(changed) == first


def test_an_absolute_path_becomes_a_file_uri(tmp_path: Path) -> None:
    (run,) = sarif_log([Finding(MISSING, "text", tmp_path / "m.onnx")], tool="t", version="1")["runs"]
    location = run["results"][0]["locations"][0]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == (tmp_path / "m.onnx").as_uri()
    assert "logicalLocations" not in location


def test_the_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    log = sarif_log(FOUND, tool="edgekit check", version="1.0")
    write_sarif(log, tmp_path / "new" / "found.sarif")
    assert json.loads((tmp_path / "new" / "found.sarif").read_text(encoding="utf-8")) == log
    with pytest.raises(InputError):
        write_sarif(log, tmp_path)


def test_a_name_that_is_no_utf8_is_the_bytes_that_it_is(tmp_path: Path) -> None:
    file = Path(os.fsdecode(b"m\xff.onnx"))
    finding = Finding(Rule("one", "One.", Level.ERROR), f"{file}: is none", file)
    write_sarif(sarif_log([finding], tool="edgekit check", version="1"), tmp_path / "log.sarif")
    (result,) = json.loads((tmp_path / "log.sarif").read_text(encoding="utf-8"))["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "m%FF.onnx"
