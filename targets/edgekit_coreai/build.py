"""Builds the .aimodel that Core AI loads."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, Profile
from edgekit_coreai.availability import version
from edgekit_coreai.conversion import convert_graph
from edgekit_mil.program.interface import Interface
from edgekit_mlprogram.artifact import build_artifact
from edgekit_mlprogram.options import by_default, interface_of

STATES_IN_SWIFT = (
    "the bundle's Swift package runs models with states by Core ML alone: without an ML Program in the bundle its "
    "golden check throws keepsStates; check.py runs this model"
)


def build(model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
    """Write ``model.aimodel`` into ``folder``.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes cannot be converted, or operations cannot be translated; the error
            lists all of them.
        edgekit.errors.InputError: An input's shape is not fixed, the options do not fit the model, or Core AI is not
            installed.
        edgekit_coreai.process.CoreAICrashError: Apple's compiler refuses the model or ends its process.
    """
    options = by_default(options, model)
    image = interface_of(replace(options, options={**options.options, "classifier": "no"}), model.open_dims).image
    interface = Interface(image=image, states=model.states)
    builder = f"coreai-core {version()} by way of "
    notes = (STATES_IN_SWIFT,) if model.states else ()
    out = folder / "model.aimodel"
    return build_artifact(model, profile, out, options, convert_graph, interface, builder, notes)
