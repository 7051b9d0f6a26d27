"""What a manifest and a graph have to be beyond what their schemas can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from edgekit.features.tokens import TokenRule
from edgekit.schema import find_flaw


def manifest_of(manifest: Mapping[str, Any], build: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest as it would be if the bundle held nothing but one of its further builds.

    Args:
        manifest: The bundle's.
        build: One of its ``also``.
    """
    golden = {**manifest["golden"], **build["golden"]}
    common = {key: value for key, value in manifest.items() if key not in ("also", "instruction_sets")}
    return {**common, **build, "golden": golden}


def inconsistency(manifest: Mapping[str, Any]) -> str | None:
    """What the schema cannot tell: names that stand twice, expressions that are none, features of a further build."""
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
    """What is wrong with how a picture or a sound is said to become the input; the schema is the project file's."""
    flaw = None if preprocessing is None else find_flaw(preprocessing, "config.schema.json", "preprocessing")
    return None if flaw is None else f"preprocessing: {flaw}"


def _no_rule(feature: Mapping[str, Any]) -> str | None:
    """What is wrong with how an input's texts become words."""
    for rule in map(TokenRule.from_record, feature.get("tokens", ())):
        if rule.flaw is not None:
            return f"tokens of {feature['name']}: {rule.flaw}"
    counted = [rule["count"] for rule in feature.get("tokens", ())]
    if counted and ("vocabulary" not in feature or feature["shape"][-1:] != [sum(counted)]):
        return f"tokens of {feature['name']}: no {sum(counted)} numbers of words in the last dimension"
    return None


def _twice(manifest: Mapping[str, Any]) -> str | None:
    """A name that stands in the manifest twice where each must be there once."""
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
    """A place in a graph at which nothing stands, or at which what stands there cannot."""
    count = len(graph["values"])
    places = [*graph["inputs"], *graph["outputs"]]
    for number, node in enumerate(graph["nodes"]):
        places += [place for place in (*node["inputs"], *node["outputs"]) if place is not None]
        if node.get("within", -1) >= number:
            return f"nodes[{number}].within: {node['within']} is no node before it"
    return next((f"there is no value {place}" for place in places if place >= count), None)
