"""Checks of a manifest and a graph that their schemas cannot express."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgekit.features.tokens import TokenRule
from edgekit.schema import find_flaw


def manifest_of(manifest: Mapping[str, Any], build: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest as it would be if the bundle held nothing but one of its further builds.

    Args:
        manifest: The bundle's manifest.
        build: One entry of the manifest's ``also``.
    """
    golden = {**manifest["golden"], **build["golden"]}
    common = {key: value for key, value in manifest.items() if key not in ("also", "instruction_sets")}
    return {**common, **build, "golden": golden}


def inconsistency(manifest: Mapping[str, Any]) -> str | None:
    """What is wrong with a manifest beyond its schema: duplicate names, invalid rules, other features; else None."""
    flaw = _twice(manifest) or _no_declaration(manifest["preprocessing"])
    if set(manifest["model"]["files"]) <= set(manifest["model"].get("alternatives", ())):
        flaw = flaw or "model.files: nothing but alternatives"
    for feature in manifest["inputs"]:
        flaw = flaw or _no_rule(feature)
    for build in manifest.get("also", ()):
        profile = build["target"]["profile"]
        flaw = flaw or _twice(manifest_of(manifest, build))
        for what in ("inputs", "outputs"):
            if [feature["name"] for feature in build[what]] != [feature["name"] for feature in manifest[what]]:
                flaw = flaw or f"also: the {what} for {profile} are not the model's"
    return flaw


def _no_declaration(preprocessing: Mapping[str, Any] | None) -> str | None:
    """What is wrong with the declared preprocessing, by the schema of the project file; None if nothing is."""
    flaw = None if preprocessing is None else find_flaw(preprocessing, "config.schema.json", "preprocessing")
    return None if flaw is None else f"preprocessing: {flaw}"


def _no_rule(feature: Mapping[str, Any]) -> str | None:
    """What is wrong with the rules that split an input's texts into words; None if nothing is."""
    for rule in map(TokenRule.from_record, feature.get("tokens", ())):
        if rule.flaw is not None:
            return f"tokens of {feature['name']}: {rule.flaw}"
    counted = [rule["count"] for rule in feature.get("tokens", ())]
    if counted and ("vocabulary" not in feature or feature["shape"][-1:] != [sum(counted)]):
        return f"tokens of {feature['name']}: no {sum(counted)} numbers of words in the last dimension"
    return None


def _twice(manifest: Mapping[str, Any]) -> str | None:
    """Which list of names has a name twice, or that a golden output is no output of the model; None if neither."""
    golden = manifest["golden"]["outputs"]
    lists = {
        "inputs": [feature["name"] for feature in manifest["inputs"]],
        "outputs": [feature["name"] for feature in manifest["outputs"]],
        "golden.outputs": [floor["name"] for floor in golden],
        "files": [record["path"] for record in manifest["files"]],
    }
    for where, names in lists.items():
        if len(set(names)) < len(names):
            return f"{where}: a name is there twice"
    if set(lists["golden.outputs"]) - set(lists["outputs"]):
        return "golden.outputs: an output that the model has not"
    return None


def place_of_nothing(graph: Mapping[str, Any]) -> str | None:
    """Says which value a graph refers to that it lacks, or which node is within a later one; None if there is none."""
    count = len(graph["values"])
    places = [*graph["inputs"], *graph["outputs"]]
    for number, node in enumerate(graph["nodes"]):
        places += [place for place in (*node["inputs"], *node["outputs"]) if place is not None]
        if node.get("within", -1) >= number:
            return f"nodes[{number}].within: {node['within']} is not a node before it"
    return next((f"there is no value {place}" for place in places if place >= count), None)
