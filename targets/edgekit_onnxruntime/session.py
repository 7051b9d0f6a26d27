"""Options of ONNX Runtime's sessions, and the runtime's exceptions."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnxruntime

CPU_PROVIDER = "CPUExecutionProvider"
SOURCE_PLACE = re.compile(r"/\S+\.(?:cc|h):\d+ .*\) (?=[A-Z])")
RECORD_ASSIGNMENT = "session.record_ep_graph_assignment_info"
"""The configuration entry with which a session records which provider executes which nodes."""
LOG_FATAL_ONLY = 4
"""The log severity at which ONNX Runtime does not log errors that it also raises."""


def session_options(
    *, optimize: str = "ALL", threads: int = 1, takes_turns: bool = False
) -> onnxruntime.SessionOptions:
    """Options with a fixed number of threads.

    Args:
        optimize: ONNX Runtime's level of graph optimization: ``DISABLED``, ``BASIC``, ``EXTENDED`` or ``ALL``.
        threads: Threads inside an operator; operators run one after the other.
        takes_turns: Whether other sessions of the process run in between. By default a session's threads wait for work
            in a busy loop for some 20 ms, in which time the session that runs takes up to four times as long.
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
    if takes_turns:
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


@cache
def runtime_errors() -> tuple[type[Exception], ...]:
    """The exceptions of ONNX Runtime for loading and running models; they have no common base class."""
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    return tuple(item for item in vars(state).values() if isinstance(item, type) and issubclass(item, Exception))


def first_line(error: Exception | str) -> str:
    """The first line of an error of ONNX Runtime, without its error code and its location in the source."""
    text = str(error).strip().splitlines()[0]
    text = text.split(" : ", 3)[-1] if text.startswith("[ONNXRuntimeError]") else text
    return SOURCE_PLACE.sub("", text)
