"""Leaves out of a file what its readers can infer: the types and shapes of inner values."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.graph.sizes.shapes import ContradictionError, infer_shapes
from edgekit.model import Model


def without_inferable_value_info(model: Model) -> Model:
    """Returns the model without types and shapes that constants have themselves, or that ONNX's inference finds again.

    They are up to an eighth of a small file. Types and shapes of inputs and outputs stay, also in branches and loops,
    and so do those of values for which inference finds nothing, or something else. The given model is not changed. The
    result is only for writing: passes expect constants to have a type.
    """
    bare = model.graph_model.clone()
    for graph in bare.graphs():
        for value in _inner(graph).values():
            _empty(value)
    try:
        inferred = infer_shapes(model.with_graph(bare), strict=False, with_microsoft=False).graph_model
    except ContradictionError:
        return model
    graphs = zip(model.graph_model.graphs(), bare.graphs(), inferred.graphs(), strict=True)
    for stated, left, found in (map(_inner, each) for each in graphs):
        for name, value in stated.items():
            if (found[name].shape, found[name].type) != (value.shape, value.type):
                left[name].shape, left[name].type = value.shape, value.type
    for graph in bare.graphs():
        for constant in graph.initializers.values():
            if not constant.is_graph_input() and not constant.is_graph_output():
                _empty(constant)
    return model.with_graph(bare)


def _empty(value: ir.Value) -> None:
    """Clears type, shape and metadata of a value, because metadata alone would write an entry without a type."""
    value.shape = value.type = None
    value.metadata_props.clear()


def _inner(graph: ir.Graph) -> dict[str, ir.Value]:
    """Returns the values that the graph's own nodes make and that are not its outputs, by name."""
    values = (value for node in graph for value in node.outputs)
    return {value.name: value for value in values if value.name and not value.is_graph_output()}
