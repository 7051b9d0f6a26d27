"""Writes what Core ML loads: the .mlpackage of an ML Program."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, Profile
from edgekit_coreml.units import NEURAL_ENGINE
from edgekit_mlprogram.artifact import build_artifact
from edgekit_mlprogram.conversion import convert_graph
from edgekit_mlprogram.options import by_default, class_output, interface_of, notes_of

ALL_IN_FLOAT32 = "the whole program stays in float32: the Neural Engine, which computes in float16, executes none of it"


def build(model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
    """Write ``model.mlpackage`` into ``folder``.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes that cannot be converted, all of them.
        edgekit.errors.InputError: An input's shape is not fixed, or the options do not fit the model.
    """
    convert = partial(convert_graph, deployment_target_name=profile.options["deployment_target"])
    notes = notes_of(options, model)
    options = by_default(options, model)
    classified_by = class_output(model, options.labels)
    interface = replace(interface_of(options, model.open_dims, classified_by), states=model.states)
    artifact = build_artifact(model, profile, folder / "model.mlpackage", options, convert, interface, notes=notes)
    if options.precision != "auto" or artifact.precision != "float32" or profile.accelerator != NEURAL_ENGINE:
        return artifact
    return replace(artifact, record={**artifact.record, "warnings": [*artifact.record["warnings"], ALL_IN_FLOAT32]})
