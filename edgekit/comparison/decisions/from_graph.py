"""Finds the outputs that hold classes according to the graph, and the axis of the classes.

A Softmax (also one that is written out), an ArgMax or a Sigmoid shows classes, and so does an axis as long as the list
of the classes' names: a tagger's logits for each token are classes as a Softmax's are. A vector may be scores or a
regression, and is judged by its values (:mod:`edgekit.comparison.decisions.shared`). A table of several rows holds
scores if each row is a product with a matrix, as in language models; the rows of a convolution are places of a grid
with any numbers. An output that a further product reads holds features, of which another output is made. An output with
the shape of an input is a signal or a state, as the input is: in a heartbeat that was restored, the largest number is
the place of a peak. Other channels of a convolution for pictures or volumes may be logits of classes without names.

Networks for pictures have their classes along the second axis (batch, classes, height, width), where the largest entry
of the last axis would be a column of the picture.
"""

from __future__ import annotations

import onnx_ir as ir

from edgekit.comparison.decisions.shared import LARGEST_RANK_WITH_CLASSES, DecidedBy, Decision
from edgekit.comparison.decisions.yes_or_no import yes_or_no_outputs
from edgekit.comparison.followed_axes import BY_ELEMENT, FORMS, SIZES, axis_behind, channel_axis, is_computed
from edgekit.features.written_softmax import written_softmax
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

_SOFTMAX = {"LogSoftmax", "Softmax"}
_INDEPENDENT = {"HardSigmoid", "Sigmoid"}
_PRODUCTS = ("Einsum", "Gemm", "MatMul")
"""What the names of matrix products contain, also of fused and quantized ones."""
_CONVOLUTIONS = ("Conv", "QLinearConv")
_ML_DOMAIN = "ai.onnx.ml"
_ALONG_ONE_AXIS = 13
"""The operator set from which on Softmax works along one axis; before, it works along that axis and all behind it."""


def decisions_of(model: Model) -> dict[str, Decision | None]:
    """Returns what counts as a decision in the outputs for which the graph or the names of the classes show it.

    The decisions are by output name; None marks outputs without any.
    """
    graph = model.graph
    answers = yes_or_no_outputs(model)
    if any(value.shape is None or len(value.shape) > 2 or _maker(value)[1] for value in graph.outputs):
        graph = infer_shapes(model, strict=False).graph
    found = {value.name: _decision(value, graph, len(model.class_names)) for value in graph.outputs if value.name}
    signals = set(filter(None, map(_form, graph.inputs)))
    rows = {
        value.name: None
        for value in graph.outputs
        if value.name
        and found[value.name] is None
        and (_form(value) in signals or _is_multiplied_on(value) or (_has_rows(value) and not _is_linear(value)))
    }
    decided = {name: each for name, each in found.items() if each is not None}
    maps = {name for name, each in decided.items() if each.is_map}
    undecided = [value for value in graph.outputs if value.name and value.name not in decided.keys() | rows.keys()]
    places = {str(value.name): Decision(one_each=True) for value in undecided if _is_one_each(value)}
    channels = {
        str(value.name): each
        for value in graph.outputs
        if value.name in rows and _form(value) not in signals and (each := _channels(value)) is not None
    }
    return {**decided, **rows, **channels, **places, **dict.fromkeys(answers - maps, Decision(DecidedBy.CROSSING))}


def _form(value: ir.Value) -> tuple[str, ...] | None:
    """Returns the shape of floats of rank 2 or more, to compare; None for others, single numbers and unknown sizes."""
    shape = value.shape
    if shape is None or value.dtype is None or not value.dtype.is_floating_point() or all(size == 1 for size in shape):
        return None
    sizes = tuple(map(str, shape))
    return None if "None" in sizes or len(sizes) < 2 else sizes


def _has_rows(output: ir.Value) -> bool:
    """Whether an output holds several vectors for each sample."""
    shape = output.shape
    return shape is not None and len(shape) > 2 and any(size != 1 for size in list(shape)[1:-1])


