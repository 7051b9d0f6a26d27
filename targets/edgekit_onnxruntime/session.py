"""What every session of ONNX Runtime needs: options, the runtime's exceptions, and a file that it takes."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

import onnx_ir as ir

from edgekit.model import Model

if TYPE_CHECKING:
    import onnxruntime

CPU_PROVIDER = "CPUExecutionProvider"
SOURCE_PLACE = re.compile(r"/\S+\.(?:cc|h):\d+ .*\) (?=[A-Z])")
MAX_IR_VERSION = re.compile(r"max supported IR version: (?P<version>\d+)")
FAR_IR_VERSION = 1000
LOG_FATAL_ONLY = 4
"""Log severity at which ONNX Runtime keeps to itself what it also raises."""


def session_options(*, optimize: str = "ALL", threads: int = 1) -> onnxruntime.SessionOptions:
    """Options with the number of threads pinned.

    Args:
        optimize: ONNX Runtime's level of graph optimization: ``DISABLED``, ``BASIC``, ``EXTENDED`` or ``ALL``.
        threads: Threads inside an operator; operators run one after the other.
    """
    import onnxruntime

    levels = onnxruntime.GraphOptimizationLevel
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = {
        "DISABLED": levels.ORT_DISABLE_ALL,
        "BASIC": levels.ORT_ENABLE_BASIC,
        "EXTENDED": levels.ORT_ENABLE_EXTENDED,
        "ALL": levels.ORT_ENABLE_ALL,
    }[optimize]
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = LOG_FATAL_ONLY
    return options


@cache
def runtime_errors() -> tuple[type[Exception], ...]:
    """What ONNX Runtime raises while it loads or runs a model; its classes have no base in common."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return tuple(item for item in vars(state).values() if isinstance(item, type) and issubclass(item, Exception))


def first_line(error: Exception | str) -> str:
    """What ONNX Runtime says went wrong, without its error code, its place in the source and the lines that follow."""
    text = str(error).strip().splitlines()[0]
    text = text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text
    return SOURCE_PLACE.sub("", text)


def loadable(model: Model) -> Model:
    """The model marked with an IR version that ONNX Runtime takes.

    The onnx package marks models with its own newest version, which says what a file may contain, not what this one
    does; ONNX Runtime refuses marks that are newer than itself before it looks at the graph.
    """
    newest = _newest_ir_version()
    if model.graph_model.ir_version <= newest:
        return model
    copy = model.graph_model.clone()
    copy.ir_version = newest
    return model.with_graph(copy)


@cache
def _newest_ir_version() -> int:
    """The newest IR version that ONNX Runtime takes, which it tells when it refuses one."""
    import onnxruntime

    empty = ir.Model(ir.Graph([], [], nodes=[], opset_imports={"": 18}, name="empty"), ir_version=FAR_IR_VERSION)
    try:
        onnxruntime.InferenceSession(
            ir.to_proto(empty).SerializeToString(), session_options(), providers=[CPU_PROVIDER]
        )
    except runtime_errors() as error:
        match = MAX_IR_VERSION.search(str(error))
        if match:
            return int(match["version"])
    return FAR_IR_VERSION
