"""How long each node of a graph takes in the reference: this shows which layers matter, not their time on a device."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgekit.execution.reference import open_session
from edgekit.model import Model, bodies, node_name
from edgekit.progress import Step

PROFILED_RUNS = 5

_KERNEL = "_kernel_time"
"""What ONNX Runtime's profile appends to a node's name for the time that its kernel took."""


def node_times(model: Model, feeds: Mapping[str, np.ndarray], progress: Step | None = None) -> dict[str, float]:
    """Microseconds that each node takes on one thread, the mean of :data:`PROFILED_RUNS` runs, by the node's name.

    The time of a node with subgraphs excludes the nodes in them. An operator that ONNX Runtime expands into others
    (HardSwish) is missing; those others are there, by the names that ONNX Runtime gives them.

    Args:
        model: What is executed.
        feeds: One sample.
        progress: Told of the runs.

    Raises:
        edgekit.execution.reference.NotRunnableError: ONNX Runtime does not execute the graph.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.enable_profiling = True
    with tempfile.TemporaryDirectory() as folder:
        options.profile_file_prefix = str(Path(folder) / "profile")
        session = open_session(model, options)
        for done in range(PROFILED_RUNS):
            if progress is not None:
                progress("timing each layer, run", done, PROFILED_RUNS)
            session.run(None, dict(feeds))
        events = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    total: dict[str, float] = {}
    for event in events:
        if event["cat"] == "Node" and event["name"].endswith(_KERNEL):
            name = event["name"].removesuffix(_KERNEL)
            total[name] = total.get(name, 0.0) + event["dur"]
    inner = {node_name(node): sum(total.get(name, 0.0) for name in _held_by(node)) for node in model.graph.all_nodes()}
    return {name: max(time - inner.get(name, 0.0), 0.0) / PROFILED_RUNS for name, time in total.items()}


def _held_by(node: ir.Node) -> Iterator[str]:
    """The names of the nodes directly in a node's subgraphs, without those in subgraphs of these."""
    return (node_name(inner) for body in bodies(node) for inner in body)
