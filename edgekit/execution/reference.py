"""The reference that everything is compared with: a model executed by ONNX Runtime on the CPU, as it is written."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.errors import RequirementError
from edgekit.execution.exact_products import with_exact_products
from edgekit.execution.lone_session import TENSORS_FOLDER
from edgekit.execution.loop_limit import require_an_end, with_limited_loops
from edgekit.execution.transforms import with_exact_transforms
from edgekit.model import PROTOBUF_LIMIT, Arrays, Model
from edgekit.processes.supervision import asked_limits, tell_step

_NODE_IN_MESSAGE = re.compile(r"Name:'([^']+)'|Node ?\(([^)]+)\)|node with name '([^']+)'")
_NOISE_IN_MESSAGE = re.compile(
    r"\[ONNXRuntimeError\] : \d+ : \w+ : "
    r"|/\S+\.(?:cc|h):\d+ \S.*?\) (?:(?:const )?\[with [^\]]*\] )?|\b\w+\.(?:cc|h):\d+ \w+ "
)
_NO_NUMBER = {"stod", "stof", "stoi", "stol", "stoll", "stoul", "stoull"}
"""Functions of C++ whose name is the whole error message where a text is no number."""
_LOCALE_IN_MESSAGE = re.compile(r"Failed to construct locale with name: ?(\S+?):(?=\S*locale)")
_MANY_NODES = 1024
_SECONDS_TO_OPEN = 1.0
"""Seconds in which ONNX Runtime opens a graph of :data:`_MANY_NODES` nodes if it plans which values share memory. For
each value it searches all earlier ones, so the time grows with the square (15,000 nodes: 70 s, without a plan 1 s)."""
_SILENT = 4
"""ONNX Runtime's log level that prints only fatal errors: exceptions report all others."""


def missing_locale(message: str) -> str | None:
    """The locale that ONNX Runtime's message says is missing on this system, or None for another message."""
    match = _LOCALE_IN_MESSAGE.search(message)
    return None if match is None else match[1]


class NotRunnableError(RequirementError):
    """ONNX Runtime cannot execute the model, or not with these inputs."""

    def __init__(self, message: str, node: str | None, locale: str | None = None) -> None:
        super().__init__(f"ONNX Runtime cannot execute it: {message}", subject=None if node is None else f"node {node}")
        self.node = node
        """The node that failed, if ONNX Runtime named it."""
        self.cause = message
        self.locale = locale
        """The locale that this system lacks, if that is the cause."""


