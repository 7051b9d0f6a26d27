"""Nodes that draw random numbers become inputs: the app draws the numbers, and all runtimes compute the same.

A draw from classes uses the Gumbel-max method: if an independent Gumbel-distributed number is added to each logit, the
greatest sum belongs to a class with the probability that the softmax of the logits gives it (E. J. Gumbel, "Statistical
Theory of Extreme Values and Some Practical Applications", 1954).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import onnx_ir as ir

from edgekit.features.draws import Draw
from edgekit.graph.building import NodeBuilder
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model, node_name, value_spec

NAME = "random_numbers"
"""The name of an input of random numbers; from the second one on, a number is appended."""

_FLOATS = {ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE}
_AS_LARGE_AS_INPUT = {"RandomNormalLike", "RandomUniformLike"}


def draws_numbers(model: Model) -> bool:
    """Whether a node of the main graph draws numbers that an input could take."""
    return any(not node.domain and node.op_type in _OUTSIDE for node in model.graph)


def with_random_inputs(model: Model, shaped: Model | None = None) -> tuple[Model, Mapping[str, str]]:
    """Returns the model with an input for each node that draws numbers, if the shape follows from the model's inputs.

    Nodes in the bodies of loops and branches are not changed, and neither is a dropout in training mode.

    Args:
        model: The model, which is not changed.
        shaped: A form of the model with more known shapes; None for the model itself.

    Returns:
        The model, and for each new input's name, the node that drew its numbers. ``model.drawn`` has the distributions.
    """
    copy = model.graph_model.clone()
    graph = copy.graph
    known = {dim for spec in model.inputs for dim in spec.shape or () if isinstance(dim, str)}
    shapes = {} if shaped is None else {value.name: value.shape for node in shaped.graph for value in node.outputs}
    drawn: dict[str, Draw] = {}
    drawers: dict[str, str] = {}
    for node in list(graph):
        outside = None if node.domain else _OUTSIDE.get(node.op_type)
        if outside is None or (not node.outputs[0].uses() and not node.outputs[0].is_graph_output()):
            continue
        for value in (*node.inputs, *node.outputs):
            if value is not None and value.name in shapes:
                value.shape = shapes[value.name]
        build = NodeBuilder(model.opset, node_name(node))
        taken = ir.Value(name=_free_name(graph))
        found = outside(node, taken, build)
        if found is None or not _is_known(taken, known):
            continue
        result, draw = found
        graph.inputs.append(taken)
        for value in build.initializers:
            graph.register_initializer(value)
        drawers[str(taken.name)] = node_name(node)
        drawn[str(taken.name)] = draw
        ir.convenience.replace_nodes_and_values(graph, node, [node], build.nodes, [node.outputs[0]], [result])
    if not drawn:
        return model, {}
    changed = replace(model.with_graph(copy), drawn={**model.drawn, **drawn})
    return infer_shapes(changed, strict=False), drawers


_Outside = Callable[[ir.Node, ir.Value, NodeBuilder], tuple[ir.Value, Draw] | None]
"""Sets the input's type and shape, and returns the value that replaces the node, or None if they are unknown."""


def _plain(node: ir.Node, taken: ir.Value, build: NodeBuilder) -> tuple[ir.Value, Draw] | None:
    """The input replaces the numbers that the node drew."""
    output = node.outputs[0]
    taken.type, taken.shape = output.type, output.shape
    if node.op_type in _AS_LARGE_AS_INPUT and node.inputs[0] is not None:
        taken.shape = taken.shape if taken.shape is not None else node.inputs[0].shape
        taken.type = taken.type if taken.type is not None else node.inputs[0].type
    if "Normal" in node.op_type:
        draw = Draw("normal", node.attributes.get_float("mean", 0.0), node.attributes.get_float("scale", 1.0))
    else:
        draw = Draw("uniform", node.attributes.get_float("low", 0.0), node.attributes.get_float("high", 1.0))
    return build("Identity", taken), draw


def _bernoulli(node: ir.Node, taken: ir.Value, build: NodeBuilder) -> tuple[ir.Value, Draw] | None:
    """1 where a uniform number is below the probability, else 0."""
    probability = node.inputs[0]
    if probability is None or probability.dtype is None:
        return None
    taken.type, taken.shape = probability.type, probability.shape
    dtype = ir.DataType(node.attributes.get_int("dtype", int(probability.dtype)))
    return build.cast(build("Less", taken, probability), dtype), Draw("uniform", 0.0, 1.0)


def _multinomial(node: ir.Node, taken: ir.Value, build: NodeBuilder) -> tuple[ir.Value, Draw] | None:
    """The class with the greatest sum of logit and Gumbel-distributed number, for each of the draws."""
    logits = node.inputs[0]
    if logits is None or logits.dtype is None or logits.shape is None:
        return None
    count = node.attributes.get_int("sample_size", 1)
    batch, classes = logits.shape
    taken.type, taken.shape = logits.type, ir.Shape([batch, count, classes])
    dtype = ir.DataType(node.attributes.get_int("dtype", int(ir.DataType.INT32)))
    chosen = build.places_of_greatest(build("Add", build.unsqueeze(logits, [1]), taken), axis=2)
    return build.cast(chosen, dtype), Draw("gumbel", 0.0, 1.0)


_OUTSIDE: Mapping[str, _Outside] = {
    "Bernoulli": _bernoulli,
    "Multinomial": _multinomial,
    "RandomNormal": _plain,
    "RandomNormalLike": _plain,
    "RandomUniform": _plain,
    "RandomUniformLike": _plain,
}


def _is_known(value: ir.Value, dimensions: set[str]) -> bool:
    """Whether an input can have the value's type and shape: floating-point, with sizes that other inputs determine."""
    shape = value_spec(value).shape
    return (
        value.dtype in _FLOATS
        and shape is not None
        and all(isinstance(dim, int) or (dim is not None and dim in dimensions) for dim in shape)
    )


def _free_name(graph: ir.Graph) -> str:
    """Returns :data:`NAME`, with a number if needed, so that no value has the name yet."""
    used = {value.name for value in graph.inputs} | set(graph.initializers)
    used |= {value.name for node in graph.all_nodes() for value in node.outputs}
    names = (NAME if number == 1 else f"{NAME}_{number}" for number in range(1, len(used) + 2))
    return next(name for name in names if name not in used)
