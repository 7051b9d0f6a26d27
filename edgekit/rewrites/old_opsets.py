"""Raises models from operator sets 1 to 8, as files from before 2019 have them, to operator set 9.

ONNX's own converter lacks many of these steps, and ONNX Runtime has no kernels for most operators of sets below 7. Each
step below is the difference between two versions of an operator in ONNX's changelog (``docs/Changelog.md``). Operators
that are not named here are the same in operator set 9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from edgekit.graph.building import NodeBuilder
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, name_nodes, node_name
from edgekit.rewrite import InapplicableError

RAISED_TO = 9

_BROADCASTING_SINCE_7 = {"Add", "And", "Div", "Equal", "Greater", "Less", "Mul", "Or", "Pow", "Sub", "Xor"}
"""Operators of two inputs that took a ``broadcast`` and an ``axis`` before they broadcast as NumPy does."""
_OBSOLETE = {"broadcast", "consumed_inputs", "is_test", "output_sequence"}
"""Attributes that later versions dropped, and that mean nothing once a step below has looked at them."""


def raised(model: Model) -> Model:
    """The model in operator set 9; the given one is not changed.

    Raises:
        InapplicableError: A node has no form in operator set 9.
    """
    copy = infer_shapes(model.with_graph(model.graph_model.clone()), strict=False)
    name_nodes(copy.graph_model)
    opset = copy.opset
    ranks = _Ranks(copy)
    for node in list(copy.graph.all_nodes()):
        step = _STEPS.get(node.op_type) if node.domain == "" else None
        if step is None and node.op_type in _BROADCASTING_SINCE_7 and node.domain == "" and opset < 7:
            step = _broadcast
        if step is not None:
            build = NodeBuilder(RAISED_TO, f"{node_name(node)}/raised")
            _put_in_place(node, step(node, build, ranks), build, copy)
        if node.graph is not None and node.domain == "":
            for name in _OBSOLETE & set(node.attributes):
                del node.attributes[name]
    RemoveUnusedNodesPass()(copy.graph_model)
    copy.graph_model.opset_imports[""] = RAISED_TO
    for graph in copy.graph_model.graphs():
        if "" in graph.opset_imports:
            graph.opset_imports[""] = RAISED_TO
    copy.graph_model.ir_version = max(copy.graph_model.ir_version, 4)
    name_nodes(copy.graph_model)
    return infer_shapes(copy, strict=False)


class _Ranks:
    """Finds how many axes values have, by shape inference or by the nodes that made them."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def of(self, value: ir.Value | None) -> int:
        """The number of axes.

        Raises:
            InapplicableError: The number of axes is not known.
        """
        seen = value
        while seen is not None:
            if seen.shape is not None:
                return seen.shape.rank()
            if seen.const_value is not None:
                return seen.const_value.shape.rank()
            maker = seen.producer()
            seen = maker.inputs[0] if maker is not None and maker.op_type in _KEEP_RANKS else None
        raise InapplicableError(f"the rank of {value.name if value is not None else 'an input'!r} is not known")


_KEEP_RANKS = {"Add", "BatchNormalization", "Conv", "Div", "Dropout", "MaxPool", "Mul", "PRelu", "Relu", "Sub", "Tanh"}

Step = Callable[[ir.Node, NodeBuilder, _Ranks], Sequence[ir.Value] | None]
"""Changes a node in place and returns None, or returns the values that replace the node's outputs."""


def _put_in_place(node: ir.Node, outputs: Sequence[ir.Value] | None, build: NodeBuilder, model: Model) -> None:
    graph = node.graph
    assert isinstance(graph, ir.Graph)
    for value in build.initializers:
        model.graph.register_initializer(value)
    if outputs is None:
        graph.insert_before(node, build.nodes)
        return
    own = [value if value.producer() in build.nodes else build("Identity", value) for value in outputs]
    kept = node.outputs[: len(own)]
    if any(value.uses() or value.is_graph_output() for value in node.outputs[len(own) :]):
        raise InapplicableError(f"node {node_name(node)!r} ({node.op_type}): its further outputs are used")
    ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, kept, own)


