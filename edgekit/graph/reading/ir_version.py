"""Marks models with a version of the ONNX file format that ONNX Runtime accepts, or the oldest that they need.

The onnx package marks a model with the newest version that it knows, which says what a file may contain, not what this
file contains. ONNX Runtime refuses versions newer than it knows before it looks at the graph.
"""

from __future__ import annotations

import re
from functools import cache

import onnx
import onnx_ir as ir

_MAX_IR_VERSION = re.compile(r"max supported IR version: (\d+)")
_MAX_OPSET = re.compile(r"till opset (\d+)")
_FAR_VERSION = 1000
_FATAL_ONLY = 4
INITIALIZERS_ALONE = 4
"""The version of the format since which initializers need not be inputs."""
_FUNCTIONS = 8
"""The first version of the format with functions defined in the model."""
_STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


def mark_loadable(graph_model: ir.Model) -> None:
    """Lowers the model's IR version to the newest one that ONNX Runtime accepts; a lower one stays.

    A graph that needs features of a newer version is still refused for these features when it is executed.
    """
    graph_model.ir_version = min(graph_model.ir_version, newest_ir_version())


def with_least_mark(graph_model: ir.Model) -> ir.Model:
    """Returns the model with the oldest IR version that has its opsets, so that older readers accept it.

    A lower version stays, and so does the version of a model with element types that came with a later version of the
    format. The given model is not changed.
    """
    least = _least_ir_version(graph_model)
    if graph_model.ir_version <= least or not _holds_old_types(graph_model):
        return graph_model
    marked = graph_model.clone()
    marked.ir_version = least
    return marked


def _least_ir_version(graph_model: ir.Model) -> int:
    """Returns the IR version that came with a model's newest opset, or the model's own version for unknown opsets."""
    sets = [
        onnx.helper.make_opsetid(domain, version)
        for domain, version in graph_model.opset_imports.items()
        if domain in _STANDARD_DOMAINS
    ]
    try:
        least = int(onnx.helper.find_min_ir_version_for(sets))
    except ValueError:  # an opset that is newer than the onnx package
        return graph_model.ir_version
    return max(least, _FUNCTIONS if graph_model.functions else INITIALIZERS_ALONE)


def _holds_old_types(graph_model: ir.Model) -> bool:
    """Whether all element types exist in every IR version that a model may be marked with."""
    values = (
        value
        for graph in graph_model.graphs()
        for value in (*graph.inputs, *graph.initializers.values(), *(each for node in graph for each in node.outputs))
    )
    return all(value.dtype is None or value.dtype <= ir.DataType.BFLOAT16 for value in values)


@cache
def newest_ir_version() -> int:
    """Returns the newest IR version that the installed ONNX Runtime accepts, read from its refusal of a newer one."""
    return _newest_by_refusal(_MAX_IR_VERSION, opset=18, ir_version=_FAR_VERSION)


@cache
def newest_opset() -> int:
    """The newest version of the standard operators that the installed ONNX Runtime takes."""
    return _newest_by_refusal(_MAX_OPSET, opset=_FAR_VERSION, ir_version=8)


def _newest_by_refusal(pattern: re.Pattern[str], *, opset: int, ir_version: int) -> int:
    """Returns the number in ONNX Runtime's message when it refuses an empty model because of its versions."""
    import onnxruntime

    empty = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": opset}, name="empty"), ir_version=ir_version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    try:
        onnxruntime.InferenceSession(
            ir.to_proto(empty).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its exceptions have no common base of their own
        match = pattern.search(str(error))
        if match is None:
            raise
        return int(match[1])
    return _FAR_VERSION
