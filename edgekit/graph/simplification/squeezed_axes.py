"""Adds axes to a Squeeze without axes, which removes the axes of size 1 that a runtime finds at run time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from edgekit.model import Model

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes by the value's name."""
AXES_ARE_AN_INPUT = 13


def with_squeezed_axes(model: Model, measured: Callable[[Sequence[str]], Sequence[Shapes]] | None = None) -> Model:
    """Returns the model with axes at each Squeeze where known sizes determine them, or the model itself if none does.

    Args:
        model: The model.
        measured: Returns the shapes of values of the main graph by name, for each of several sizes of the open
            dimensions. They determine sizes that inference does not, if they agree on which sizes are 1.
    """
    graph_model = model.graph_model.clone()
    silent = [
        (graph, node)
        for graph in graph_model.graphs()
        for node in graph
        if node.op_type == "Squeeze" and not node.domain and "axes" not in node.attributes and not _has_axes(node)
    ]
    main = {value.name for value in graph_model.graph.inputs}
    main.update(value.name for node in graph_model.graph for value in node.outputs)
    asked = [node.inputs[0].name or "" for _, node in silent if node.inputs[0] is not None and _axes(node) is None]
    names = [name for name in asked if name in main]
    shapes = measured(names) if measured is not None and names else []
    changed = False
    for graph, node in silent:
        axes = _axes(node)
        if axes is None and node.inputs[0] is not None and node.inputs[0].name in names:
            axes = _agreed([each[node.inputs[0].name or ""] for each in shapes])
        if axes is not None:
            _write(graph, node, axes, model.opset)
            changed = True
    return model.with_graph(graph_model) if changed else model


def _has_axes(node: ir.Node) -> bool:
    return len(node.inputs) > 1 and node.inputs[1] is not None


def _axes(node: ir.Node) -> list[int] | None:
    x = node.inputs[0]
    if x is None or x.shape is None or not x.shape.is_static():
        return None
    return [axis for axis, dim in enumerate(x.shape) if dim == 1]


def _agreed(shapes: Sequence[tuple[int, ...]]) -> list[int] | None:
    """Returns the axes of size 1 if they are the same in all shapes, else None."""
    found = [[axis for axis, size in enumerate(shape) if size == 1] for shape in shapes]
    return found[0] if found and all(axes == found[0] for axes in found) else None


def _write(graph: ir.Graph, node: ir.Node, axes: list[int], opset: int) -> None:
    (x, *_), (output,) = node.inputs, node.outputs
    if not axes:
        same = ir.Node("", "Identity", [x], num_outputs=1, name=node.name)
        ir.convenience.replace_nodes_and_values(graph, node, [node], [same], [output], same.outputs)
    elif opset < AXES_ARE_AN_INPUT:
        node.attributes.add(ir.AttrInt64s("axes", axes))
    else:
        name = f"{output.name}/axes"
        constant = ir.Value(name=name, const_value=ir.Tensor(np.array(axes, np.int64), name=name))
        constant.dtype, constant.shape = ir.DataType.INT64, ir.Shape([len(axes)])
        graph.initializers[name] = constant
        squeeze = ir.Node("", "Squeeze", [x, constant], num_outputs=1, name=node.name)
        ir.convenience.replace_nodes_and_values(graph, node, [node], [squeeze], [output], squeeze.outputs)
