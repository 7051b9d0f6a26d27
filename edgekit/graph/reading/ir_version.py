"""Marks models with a version of the ONNX file format that ONNX Runtime takes.

The onnx package marks a model with the newest version that it knows, which says what a file may contain, not what this
one does. ONNX Runtime refuses marks that are newer than itself before it looks at the graph.
"""

from __future__ import annotations

import re
from functools import cache

import onnx_ir as ir

_MAX_IR_VERSION = re.compile(r"max supported IR version: (\d+)")
_MAX_OPSET = re.compile(r"till opset (\d+)")
_FAR_VERSION = 1000
_FATAL_ONLY = 4
INITIALIZERS_ALONE = 4
"""The version of the format since which initializers need not be inputs."""


def mark_loadable(graph_model: ir.Model) -> None:
    """Lowers the model's mark to the newest one that ONNX Runtime takes; a lower one stays.

    A graph that needs what came with a newer version is refused all the same, for what it needs, when it is executed.
    """
    graph_model.ir_version = min(graph_model.ir_version, newest_ir_version())


@cache
def newest_ir_version() -> int:
    """The newest IR version that the installed ONNX Runtime takes, which it tells when it refuses one."""
    return _told_by_refusal(_MAX_IR_VERSION, opset=18, ir_version=_FAR_VERSION)


@cache
def newest_opset() -> int:
    """The newest version of the standard operators that the installed ONNX Runtime takes."""
    return _told_by_refusal(_MAX_OPSET, opset=_FAR_VERSION, ir_version=8)


def _told_by_refusal(pattern: re.Pattern[str], *, opset: int, ir_version: int) -> int:
    """The number that ONNX Runtime gives when it refuses an empty model for its versions."""
    import onnxruntime

    empty = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": opset}, name="empty"), ir_version=ir_version)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL_ONLY
    try:
        onnxruntime.InferenceSession(
            ir.to_proto(empty).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:  # its exceptions have no base of their own
        match = pattern.search(str(error))
        if match is None:
            raise
        return int(match[1])
    return _FAR_VERSION