def _is_linear(output: ir.Value) -> bool:
    """Whether each row of an output is a product with a matrix, perhaps scaled and bounded."""
    width = None if output.shape is None else output.shape[-1]
    value: ir.Value | None = output
    while value is not None and (node := value.producer()) is not None:
        if any(product in node.op_type for product in _PRODUCTS):
            made = node.outputs[0].shape
            return made is None or made[-1] == width
        if node.op_type not in FORMS | BY_ELEMENT:
            return False
        value = next(filter(is_computed, node.inputs), None)
    return False


def _is_multiplied_on(output: ir.Value) -> bool:
    """Whether a product or a convolution reads an output: it holds features that a further output is made of."""
    return any(
        node.op_type in _CONVOLUTIONS or any(product in node.op_type for product in _PRODUCTS)
        for node, _ in output.uses()
    )


def _channels(output: ir.Value) -> Decision | None:
    """Returns the decision in the channels of a convolution for pictures or volumes, or None for other outputs."""
    axis = None if _is_multiplied_on(output) else channel_axis(output)
    if axis is None or output.shape is None or len(output.shape) <= LARGEST_RANK_WITH_CLASSES:
        return None
    return Decision(axis=axis, are_channels=True)


def _is_one_each(output: ir.Value) -> bool:
    """Whether an output is a product with a matrix of one column, without the axis of size 1."""
    node, _ = _maker(output)
    made = None if node is None else node.outputs[0].shape
    if output.shape is None or made is None or len(made) <= len(output.shape) or made[-1] != 1:
        return False
    return _is_linear(node.outputs[0]) if node is not None else False


def _decision(output: ir.Value, graph: ir.Graph, classes: int) -> Decision | None:
    node, way = _maker(output)
    if node is not None and not node.domain and node.op_type == "ArgMax":
        return Decision(DecidedBy.NUMBER, is_known=True)
    written = None if node is None else written_softmax(node)
    if node is not None and not node.domain and (node.op_type in _SOFTMAX or written is not None):
        axis = _axis_behind(node, way, graph) if written is None else _axis_of_written(node, written.axis, way)
        return Decision(are_scores=True) if axis is None else Decision(axis=axis, is_known=True, are_scores=True)
    if node is not None and node.domain == _ML_DOMAIN:
        return Decision(are_scores=True)
    shape, channels = output.shape, channel_axis(output)
    axis = -1 if channels is None or shape is None or channels == len(shape) - 1 else channels
    named = shape is not None and len(shape) > 0 and classes > 1 and shape[axis] == classes
    if node is not None and not node.domain and node.op_type in _INDEPENDENT:
        is_map = channels is not None and shape is not None and len(shape) > LARGEST_RANK_WITH_CLASSES
        return Decision(axis=axis, are_scores=True, independent=True, named=named, is_map=is_map)
    return Decision(axis=axis, is_known=_has_rows(output), are_scores=True) if named else None


def _maker(output: ir.Value) -> tuple[ir.Node | None, list[ir.Node]]:
    """Returns the node that made an output's numbers, and the nodes behind it that pass them on, the last one first."""
    way: list[ir.Node] = []
    node = output.producer()
    while node is not None and node.op_type in FORMS | SIZES and not node.domain and node.inputs[0] is not None:
        way.append(node)
        node = node.inputs[0].producer()
    return node, way


def _axis_of_written(node: ir.Node, axis: int, way: list[ir.Node]) -> int | None:
    """Returns the output's axis of the classes of a Softmax that is written out along ``axis``; None if unknown."""
    shape = node.outputs[0].shape
    return None if shape is None else axis_behind(node.outputs[0], axis % len(shape), way)


def _axis_behind(node: ir.Node, way: list[ir.Node], graph: ir.Graph) -> int | None:
    """Returns the output's axis of the classes of a Softmax, or None if that is unknown."""
    shape = node.outputs[0].shape
    if shape is None:
        return None
    old = graph.opset_imports.get("", _ALONG_ONE_AXIS) < _ALONG_ONE_AXIS
    given = node.attributes.get("axis")
    axis = given.as_int() if given is not None else 1 if old else -1
    axis %= len(shape)
    if old and axis != len(shape) - 1:
        return None
    return axis_behind(node.outputs[0], axis, way)
