"""MRotaryEmbedding of ``com.microsoft``, the rotary embedding of Qwen2-VL and its successors, written out.

By ONNX Runtime's document ContribOperators: a token has three positions, in time, height and width, and each column of
the tables belongs to one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError
from edgekit.rewrites.microsoft.transformer_operators import RotatedPairs

STREAMS = 3
"""The number of positions of a token."""
INTERLEAVED = 1
"""The ``mrope_layout`` with which the columns of positions alternate; else the columns of a position are adjacent."""


class RotatedByThreePositions(RotatedPairs):
    """Pairs of elements turned by angles, each of which belongs to one of three positions."""

    name: ClassVar[str] = "rotary embedding of three positions written out"
    op_types: ClassVar[Sequence[str]] = ("MRotaryEmbedding",)

    def at_positions(self, node: ir.Node, build: NodeBuilder, table: ir.Value | None, heads: ir.Value) -> ir.Value:
        """Returns rows whose columns are looked up by position, then put in their order."""
        x, positions = node.inputs[:2]
        columns = None if table is None or table.shape is None else table.shape[1]
        if x is None or x.shape is None or not isinstance(columns, int):
            raise InapplicableError("the shapes of its inputs are not known")
        streams = streams_of_columns(node, columns)
        taken = [np.flatnonzero(streams == stream) for stream in range(STREAMS)]
        rows = [
            build("Gather", build("Gather", table, own, axis=1), build("Gather", positions, np.int64(stream)), axis=0)
            for stream, own in enumerate(taken)
            if own.size
        ]
        joined = rows[0] if len(rows) == 1 else build("Concat", *rows, axis=2)
        order = np.argsort(np.concatenate(taken))
        if (order != np.arange(order.size)).any():
            joined = build("Gather", joined, order, axis=2)
        return build.unsqueeze(joined, [1 if x.shape.rank() == 4 else 2])


def streams_of_columns(node: ir.Node, columns: int) -> np.ndarray:
    """Returns the position that each column of the tables belongs to: 0 for time, 1 for height, 2 for width."""
    sections = list(node.attributes.get_ints("mrope_section", ()))
    if len(sections) != STREAMS or sum(sections) != columns:
        raise InapplicableError(f"its sections {sections} do not add up to the {columns} columns of its tables")
    if node.attributes.get_int("mrope_layout", 0) != INTERLEAVED:
        return np.repeat(np.arange(STREAMS), sections)
    streams = np.zeros(columns, np.int64)
    for stream in (1, 2):
        streams[stream : sections[stream] * STREAMS : STREAMS] = stream
    return streams
