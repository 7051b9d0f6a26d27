"""Finds nodes that onnxruntime-web's WebGPU provider computes wrong, and rewrites a model without them.

They were found with onnxruntime-web 1.30.0 by comparison with the CPU provider; tests verify each entry. The
convolution's error is https://github.com/microsoft/onnxruntime/issues/29651.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant, constant_input, input_at
from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.operators.departures import Departure, departing_nodes
from edgekit.target import Evidence, NodeVerdict, Support

PROVIDER = "webgpu"
RUNTIME = "onnxruntime-web's build with WebGPU"
WIDTH = 4
"""How many channels a GPU program reads at a time; with a multiple of WIDTH channels, the result is right."""
NARROW = 3
"""How many channels it reads at a time if their number is a multiple of NARROW and not of :data:`WIDTH`: beyond the
first NARROW, it reads wrong ones."""
CHANNELS_LAST = (0, 2, 3, 1)
CHANNELS_FIRST = (0, 3, 1, 2)
TYPES_WITHOUT_KERNELS = frozenset({ir.DataType.DOUBLE, ir.DataType.INT16, ir.DataType.UINT16})
OPERATORS_WITHOUT_KERNELS = (
    *("Abs", "Add", "ArgMax", "Cast", "Equal", "Expand", "Greater", "MatMul", "Mul", "ReduceMax", "ReduceSum", "Round"),
    *("Sin", "Slice", "Split", "TopK", "Where"),
)
"""Operators for which the build with WebGPU has no kernel for :data:`TYPES_WITHOUT_KERNELS`, not even on the CPU; the
other build has one."""
STOPS_HINT = "`--target web` runs it in the browser, by WebAssembly"


def with_stops(verdicts: Sequence[NodeVerdict], model: Model) -> list[NodeVerdict]:
    """The verdicts, changed to unsupported for nodes at which a session of the provider stops."""
    stops = {gap.node: gap.reason for gap in departing_nodes(infer_shapes(model, strict=False), STOPS, RUNTIME)}
    return [
        replace(verdict, support=Support.UNSUPPORTED, evidence=Evidence.TABLE, unit="", detail=reason, hint=STOPS_HINT)
        if (reason := stops.get(verdict.node))
        else verdict
        for verdict in verdicts
    ]


def computed_right(model: Model) -> Model:
    """The model with nodes that the provider would compute wrong rewritten; the model itself if there are none.

    Args:
        model: The model; it is not changed.
    """
    if not any(_misreads_channels(node) or _is_channels_last(node) for node in model.graph.all_nodes()):
        return model
    graph_model = model.graph_model.clone()
    for node in list(graph_model.graph.all_nodes()):
        build = NodeBuilder(model.opset, f"{node.name or node.outputs[0].name}/webgpu")
        if _misreads_channels(node):
            _fill_channels(node, build)
        elif _is_channels_last(node):
            _put_channels_first(node, build)
    drop_unused_initializers(graph_model.graph)
    return model.with_graph(graph_model)


def _misreads_channels(node: ir.Node) -> bool:
    """Whether the node is a convolution whose channels the provider misreads.

    It reads a multiple of :data:`NARROW` channels that is none of :data:`WIDTH`, and more than NARROW; it writes a
    multiple of WIDTH; and it is no plain matrix product.
    """
    if node.domain or node.op_type != "Conv" or node.attributes.get_int("group", 1) != 1:
        return False
    sizes = _sizes(input_at(node, 1))
    if sizes is None:
        return False
    written, read, *kernel = sizes
    strides, pads = (node.attributes.get_ints(name, ()) for name in ("strides", "pads"))
    is_product = all(size == 1 for size in (*kernel, *strides)) and not any(pads)
    return not is_product and written % WIDTH == 0 and read % NARROW == 0 and read % WIDTH != 0 and read > NARROW


def _fill_channels(node: ir.Node, build: NodeBuilder) -> None:
    """Pads the input's channels with zeros, and the weights with zeros, up to a multiple of :data:`WIDTH`."""
    picture, weights = node.inputs[0], node.inputs[1]
    sizes = _sizes(weights)
    assert sizes is not None, "they were known before"
    missing = -sizes[1] % WIDTH
    pads = [0] * len(sizes) + [0, missing] + [0] * (len(sizes) - 2)
    array = constant(weights)
    if array is None:
        filled = build.pad(weights, pads)
    else:
        filled = build.constant(np.pad(array, [(0, missing if axis == 1 else 0) for axis in range(array.ndim)]))
    node.replace_input_with(0, build.pad(picture, pads))
    node.replace_input_with(1, filled)
    _insert_before(node, build)


def _is_channels_last(node: ir.Node) -> bool:
    """Whether the node resizes a batch of pictures with channels as the last dimension by linear interpolation."""
    if node.domain or node.op_type != "Resize" or node.attributes.get_string("mode", "nearest") != "linear":
        return False
    scales = constant_input(node, 2)
    if scales is None or scales.shape != (len(CHANNELS_LAST),) or "axes" in node.attributes:
        return False
    is_cut_out = node.attributes.get_string("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize"
    return bool(scales[0] == scales[-1] == 1) and not math.isclose(scales[1], 1) and not is_cut_out


def _put_channels_first(node: ir.Node, build: NodeBuilder) -> None:
    scales = constant_input(node, 2)
    assert scales is not None, "they were known before"
    result = node.outputs[0]
    node.replace_input_with(0, build("Transpose", node.inputs[0], perm=CHANNELS_FIRST))
    node.replace_input_with(2, build.constant(scales[list(CHANNELS_FIRST)]))
    _insert_before(node, build)
    back = NodeBuilder(build.opset, f"{result.name}/channels_last")
    turned = back("Transpose", result, perm=CHANNELS_LAST)
    ir.convenience.replace_all_uses_with(result, turned, replace_graph_outputs=True)
    back.nodes[0].replace_input_with(0, result)
    turned.name, result.name = result.name, f"{result.name}/channels_first"
    turned.type, turned.shape, result.shape = result.type, result.shape, None
    assert isinstance(node.graph, ir.Graph), "a node of a model is in a graph"
    node.graph.insert_after(node, back.nodes)


def _insert_before(node: ir.Node, build: NodeBuilder) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph), "a node of a model is in a graph"
    graph.insert_before(node, build.nodes)
    for value in build.initializers:
        graph.register_initializer(value)


def _sizes(value: ir.Value | None) -> tuple[int, ...] | None:
    """The sizes of a tensor's dimensions; None if one of them is not known."""
    return value.shape.numpy() if value is not None and value.shape is not None and value.shape.is_static() else None


def _gives_places(node: ir.Node, _: int) -> bool:
    return len(node.outputs) > 1 and bool(node.outputs[1].uses() or node.outputs[1].is_graph_output())


def _is_antialiased(node: ir.Node, _: int) -> bool:
    return node.attributes.get_int("antialias", 0) == 1


def _has_no_kernel(node: ir.Node, _: int) -> bool:
    return any(value is not None and value.dtype in TYPES_WITHOUT_KERNELS for value in (*node.inputs, *node.outputs))


STOPS = (
    Departure(("MaxPool",), _gives_places, "gives no Indices"),
    Departure(("Resize",), _is_antialiased, "has no antialias"),
    Departure(OPERATORS_WITHOUT_KERNELS, _has_no_kernel, "has no kernel for float64, int16 and uint16"),
)
