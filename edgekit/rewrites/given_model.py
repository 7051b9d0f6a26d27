"""The model that a plugin's own functions are given, read without the pipeline."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from edgekit.graph.reading.message import checked_and_mended
from edgekit.graph.reading.onnx_file import external_files
from edgekit.graph.reading.vetting import unreadable_as_input_error
from edgekit.graph.sizes.loop_states import forget_first_sizes
from edgekit.graph.sizes.nameless import forget_nameless_sizes
from edgekit.graph.words.class_labels import without_maps
from edgekit.model import Model


def given_model(given: onnx.ModelProto | str | Path) -> Model:
    """Returns the model of a message or a file; a sequence of maps that it returns (``ZipMap``) becomes their tensor.

    It is checked and mended as in the commands (:mod:`edgekit.graph.reading.message`), and what exporters state about
    sizes that are not known is gone.

    Args:
        given: The message, which stays as it is, or the file, whose large tensors stay in its data files.

    Raises:
        edgekit.errors.InputError: The model cannot be read or breaks the rules of ONNX, a file with its tensors is
            missing or cut short, or other maps are left, at an input or inside it.
    """
    source = None if isinstance(given, onnx.ModelProto) else Path(given)
    with unreadable_as_input_error(source):
        return _read(given, source)


def _read(given: onnx.ModelProto | str | Path, source: Path | None) -> Model:
    if isinstance(given, onnx.ModelProto):
        proto = onnx.ModelProto()
        proto.CopyFrom(given)
    else:
        proto = onnx.load(given, load_external_data=False)
    subject = source or Path(proto.graph.name or "model")
    checked_and_mended(proto, subject)
    if source is not None:
        external_files(proto, source)
    without_maps(proto, subject)
    graph_model = ir.from_proto(proto)
    forget_nameless_sizes(graph_model)
    forget_first_sizes(graph_model)
    if source is not None:
        for graph in (graph_model.graph, *(function.graph for function in graph_model.functions.values())):
            ir.external_data.set_base_dir(graph, source.absolute().parent)
    return Model(graph_model, source)
