"""Columns that are picked, reduced and joined one by one: one node picks all of them, and one reduces them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

FEWEST = 4
"""The fewest consecutive columns for which the replacement is worthwhile."""
REDUCING = frozenset(["ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"])
PICKING = frozenset([("ArrayFeatureExtractor", "ai.onnx.ml"), ("Gather", "")])
COLUMNS = (1, -1)
"""The axis of columns in a table."""
_AXES_AS_INPUT = {"ReduceSum": 13}
"""The first opset with axes as an input, for operators where it is not 18."""


class _Column(NamedTuple):
    """The source of a column: an operator over several columns of a table."""

    operator: str
    table: ir.Value
    places: tuple[int, ...]


def reduce_columns_at_once(model: ir.Model) -> bool:
    """Replaces the nodes that make the columns of a Concat, in place, where several are made the same way.

    Converters of scikit-learn write polynomial features this way: two nodes for the product of each pair of columns.

    Returns:
        Whether there were any.
    """
    changed = False
    for node in list(model.graph):
        if node.op_type == "Concat" and not node.domain and node.attributes["axis"].as_int() in COLUMNS:
            changed |= _join(model, node)
    if changed:  # removes the single columns, which a proof would rely on if they stayed
        RemoveUnusedNodesPass()(model)
    return changed


def _join(model: ir.Model, concat: ir.Node) -> bool:
    columns = [None if value is None else _column(value) for value in concat.inputs]
    parts: list[ir.Value | None] = []
    nodes: list[ir.Node] = []
    for key, run in itertools.groupby(range(len(columns)), lambda place: _key(columns[place])):
        places = list(run)
        if key is None or len(places) < FEWEST:
            parts += [concat.inputs[place] for place in places]
            continue
        made = _made([column for place in places if (column := columns[place]) is not None], model.opset_imports[""])
        nodes += made
        parts.append(made[-1].outputs[0])
    if nodes:
        joined = ir.Node("", "Concat", parts, concat.attributes.values(), num_outputs=1, name=concat.name)
        ir.convenience.replace_nodes_and_values(
            model.graph, concat, [concat], [*nodes, joined], concat.outputs, joined.outputs
        )
    return bool(nodes)


def _key(column: _Column | None) -> tuple[str, ir.Value, int] | None:
    return None if column is None else (column.operator, column.table, len(column.places))


def _column(value: ir.Value) -> _Column | None:
    """Returns the source of a value that is a reduction of a table's columns, or None for other values."""
    reduction = value.producer()
    if reduction is None or reduction.domain or reduction.op_type not in REDUCING:
        return None
    axes = reduction.attributes.get_ints("axes", ()) if len(reduction.inputs) == 1 else _numbers(reduction.inputs[1])
    if axes is None or len(axes) != 1 or axes[0] not in COLUMNS or not reduction.attributes.get_int("keepdims", 1):
        return None
    picked = reduction.inputs[0].producer() if reduction.inputs[0] is not None else None
    if picked is None or (picked.op_type, picked.domain) not in PICKING:
        return None
    table, places = picked.inputs[0], _numbers(picked.inputs[1])
    if table is None or table.shape is None or len(table.shape) != 2 or not places:
        return None
    if picked.op_type == "Gather" and picked.attributes.get_int("axis", 0) not in COLUMNS:
        return None
    return _Column(reduction.op_type, table, tuple(places))


def _numbers(value: ir.Value | None) -> list[int] | None:
    """The numbers of a constant vector."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return [int(number) for number in tensor.numpy()] if tensor is not None and len(tensor.shape) == 1 else None


def _made(columns: Sequence[_Column], opset: int) -> list[ir.Node]:
    """Returns nodes, the last of which returns all columns side by side."""
    operator, table, (*first,) = columns[0]
    nodes: list[ir.Node] = []

    def add(op_type: str, inputs: Sequence[ir.Value], **attributes: int | list[int] | ir.TensorProtocol) -> ir.Value:
        nodes.append(ir.node(op_type, inputs, attributes))
        return nodes[-1].outputs[0]

    def constant(numbers: list[int]) -> ir.Value:
        return add("Constant", [], value=ir.tensor(numbers, dtype=ir.DataType.INT64))

    places = constant([place for column in columns for place in column.places])
    groups = add("Reshape", [add("Gather", [table, places], axis=1), constant([0, len(columns), len(first)])])
    if opset >= _AXES_AS_INPUT.get(operator, 18):
        add(operator, [groups, constant([2])], keepdims=0)
    else:
        add(operator, [groups], axes=[2], keepdims=0)
    return nodes
