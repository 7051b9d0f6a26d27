"""Findings as SARIF, the format that code hosts show beside the code they are about.

Static Analysis Results Interchange Format 2.1.0, an OASIS standard:
https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any
from urllib.parse import quote

from edgekit.files.atomic import atomic_file
from edgekit.files.replacing import require_kind

VERSION = "2.1.0"
SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

_OPTION = "--sarif"
_AS_BYTES, _ESCAPED = "surrogateescape", "backslashreplace"
"""Error handlers for names that are not UTF-8: kept as their bytes, or written as escapes, which JSON allows."""


class Level(StrEnum):
    """How grave a finding is, by the standard's names (3.27.10)."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Rule:
    """A kind of finding."""

    id: str
    """A stable identifier, in lower case and dashes: users suppress findings by it."""
    summary: str
    """One sentence, with a period."""
    level: Level


@dataclass(frozen=True)
class Finding:
    """One finding, about a file or a named part of it."""

    rule: Rule
    message: str
    file: Path
    part: str = ""
    """The part of the file that the finding concerns, such as a node's name."""
    properties: Mapping[str, str] | None = None
    """Facts for programs, in addition to the text."""


def sarif_log(findings: Iterable[Finding], *, tool: str, version: str) -> dict[str, Any]:
    """Returns one run's findings as a SARIF log.

    Args:
        findings: The findings; without any, the log has an empty list of results.
        tool: The name of the command that made the findings.
        version: EdgeKit's version.
    """
    found = list(findings)
    rules = {finding.rule.id: finding.rule for finding in found}
    places = {rule_id: place for place, rule_id in enumerate(rules)}
    driver = {
        "name": tool,
        "version": version,
        "rules": [
            {
                "id": rule.id,
                "shortDescription": {"text": rule.summary},
                "defaultConfiguration": {"level": str(rule.level)},
            }
            for rule in rules.values()
        ],
    }
    results = [_result(finding, places[finding.rule.id]) for finding in found]
    return {"$schema": SCHEMA, "version": VERSION, "runs": [{"tool": {"driver": driver}, "results": results}]}


def write_sarif(log: Mapping[str, Any], path: Path) -> None:
    """Writes the log as UTF-8, as the standard asks.

    Raises:
        edgekit.errors.InputError: The file cannot be written, or a file of another kind is in its place.
    """
    require_kind(path, "a SARIF file", lambda head: head.lstrip()[:1] == b"{", chosen_with=_OPTION)
    with atomic_file(path, chosen_with=_OPTION) as place:
        place.write_text(json.dumps(log, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", errors=_ESCAPED)


def _result(finding: Finding, rule_index: int) -> dict[str, Any]:
    location: dict[str, Any] = {
        # A model has no lines, but code hosts do not show findings without a line.
        "physicalLocation": {"artifactLocation": {"uri": _uri(finding.file)}, "region": {"startLine": 1}}
    }
    if finding.part:
        location["logicalLocations"] = [{"fullyQualifiedName": finding.part, "kind": "node"}]
    identity = hashlib.sha256("\0".join((finding.rule.id, finding.file.name, finding.part)).encode(errors=_AS_BYTES))
    result: dict[str, Any] = {
        "ruleId": finding.rule.id,
        "ruleIndex": rule_index,
        "level": str(finding.rule.level),
        "message": {"text": finding.message},
        "locations": [location],
        "partialFingerprints": {"edgekit/v1": identity.hexdigest()},
    }
    if finding.properties:
        result["properties"] = dict(finding.properties)
    return result


def _uri(file: Path) -> str:
    """Returns a relative path unchanged, so that it refers to a file of the repository, or else a ``file:`` URI."""
    return file.as_uri() if file.is_absolute() else quote(file.as_posix(), errors=_AS_BYTES)
