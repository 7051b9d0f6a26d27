"""The package's functions for use without the pipeline: convert a model, execute what came out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgekit.errors import InputError

if TYPE_CHECKING:
    import onnx

    from edgekit.model import Model
    from edgekit_openvino.runner import CompiledRunner

PRECISIONS = ("float32", "float16")


def convert(model: onnx.ModelProto | str | Path, out: str | Path, *, precision: str = "float32") -> Path:
    """Write a model as OpenVINO IR: a ``.xml`` file, and a ``.bin`` file of the same name beside it.

    Args:
        model: The ONNX model, or its file.
        out: Where to write it; ``.xml`` is appended where it is missing.
        precision: ``float32`` keeps the weights unchanged and, where weights are stored as integers, keeps OpenVINO
            from quantizing activations at run time; ``float16`` stores float32 weights in half the space.

    Returns:
        The ``.xml`` file.

    Raises:
        edgekit.errors.UnsupportedOpsError: OpenVINO cannot convert some operators; all of them are listed.
        edgekit.errors.InputError: Another precision was asked for, or the model is invalid.
    """
    from edgekit.graph.reading.inlining import inline_functions
    from edgekit.model import name_nodes
    from edgekit.registry import installed_rewrites
    from edgekit.rewrites.adaptation import converted
    from edgekit.rewrites.given_model import given_model
    from edgekit_openvino.exact.rounding import keep_activations, stores_integers
    from edgekit_openvino.frontend import convert_model
    from edgekit_openvino.ir.ir_file import write_ir

    if precision not in PRECISIONS:
        raise InputError("unknown precision", subject="precision", expected=" or ".join(PRECISIONS), found=precision)
    target = Path(out)
    if target.suffix != ".xml":
        target = target.with_name(f"{target.name}.xml")
    loaded = given_model(model)
    inline_functions(loaded.graph_model)
    name_nodes(loaded.graph_model)  # outputs, by which OpenVINO's reports call nodes, are renamed
    loaded = _with_shapes(loaded)  # which nodes OpenVINO misreads depends on the shapes
    network = converted(loaded, lambda candidate: convert_model(candidate).network, installed_rewrites())
    if precision == "float32" and stores_integers(network):
        keep_activations(network)
    write_ir(network, loaded, target, half_weights=precision == "float16")
    return target


def _with_shapes(model: Model) -> Model:
    """Returns the model with inferred shapes of inner values, or unchanged if its shapes contradict each other."""
    from edgekit.graph.sizes.shapes import ContradictionError, infer_shapes

    try:
        return infer_shapes(model.with_graph(model.graph_model.clone()), strict=False)
    except ContradictionError:
        return model


def load(path: str | Path, *, threads: int = 1) -> CompiledRunner:
    """Returns a runner that executes an IR's ``.xml`` file on the CPU in float32, on ``threads`` threads.

    Raises:
        edgekit.errors.InputError: The file is not a model that OpenVINO can read.
    """
    from edgekit_openvino.runner import CompiledRunner

    return CompiledRunner(Path(path), threads=threads)
