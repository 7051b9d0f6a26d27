"""What a package states about itself: how it maps to ONNX, names of classes, author and license, its features."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from edgekit.target import Feature
from edgekit_mil.program.class_output import LABEL, PROBABILITIES
from edgekit_mil.program.interface import Interface
from edgekit_mil.program.picture_input import picture_record

IO_KEY = "edgekit.io"
LABELS_KEY = "edgekit.labels"
FIELDS = {
    "author": "author",
    "license": "license",
    "description": "shortDescription",
    "version": "versionString",
}
"""The texts that a package has: their name in EdgeKit -> the field of the protobuf message."""


def describe(
    message: Any,
    inputs: Sequence[Feature],
    outputs: Sequence[Feature],
    interface: Interface,
    labels: Sequence[str],
    texts: Mapping[str, str],
    notes: Sequence[str],
    states: Sequence[Feature] = (),
) -> None:
    """Complete the model's description, in place.

    Args:
        message: The ``ModelDescription`` of the package's protobuf message.
        inputs: The inputs that are fed.
        outputs: The outputs that the ONNX model has, too.
        interface: What the program offers beyond arrays.
        labels: Names of the classes by index.
        texts: Texts by the keys of :data:`FIELDS`.
        notes: What was left out or changed.
        states: The inputs that the program keeps itself.
    """
    user_defined = message.metadata.userDefined
    user_defined[IO_KEY] = contract(inputs, outputs, interface)
    if labels:
        user_defined[LABELS_KEY] = json.dumps(list(labels), ensure_ascii=False, separators=(",", ":"))
    if notes:
        user_defined["edgekit.notes"] = "\n".join(notes)
    for key, text in texts.items():
        setattr(message.metadata, FIELDS[key], text)
    sentences = {feature.native_name: sentence(feature) for feature in (*inputs, *outputs)}
    if interface.image is not None:
        color = interface.image.color
        sentences |= {
            feature.native_name: f"{color} picture; {sentence(feature)}, computed from its pixels" for feature in inputs
        }
    sentences |= {LABEL: "Name of the most probable class", PROBABILITIES: "Probability of every class"}
    for feature in (*message.input, *message.output):
        feature.shortDescription = sentences.get(feature.name, "")
    kept = {state.native_name: state for state in states}
    for feature in message.state:
        state = kept.get(feature.name)
        if state is not None:
            feature.shortDescription = f"{sentence(state)}, zero at first, then {interface.states[state.name]}"


def state_metadata(message: Any, metadata: Mapping[str, str]) -> None:
    """Add the ONNX file's own metadata to the package's, in place.

    Args:
        message: The ``ModelDescription`` of the package's protobuf message.
        metadata: Texts by key; a key that the package has keeps the package's text.
    """
    for key, text in metadata.items():
        if key not in message.metadata.userDefined:
            message.metadata.userDefined[key] = text


def contract(inputs: Sequence[Feature], outputs: Sequence[Feature], interface: Interface) -> str:
    """How the program's features map to the ONNX model's inputs and outputs, as JSON."""
    picture = {} if interface.image is None else {"picture": picture_record(interface.image)}
    document = {
        "inputs": [{**asdict(feature), **picture} for feature in inputs],
        "outputs": [asdict(feature) for feature in outputs],
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True)


def sentence(feature: Feature) -> str:
    """Describes a feature by its name, type and shape in the ONNX model."""
    sizes = ", ".join("?" if size is None else str(size) for size in feature.shape)
    return f"{feature.name}: {feature.dtype} [{sizes}]"
