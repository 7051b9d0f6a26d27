"""The model that a plugin's own functions are given, read without the pipeline."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir

from edgekit.graph.reading.mending import drop_shadowed_functions
from edgekit.graph.reading.onnx_file import external_files
from edgekit.graph.reading.operands import check_operands
from edgekit.graph.reading.values import check_values
from edgekit.graph.reading.vetting import unreadable_as_input_error
from edgekit.graph.sizes.loop_states import forget_first_sizes
from edgekit.graph.sizes.nameless import forget_nameless_sizes
from edgekit.graph.words.class_labels import without_maps
from edgekit.model import Model


def given_model(given: onnx.ModelProto | str | Path) -> Model:
    """Returns the model of a message or a file; a sequence of maps that it returns (``ZipMap``) becomes their tensor.

    Its nodes are in an order in which they can be computed, whatever order the file has, and what exporters state about
    sizes that are not known is gone. Functions of the model that bear the name of an operator of ONNX are dropped, as
    in the commands.

    Args:
        given: The message, which stays as it is, or the file, whose large tensors stay in its data files.

    Raises:
        edgekit.errors.InputError: The model cannot be read, a file with its tensors is missing or cut short, a node
            would end ONNX Runtime's process, or other maps are left, at an input or inside it.
    """
    source = None if isinstance(given, onnx.ModelProto) else Path(given)
    with unreadable_as_input_error(source):
        return _read(given, source)


def _read(given: onnx.ModelProto | str | Path, source: Path | None) -> Model:
    proto = given if isinstance(given, onnx.ModelProto) else onnx.load(given, load_external_data=False)
    if source is not None:
        external_files(proto, source)
    check_operands(proto, source)
    check_values(proto, source)
    has_maps = any(node.op_type in ("ZipMap", "CastMap") for node in proto.graph.node)
    if has_maps or proto.functions:
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        proto = copy
        drop_shadowed_functions(proto)
    if has_maps:
        without_maps(proto, source or proto.graph.name)
    graph_model = ir.from_proto(proto)
    graph_model.graph.sort()  # tools that add conversions of types write them behind the nodes that read them
    forget_nameless_sizes(graph_model)
    forget_first_sizes(graph_model)
    if source is not None:
        for graph in (graph_model.graph, *(function.graph for function in graph_model.functions.values())):
            ir.external_data.set_base_dir(graph, source.absolute().parent)
    return Model(graph_model, source)