def _broadcast(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    """Gives the second input the axes behind those that it is meant for."""
    if not node.attributes.get_int("broadcast", 0) or "axis" not in node.attributes:
        node.attributes.pop("axis", None)
        return
    first, second = ranks.of(node.inputs[0]), ranks.of(node.inputs[1])
    axis = node.attributes.get_int("axis")
    missing = first - axis % first - second
    del node.attributes["axis"]
    if missing > 0 and second:
        node.replace_input_with(1, build.unsqueeze(node.inputs[1], list(range(second, second + missing))))


def _prelu(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    """Gives a slope for each channel the axes behind the channels."""
    slope = node.inputs[1]
    rank = ranks.of(node.inputs[0])
    if slope is not None and slope.shape is not None and slope.shape.rank() == 1 and slope.shape[0] != 1 and rank > 2:
        node.replace_input_with(1, build.unsqueeze(slope, list(range(1, rank - 1))))


def _batch_normalization(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value] | None:
    """As in inference; statistics of each activation (``spatial`` 0) are written out."""
    if node.attributes.get_int("spatial", 1):
        node.attributes.pop("spatial", None)
        return None
    x, scale, bias, mean, variance = node.inputs
    epsilon = np.float32(node.attributes.get_float("epsilon", 1e-5))
    factor = build("Div", scale, build("Sqrt", build("Add", variance, epsilon)))
    return [build("Add", build("Mul", build("Sub", x, mean), factor), bias)]


def _dropout(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value]:
    """Nothing is dropped in inference."""
    return [build("Identity", node.inputs[0])]


def _reshape(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    if "shape" in node.attributes:
        shape = build.value(list(node.attributes.get_ints("shape")))
        del node.attributes["shape"]
        node.resize_inputs(2)
        node.replace_input_with(1, shape)


def _pad(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    if "paddings" in node.attributes:
        node.attributes.add(ir.AttrInt64s("pads", list(node.attributes.get_ints("paddings"))))
        del node.attributes["paddings"]


def _cast(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    to = node.attributes["to"]
    if to.type == ir.AttributeType.STRING:
        node.attributes.add(ir.AttrInt64("to", int(ir.DataType[to.as_string().upper()])))


def _concat(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    if "axis" not in node.attributes:
        node.attributes.add(ir.AttrInt64("axis", 1))


def _selu(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    """The defaults of the first version have fewer digits."""
    if "consumed_inputs" in node.attributes:
        for name, default in (("alpha", 1.6732), ("gamma", 1.0507)):
            if name not in node.attributes:
                node.attributes.add(ir.AttrFloat32(name, default))


def _split(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        sizes = ir.convenience.get_const_tensor(node.inputs[1])
        if sizes is None:
            raise InapplicableError(f"node {node_name(node)!r} (Split): its sizes are computed")
        node.attributes.add(ir.AttrInt64s("split", [int(size) for size in sizes.numpy()]))
        node.resize_inputs(1)


def _tile(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value] | None:
    if len(node.inputs) < 3:
        return None
    count, axis = (ir.convenience.get_const_tensor(value) for value in node.inputs[1:3] if value is not None)
    if count is None or axis is None:
        raise InapplicableError(f"node {node_name(node)!r} (Tile): how often and along which axis is computed")
    repeats = [1] * ranks.of(node.inputs[0])
    repeats[int(axis.numpy().item())] = int(count.numpy().item())
    return [build("Tile", node.inputs[0], repeats)]


def _upsample(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value] | None:
    """The scales become an input."""
    attributes = node.attributes
    if "scales" in attributes:
        scales = list(attributes.get_floats("scales"))
    elif "height_scale" in attributes:
        scales = [1.0, 1.0, attributes.get_float("height_scale"), attributes.get_float("width_scale")]
    else:
        return None
    mode = attributes.get_string("mode", "nearest").lower()
    mode = {"bilinear": "linear"}.get(mode, mode)
    return [build("Upsample", node.inputs[0], np.asarray(scales, np.float32), mode=mode)]


def _affine(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value]:
    scaled = build("Mul", node.inputs[0], np.float32(node.attributes.get_float("alpha", 1.0)))
    return [build("Add", scaled, np.float32(node.attributes.get_float("beta", 0.0)))]


def _image_scaler(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value]:
    bias = np.asarray(node.attributes.get_floats("bias", (0.0,)), np.float32).reshape(-1, 1, 1)
    return [build("Add", build("Mul", node.inputs[0], np.float32(node.attributes.get_float("scale", 1.0))), bias)]


def _crop(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value]:
    left, top, right, bottom = node.attributes.get_ints("border")
    scale = node.attributes.get_ints("scale", ())
    if scale:
        return [build.slice(node.inputs[0], [top, left], [top + scale[0], left + scale[1]], [2, 3])]
    far = np.iinfo(np.int64).max
    return [build.slice(node.inputs[0], [top, left], [-bottom or far, -right or far], [2, 3])]


def _scaled_tanh(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value]:
    alpha, beta = (np.float32(node.attributes.get_float(name, 1.0)) for name in ("alpha", "beta"))
    return [build("Mul", build("Tanh", build("Mul", node.inputs[0], beta)), alpha)]


def _parametric_softplus(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> Sequence[ir.Value]:
    alpha, beta = (np.float32(node.attributes.get_float(name, 1.0)) for name in ("alpha", "beta"))
    return [build("Mul", build("Softplus", build("Mul", node.inputs[0], beta)), alpha)]


def _pooled_by_norm(node: ir.Node, build: NodeBuilder, ranks: _Ranks) -> None:
    if "p" in node.attributes and node.attributes["p"].type == ir.AttributeType.FLOAT:
        node.attributes.add(ir.AttrInt64("p", int(node.attributes.get_float("p"))))


_STEPS: Mapping[str, Step] = {
    "Affine": _affine,
    "BatchNormalization": _batch_normalization,
    "Cast": _cast,
    "Concat": _concat,
    "Crop": _crop,
    "Dropout": _dropout,
    "GlobalLpPool": _pooled_by_norm,
    "ImageScaler": _image_scaler,
    "LpPool": _pooled_by_norm,
    "PRelu": _prelu,
    "Pad": _pad,
    "ParametricSoftplus": _parametric_softplus,
    "Reshape": _reshape,
    "ScaledTanh": _scaled_tanh,
    "Selu": _selu,
    "Split": _split,
    "Tile": _tile,
    "Upsample": _upsample,
}
