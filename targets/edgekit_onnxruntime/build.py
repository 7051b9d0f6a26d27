"""Writes what ONNX Runtime loads: the ONNX file, and the same model in ORT format for builds that read only that."""

from __future__ import annotations

from pathlib import Path

from edgekit.model import Model, ValueSpec
from edgekit.target import Artifact, BuildOptions, Feature, Profile
from edgekit_onnxruntime.loading import open_session
from edgekit_onnxruntime.session import loadable, session_options


def write_ort_format(source: Path, target: Path, *, architecture: str = "") -> None:
    """Write the ``.onnx`` file at ``source`` in ORT format, optimized independently of this machine's processor.

    Args:
        source: The ONNX file.
        target: The ``.ort`` file.
        architecture: ``arm64`` keeps signed 8-bit activations, which are the faster ones there.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
        edgekit.errors.InputError: The file is not a model that ONNX Runtime can read.
    """
    options = session_options(optimize="EXTENDED")
    options.add_session_config_entry("session.save_model_format", "ORT")
    if architecture == "arm64":
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.optimized_model_filepath = str(target)
    open_session(source, options)


def build(model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
    """Write ``model.onnx`` and ``model.ort`` into ``folder``.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
    """
    import onnxruntime

    source, optimized = folder / "model.onnx", folder / "model.ort"
    loadable(model).save(source)
    write_ort_format(source, optimized, architecture=profile.options.get("architecture", ""))
    files = sorted(folder.iterdir())
    main = optimized if profile.options["artifact"] == "ort" else source
    return Artifact(
        main=main,
        files=tuple(files),
        alternatives=tuple(file for file in files if (file == optimized) != (main == optimized)),
        inputs=tuple(map(_feature, model.inputs)),
        outputs=tuple(map(_feature, model.outputs)),
        precision="float16" if model.has_half_floats else "float32",
        record={
            "runtime": f"onnxruntime {onnxruntime.__version__}",
            "provider": profile.options["provider"],
            "precision": "as in the model: ONNX Runtime computes in the types that it names",
            "precision_asked": options.precision,
        },
    )


def _feature(value: ValueSpec) -> Feature:
    """An input or output, which keeps its name, type and shape."""
    shape = value.shape or ()
    return Feature(value.name, value.dtype, shape, value.name, value.dtype, shape)
