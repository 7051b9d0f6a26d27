"""Nodes whose outputs have another shape in OpenVINO than the ONNX standard gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import ShapeInferencePass

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name
from edgekit_openvino.misread.branches import with_branches


def misshapen_nodes(converted: Any, model: Model) -> list[OpGap]:
    """The nodes whose outputs have another shape in OpenVINO than the ONNX standard gives them, in graph order."""
    shapes: dict[str, set[tuple[int, ...]]] = {}
    for operation in with_branches(converted):
        for port in operation.outputs():
            for name in port.names if port.get_partial_shape().is_static else ():
                shapes.setdefault(name, set()).add(tuple(port.get_shape()))
    inferred = ShapeInferencePass()(model.graph_model.clone()).model
    gaps = []
    for node, value, shape in _static_values(inferred.graph):
        found = shapes.get(value, {shape})
        if shape not in found:
            reason = f"OpenVINO makes its output {value!r} {_text(min(found))} instead of {_text(shape)}"
            gaps.append(OpGap(op_type=op_name(node), node=node_name(node), reason=reason))
    return gaps


def _static_values(graph: ir.Graph) -> Iterator[tuple[ir.Node, str, tuple[int, ...]]]:
    for node in graph.all_nodes():
        for value in node.outputs:
            if value.name and value.shape is not None and value.shape.is_static():
                yield node, value.name, tuple(int(dim) for dim in value.shape.numpy())


def _text(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) or "a scalar"
