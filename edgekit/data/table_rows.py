"""Inputs that hold the numbers of a table's rows, such as token ids: how many rows there are."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

_KEEP_ALL_VALUES = {"Cast", "Expand", "Flatten", "Identity", "Reshape", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
"""Operators whose output holds every value of their first input. One that cuts values off does not count: the graph
looks up only the values that it keeps."""


def table_rows(graph: ir.Graph) -> dict[str, int]:
    """By input, the number of rows of the smallest table that the input's numbers are looked up in.

    ONNX takes numbers from -rows to rows - 1; what a device's operator returns for other numbers is undefined. Lookups
    in branches and loops are left out, since they may not be executed.
    """
    inputs = {value for value in graph.inputs if value.name not in graph.initializers}
    rows: dict[str, int] = {}
    for node in graph:
        table, numbers = (*node.inputs, None, None)[:2]
        if node.op_type != "Gather" or node.domain or table is None or table.shape is None:
            continue
        axis = node.attributes.get_int("axis", 0)
        size = table.shape[axis] if -table.shape.rank() <= axis < table.shape.rank() else None
        for value in _sources(numbers):
            if value in inputs and value.name and isinstance(size, int):
                rows[value.name] = min(size, rows.get(value.name, size))
    return rows


def _sources(value: ir.Value | None) -> Iterator[ir.Value]:
    """The values that all numbers of ``value`` come from, ``value`` itself first."""
    while value is not None:
        yield value
        node = value.producer()
        value = node.inputs[0] if node is not None and not node.domain and node.op_type in _KEEP_ALL_VALUES else None
