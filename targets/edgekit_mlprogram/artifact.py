"""The artifact of a build that makes an ML Program, for Core ML or for Core AI."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from edgekit.model import Model
from edgekit.operators.wide_products import wide_products
from edgekit.target import Artifact, BuildOptions, Profile
from edgekit_mil.program.interface import Interface
from edgekit_mlprogram.conversion import Conversion
from edgekit_mlprogram.options import texts_of


def build_artifact(
    model: Model,
    profile: Profile,
    out: Path,
    options: BuildOptions,
    convert: Callable[..., Conversion],
    interface: Interface,
    builder: str = "",
    notes: Sequence[str] = (),
) -> Artifact:
    """Convert a model, and return the artifact with a record of the build.

    Args:
        model: The model.
        profile: The device; its ``deployment_target`` goes into the record.
        out: The file or folder to write.
        options: What the user asked for.
        convert: Converts the graph; takes the arguments of :func:`edgekit_mlprogram.conversion.convert_graph`, except
            the deployment target.
        interface: What the program offers to applications beyond arrays.
        builder: Names a further converter in the record, in front of coremltools.
        notes: Further warnings for the record.

    Raises:
        edgekit.errors.UnsupportedOpsError: Nodes that cannot be converted, all of them.
        edgekit.errors.InputError: An input's shape is not fixed, or the options do not fit the model.
    """
    conversion = convert(
        model.graph_model,
        out,
        precision=options.precision,
        subject=model.source,
        texts=texts_of(options, model.metadata),
        examples=options.examples,
        dimensions=model.open_dims,
        interface=interface,
        labels=options.labels,
        compression=options.compression,
        progress=options.progress,
        draft=options.draft,
    )
    warnings = [*conversion.notes, *notes, *wide_products(model)]
    if options.compression is not None and not conversion.compressed:
        warnings.append(f"--quantize {options.compression}: no weights are large enough to be compressed")
    record: dict[str, Any] = {
        "builder": f"{builder}coremltools {importlib.metadata.version('coremltools')}",
        "deployment_target": profile.options["deployment_target"],
        "compute_precision": conversion.precision,
        "precision_asked": options.precision,
        "kept_float32": list(conversion.kept_float32),
        "compressed": list(conversion.compressed),
        "image_input": interface.image is not None,
        "classifier": bool(interface.classes),
        "warnings": warnings,
    }
    return Artifact(
        main=conversion.package,
        files=(conversion.package,),
        inputs=conversion.inputs,
        outputs=conversion.outputs,
        states=conversion.states,
        precision="float16" if conversion.states else conversion.precision,
        record=record,
    )
