"""Writes what OpenVINO loads: the IR's topology and its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from edgekit.model import Model, ValueSpec
from edgekit.operators.wide_products import wide_products
from edgekit.target import Artifact, BuildOptions, Feature, Profile


def build(model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
    """Write ``model.xml`` and ``model.bin`` into ``folder``.

    Raises:
        edgekit.errors.UnsupportedOpsError: OpenVINO cannot convert some operators; all of them are listed.
    """
    import openvino

    from edgekit_openvino.exact.rounding import (
        keep_activations,
        leaves_activations_here,
        stores_integers,
        with_rounding_written_out,
    )
    from edgekit_openvino.frontend import convert_model, read_by_openvino
    from edgekit_openvino.ir.ir_file import write_ir
    from edgekit_openvino.ir.model_info import describe
    from edgekit_openvino.runner import SETTINGS

    precision = profile.options["precision"] if options.precision == "auto" else options.precision
    topology = folder / "model.xml"
    as_read = read_by_openvino(model) if options.draft and options.onnx_ships else None
    written = with_rounding_written_out(model) if options.precision == "float32" else model
    conversion = as_read or convert_model(written, compare_shapes=not options.draft)
    describe(conversion.network, model, options)
    judged_so = options.precision == "float32" or leaves_activations_here()
    keeps_activations = bool(conversion.integer_products)
    if as_read is None and judged_so and stores_integers(conversion.network):
        keep_activations(conversion.network)
        keeps_activations = True
    if as_read is None:
        half_weights = precision == "float16"
        write_ir(conversion.network, model, topology, half_weights=half_weights, draft=options.draft)
    else:
        openvino.save_model(as_read.network, topology, compress_to_fp16=precision == "float16")
    return Artifact(
        main=topology,
        files=(topology.with_suffix(".bin"), topology),
        inputs=tuple(map(_feature, model.inputs, conversion.network.inputs)),
        outputs=tuple(map(_feature, model.outputs, conversion.network.outputs)),
        precision="float16" if model.has_half_floats else precision,
        settings=SETTINGS if profile.options["device"] == "CPU" else {},
        record={
            "runtime": f"openvino {openvino.__version__}",
            "device": profile.options["device"],
            "weights": precision,
            "expanded": list(conversion.expanded),
            "weights_as_floats": list(conversion.widened),
            "precision_asked": options.precision,
            "rounding_written_out": written is not model,
            "activations_quantized_at_run_time": stores_integers(conversion.network) and not keeps_activations,
            "warnings": wide_products(model),
        },
    )


def _feature(value: ValueSpec, port: Any) -> Feature:
    """Returns the description of an ONNX input or output together with the OpenVINO port that it became."""
    known, found = value.shape or (), port.get_partial_shape()
    if found.rank.is_static:
        names = known if len(known) == len(found) else (None,) * len(found)
        shape = tuple(dim.get_length() if dim.is_static else name for dim, name in zip(found, names, strict=True))
    else:  # OpenVINO infers no rank behind a Reshape whose shape is computed at run time
        shape = known
    return Feature(value.name, value.dtype, known, port.any_name, _numpy_name(port), shape)


def _numpy_name(port: Any) -> str:
    """Returns NumPy's name of a port's element type, or OpenVINO's name if NumPy has none."""
    element = port.get_element_type()
    return str(element.to_dtype()) if element.get_type_name() not in ("string", "bf16") else element.get_type_name()
