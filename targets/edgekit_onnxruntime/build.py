"""Writes the files that ONNX Runtime loads: the ONNX file, and one in ORT format for builds that only read that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from edgekit.graph.integer_products import multiplies_integers
from edgekit.graph.reading.ir_version import with_least_mark
from edgekit.graph.unsigned_weights import with_unsigned_weights
from edgekit.graph.value_info import without_inferable_value_info
from edgekit.model import PROTOBUF_LIMIT, Model, ValueSpec
from edgekit.target import Artifact, BuildOptions, Feature, Profile
from edgekit_onnxruntime import webgpu
from edgekit_onnxruntime.devices import NOT_STARTED, device_of
from edgekit_onnxruntime.loading import open_session
from edgekit_onnxruntime.ort_file import with_sorted_resolver
from edgekit_onnxruntime.session import session_options
from edgekit_onnxruntime.session_recipe import SESSION_FILE, UNWRITABLE, SessionRecipe, session_text, unwritable_inputs
from edgekit_onnxruntime.signed_activations import loadable_activations

MOST_GROWTH = 1.1
SMALL_FILE = 16384
"""Constants count as widened if the ORT file exceeds MOST_GROWTH times the ONNX file's size plus SMALL_FILE bytes."""


def write_ort_format(source: Path, target: Path, *, architecture: str = "") -> bool:
    """Write the ``.onnx`` file at ``source`` in ORT format, optimized independently of this machine's processor.

    The same model gives the same file.

    Args:
        source: The ONNX file.
        target: The ``.ort`` file.
        architecture: ``arm64`` keeps signed 8-bit activations, which are faster there than unsigned ones.

    Returns:
        Whether constants were folded. They are not folded if that would turn 8-bit weights into floats.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
        edgekit.errors.InputError: The file is not a model that ONNX Runtime can read.
    """
    options = session_options(optimize="EXTENDED")
    options.enable_mem_reuse = False  # the memory plan is only for running the model, and is not part of the file
    options.add_session_config_entry("session.save_model_format", "ORT")
    if architecture == "arm64":
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.optimized_model_filepath = str(target)
    open_session(source, options)
    weights = sum(file.stat().st_size for file in source.parent.glob(f"{source.name}*"))
    folded = target.stat().st_size <= weights * MOST_GROWTH + SMALL_FILE
    if not folded:
        open_session(source, options, disabled_optimizers=["ConstantFolding"])
    target.write_bytes(with_sorted_resolver(target.read_bytes()))
    return folded


def build(model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
    """Write ``model.onnx`` and ``model.ort`` into ``folder``.

    With ``precision="float32"``, the weights of a model that multiplies 8-bit integers are written unsigned: the result
    is then the same on processors that add products of signed weights in 16 bits. For WebGPU, nodes that its provider
    computes wrong are rewritten.

    Raises:
        edgekit.errors.UnsupportedOpsError: There is no kernel for some nodes; all of them are listed.
    """
    import onnxruntime

    source = folder / "model.onnx"
    unsigned = with_unsigned_weights(model) if options.precision == "float32" and multiplies_integers(model) else model
    written = loadable_activations(unsigned)
    written = webgpu.computed_right(written) if profile.options["provider"] == webgpu.PROVIDER else written
    if not options.draft:
        written = written.with_graph(with_least_mark(without_inferable_value_info(written).graph_model))
    written.save(source)
    alternatives, ort_format = _alternatives(model, source, profile, options)
    device = device_of(profile)
    recipe = None if device is None else device.session
    by_provider = recipe is not None and options.precision in recipe.precisions
    precision = _precision(model, options.precision, by_provider=by_provider)
    inputs = tuple(map(_feature, model.inputs))
    warnings = _warnings(profile, recipe, inputs, asked=options.precision, precision=precision, by_provider=by_provider)
    files = sorted(folder.iterdir())
    if device is not None and recipe is not None:  # load reads this file, also for a draft
        record = recipe.record(device.provider, options.precision, inputs, model.open_dims)
        (folder / SESSION_FILE).write_text(session_text(record), encoding="utf-8")
    return Artifact(
        main=source,
        files=tuple(files),
        alternatives=alternatives,
        inputs=inputs,
        outputs=tuple(map(_feature, model.outputs)),
        precision=precision,
        dimensions=model.open_dims,
        record={
            "runtime": f"onnxruntime {onnxruntime.__version__}",
            "provider": profile.options["provider"],
            "precision": f"{options.precision}, by the provider's options in {SESSION_FILE}"
            if by_provider
            else "as in the model: ONNX Runtime computes in the types that it names",
            "ort_format": ort_format,
            "precision_asked": options.precision,
            "unsigned_weights": unsigned is not model,
            "warnings": warnings,
        },
    )


def _alternatives(model: Model, source: Path, profile: Profile, options: BuildOptions) -> tuple[tuple[Path, ...], str]:
    """Writes the file in ORT format, unless it is left out; returns it, and what the record says of it."""
    if options.draft:
        return (), "left out: a draft"
    if model.weight_bytes >= PROTOBUF_LIMIT:  # the limit of a FlatBuffer too
        open_session(source, session_options())
        return (), "left out: the model is too large for it"
    optimized = source.with_suffix(".ort")
    folded = write_ort_format(source, optimized, architecture=profile.options.get("architecture", ""))
    return (optimized,), f"constants {'' if folded else 'not '}folded"


def _precision(model: Model, asked: str, *, by_provider: bool) -> str:
    """The precision that the artifact computes in; the provider's options may ask for another one than the model."""
    return "float16" if model.has_half_floats or (by_provider and asked == "float16") else "float32"


def _warnings(
    profile: Profile,
    recipe: SessionRecipe | None,
    inputs: Sequence[Feature],
    *,
    asked: str,
    precision: str,
    by_provider: bool,
) -> list[str]:
    """What was asked for and has no effect, and what could not be tried here."""
    warnings = []
    if not by_provider and asked not in ("auto", precision):
        smaller = "; `--quantize float16` stores weights in half precision" if asked == "float16" else ""
        warnings.append(
            f"{asked} was asked for, and has no effect: ONNX Runtime computes in the types that the model "
            f"names, which makes this {precision}{smaller}"
        )
    if recipe is not None and recipe.shape_profile and (unwritable := unwritable_inputs(inputs)):
        warnings.append(
            f"the sizes of {', '.join(unwritable)} are not in {SESSION_FILE}: the provider's options cannot hold a "
            f"name with {' or '.join(UNWRITABLE)}, so it builds for the first sizes that it meets"
        )
    if not_started := profile.options.get(NOT_STARTED):
        warnings.append(not_started)
    return warnings


def _feature(value: ValueSpec) -> Feature:
    """The feature of an input or output, whose native name, type and shape are those of the model."""
    shape = value.shape or ()
    return Feature(value.name, value.dtype, shape, value.name, value.dtype, shape)