class Reference:
    """A session on the CPU, with the graph executed node by node as it is written: no fusions, no rewrites.

    There are two exceptions: Fourier transforms are computed in double precision
    (:mod:`edgekit.execution.transforms`), and products of integers without saturation
    (:mod:`edgekit.execution.exact_products`).
    Loops end with an error after the steps of :mod:`edgekit.execution.loop_limit`, unless ``--max-seconds`` was given.

    Args:
        model: The model; it is not changed.
        fast: Let ONNX Runtime optimize the graph as it does by default, and run on one thread: for measuring time.
            Loops are not limited. If ONNX Runtime refuses its own optimized graph, the graph is executed as written.
        lean: Free memory as soon as nothing reads it: half as much is held, and a run takes up to a fifth longer.

    Raises:
        NotRunnableError: ONNX Runtime refuses the graph.
    """

    def __init__(self, model: Model, *, fast: bool = False, lean: bool = False) -> None:
        import onnxruntime

        levels = onnxruntime.GraphOptimizationLevel
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = levels.ORT_ENABLE_ALL if fast else levels.ORT_DISABLE_ALL
        options.intra_op_num_threads = 1 if fast else 0
        # Threads that wait actively take the processor from others: loops of small steps take twice as long.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = _SILENT
        options.enable_cpu_mem_arena = not lean
        self._model = model
        exact = model if fast else with_exact_products(with_exact_transforms(model))
        limited = not fast and asked_limits()[1] is None
        self._optimized = options if fast else None
        try:
            self._session = open_session(with_limited_loops(exact) if limited else exact, options, planned=fast)
        except NotRunnableError:
            if not fast:
                raise
            self._open_as_written()
        self.inputs = tuple(each.name for each in self._session.get_inputs())
        self._outputs = [output.name for output in self._session.get_outputs()]
        self.types: Mapping[str, str] = {output.name: output.type for output in self._session.get_outputs()}
        """ONNX Runtime's names of the outputs' types, such as ``tensor(float)``."""
        self._threads = ", 1 thread" if fast else ""

    def _open_as_written(self) -> None:
        """Opens the session again without optimizations: ONNX Runtime may refuse the graph that it optimized itself."""
        import onnxruntime

        options, self._optimized = self._optimized, None
        assert options is not None
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        self._session = open_session(self._model, options, planned=True)

    @property
    def executed_by(self) -> str:
        """Runtime, version, device and how the graph is executed."""
        import onnxruntime

        how = "node by node" if self._optimized is None else "optimized"
        return f"ONNX Runtime {onnxruntime.__version__}, CPU, {how}{self._threads}"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs by name.

        Raises:
            NotRunnableError: A node fails on these inputs.
            InputError: A loop does not end.
        """
        try:
            return dict(zip(self._outputs, self._session.run(self._outputs, dict(feeds)), strict=True))
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            if self._optimized is not None:
                self._open_as_written()
                return self.run(feeds)
            require_an_end(str(error), self._model)
            raise _not_runnable(error) from error


def fed_to(reference: Reference, arrays: Arrays) -> Arrays:
    """Those of the arrays that are inputs of the model."""
    return {name: arrays[name] for name in reference.inputs}


def open_session(model: Model, options: Any, *, planned: bool = False) -> Any:
    """A session over the model; tensors that are in files are mapped by the session itself, not copied.

    Args:
        model: The graph.
        options: ONNX Runtime's session options, which are changed.
        planned: Whether values share memory by a plan even in a graph of more than :data:`_MANY_NODES` nodes, as on a
            device. Without a plan each value gets memory of its own, which is freed as soon as nothing reads it.

    Raises:
        NotRunnableError: ONNX Runtime refuses the graph.
    """
    import onnxruntime

    nodes = model.node_count
    if nodes > _MANY_NODES:
        options.enable_mem_reuse = planned
        tell_step(patience=_SECONDS_TO_OPEN * (nodes / _MANY_NODES) ** 2)
    folders = tensor_folders(model)
    with nullcontext("") if folders is not None else tempfile.TemporaryDirectory() as temporary:
        source: str | bytes
        if folders is not None:
            for folder in folders:
                options.add_session_config_entry(TENSORS_FOLDER, folder or ".")
            source = ir.to_proto(model.graph_model).SerializeToString()
        else:
            source = str(Path(temporary) / "model.onnx")
            model.save(Path(source))
        try:
            return onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # ONNX Runtime's exceptions have no common base class
            raise _not_runnable(error) from error


def is_executable(model: Model) -> bool:
    """Whether ONNX Runtime opens a session over the model."""
    try:
        Reference(model)
    except NotRunnableError:
        return False
    return True


def tensor_folders(model: Model) -> set[str] | None:
    """The folder of the files that hold tensors, or an empty set if no file does.

    None if the model cannot be given to ONNX Runtime as one message: there are several such folders, or the tensors
    inside the model are too large.
    """
    tensors = list(model.tensors())
    folders = {str(tensor.base_dir) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
    inside = sum(tensor.nbytes for tensor in tensors if not isinstance(tensor, ir.ExternalTensor))
    return folders if len(folders) <= 1 and inside <= PROTOBUF_LIMIT // 2 else None


def _not_runnable(error: Exception) -> NotRunnableError:
    text = " ".join(str(error).split())
    match = _NODE_IN_MESSAGE.search(text)
    node = next((group for group in match.groups() if group), None) if match else None
    _, _, status = text.rpartition("Status Message: ")
    locale = missing_locale(status)
    if locale is not None:
        lacks = f"it changes texts by the locale {locale}, which this system does not have"
        return NotRunnableError(lacks, node, locale)
    if status in _NO_NUMBER:
        return NotRunnableError("it converts texts to numbers, and one text is not a number", node)
    return NotRunnableError(_NOISE_IN_MESSAGE.sub("", status), node)
