"""Models in float32, where the reference runtime has no kernels for their bfloat16 or double precision."""

from __future__ import annotations

from collections.abc import Collection

import onnx_ir as ir

from edgekit.execution.reference import is_executable
from edgekit.graph.reading.inlining import inline_functions
from edgekit.graph.single_precision import TYPE_ATTRIBUTES, in_single_precision
from edgekit.model import Model

_BRAIN_FLOATS = frozenset({ir.DataType.BFLOAT16})
_BOTH_HALVES = _BRAIN_FLOATS | {ir.DataType.FLOAT16}
"""tf2onnx writes conversions to bfloat16 as conversions to float16, but weights next to them in bfloat16."""
_DOUBLES = frozenset({ir.DataType.DOUBLE})
_MOST_NAMED = 4
"""Most inputs and outputs that a warning names; if there are more, it gives their number."""


def in_executable_types(model: Model) -> tuple[Model, str | None]:
    """The model in float32, if it is in bfloat16 or in double precision and does not run in that type.

    A model with inputs or outputs in bfloat16 does not run either: ONNX Runtime takes and gives arrays of NumPy, which
    has no such type.

    Frameworks train in bfloat16, and exporters write operators in it that have no kernel on a processor, or that their
    operator set does not allow. Inputs and outputs become float32, too. Every bfloat16 is also a float32, so that the
    weights keep their values. Results of nodes are not rounded to the 8 significant bits of bfloat16.

    Some exports compute the places that a deformable attention samples in double precision, for which GridSample has
    no kernel. Here inputs and outputs keep their precision.

    Returns:
        The model, and a warning. The unchanged model and None, if it has neither type, runs as it is, or does not run
        in float32 either.
    """
    tried = [
        *((_BRAIN_FLOATS, _BOTH_HALVES) if _holds(_BRAIN_FLOATS, model.graph_model) else ()),
        *((_DOUBLES,) if _holds(_DOUBLES, model.graph_model) else ()),
    ]
    if not tried:
        return model, None
    runs = is_executable(model)
    if runs and not _at_boundary(_BRAIN_FLOATS, model):
        return model, None
    graph_model = model.graph_model.clone()
    inline_functions(graph_model)
    for types in tried:
        is_double = types == _DOUBLES
        changed = model.with_graph(in_single_precision(graph_model, types, at_boundary=not is_double))
        if is_executable(changed):
            return changed, _DOUBLES_TOLD if is_double else _note(model, changed, runs=runs)
    return model, None


_DOUBLES_TOLD = (
    "the model uses double precision for operators that ONNX Runtime executes in float32 only: the whole model is "
    "converted to float32"
)


def _note(model: Model, changed: Model, *, runs: bool) -> str:
    before, after = ((*each.graph.inputs, *each.graph.outputs) for each in (model, changed))
    names = [str(new.name) for old, new in zip(before, after, strict=True) if old.dtype is not new.dtype]
    also = ""
    if names:
        named = ", ".join(map(repr, names)) if len(names) <= _MOST_NAMED else f"{len(names)} inputs and outputs"
        also = f", and so {'is' if len(names) == 1 else 'are'} {named}"
    has = "takes inputs or gives outputs" if runs else "computes"
    return (
        f"the model {has} in bfloat16, which ONNX Runtime does not execute: it is converted to float32{also}; "
        "weights keep their values, and results of nodes are not rounded to bfloat16's 8 bits"
    )


def _at_boundary(types: Collection[ir.DataType], model: Model) -> bool:
    """Whether an input or an output of the model has one of the types."""
    return any(value.dtype in types for value in (*model.graph.inputs, *model.graph.outputs))


def _holds(types: Collection[ir.DataType], graph_model: ir.Model) -> bool:
    """Whether a value, a constant or a conversion of the graph or of a function has one of the types."""
    for graph in (graph_model.graph, *(function.graph for function in graph_model.functions.values())):
        if any(value.dtype in types for value in (*graph.inputs, *graph.initializers.values())):
            return True
        for node in graph.all_nodes():
            if any(value.dtype in types for value in node.outputs):
                return True
            if any(_makes(types, attribute) for attribute in node.attributes.values()):
                return True
    return False


def _makes(types: Collection[ir.DataType], attribute: ir.Attr) -> bool:
    if attribute.is_ref():
        return False
    if attribute.type is ir.AttributeType.TENSOR:
        return attribute.value.dtype in types  # as_tensor() checks a protocol, method by method
    if attribute.type is ir.AttributeType.GRAPH:
        return any(value.dtype in types for value in attribute.as_graph().initializers.values())
    is_type = attribute.name in TYPE_ATTRIBUTES and attribute.type is ir.AttributeType.INT
    return is_type and attribute.as_int() in types
