"""Converts models in double precision to single precision, in which OpenVINO's CPU plugin computes them anyway.

The plugin (OpenVINO 2026.4) changes the types of a network when it compiles it, and some of its fusions have read the
constants before: a ``Divide`` by a double behind a ``Reduce`` divides by what lies in memory.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph import single_precision
from edgekit.model import Model


def in_single_precision(model: Model) -> Model:
    """Returns the model with float32 in place of inner doubles, inputs and outputs unchanged; itself if it has none."""
    graph_model = single_precision.in_single_precision(model.graph_model, {ir.DataType.DOUBLE})
    return model if graph_model is model.graph_model else model.with_graph(graph_model)
