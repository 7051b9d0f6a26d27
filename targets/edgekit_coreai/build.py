"""Writes what Core AI loads: the .aimodel."""

from __future__ import annotations

import importlib.metadata
from dataclasses import replace
from pathlib import Path

from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, Profile
from edgekit_coreai.availability import version
from edgekit_coreai.conversion import convert_graph
from edgekit_mlprogram.options import interface_of, texts_of


def build(model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
    """Write ``model.aimodel`` into ``folder``.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes that cannot be converted, or operations that cannot be translated,
            all of them.
        edgekit.errors.InputError: An input's shape is not fixed, the options do not fit the model, or Core AI is not
            installed.
        edgekit_coreai.process.CoreAICrashError: Apple's compiler refuses the model or ends its process.
    """
    interface = replace(interface_of(options, model.open_dims), states=model.states, classes=())
    conversion = convert_graph(
        model.graph_model,
        folder / "model.aimodel",
        precision=options.precision,
        subject=model.source,
        texts=texts_of(options, model.metadata),
        examples=options.examples,
        dimensions=model.open_dims,
        interface=interface,
        labels=options.labels,
        compression=options.compression,
    )
    warnings = list(conversion.notes)
    if options.compression is not None and not conversion.compressed:
        warnings.append(f"--quantize {options.compression}: no weights are large enough to be compressed")
    return Artifact(
        main=conversion.package,
        files=(conversion.package,),
        inputs=conversion.inputs,
        outputs=conversion.outputs,
        states=conversion.states,
        precision="float16" if conversion.states else conversion.precision,
        record={
            "builder": f"coreai-core {version()} by way of coremltools {importlib.metadata.version('coremltools')}",
            "deployment_target": profile.options["deployment_target"],
            "compute_precision": conversion.precision,
            "precision_asked": options.precision,
            "kept_float32": list(conversion.kept_float32),
            "compressed": list(conversion.compressed),
            "image_input": interface.image is not None,
            "warnings": warnings,
        },
    )
