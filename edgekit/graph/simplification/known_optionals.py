"""Optional values for which the graph shows whether they have an element."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

HAS = "OptionalHasElement"
GET = "OptionalGetElement"


class NotKnownError(Exception):
    """Raised if only a run shows whether an optional value has an element."""


def element_asked_for(node: ir.Node) -> ir.Value | None:
    """Returns the element that an ``OptionalHasElement`` or an ``OptionalGetElement`` reads.

    A tensor is an element, whether ``Optional`` wraps it or not; an omitted input is not.

    Returns:
        The element, or None if there is none.

    Raises:
        NotKnownError: Only a run shows whether there is an element.
    """
    value = node.inputs[0] if node.inputs else None
    while value is not None and _is_wrapper(value.producer()):
        wrapper = value.producer()
        assert wrapper is not None
        value = wrapper.inputs[0] if wrapper.inputs else None
    if value is not None and not isinstance(value.type, ir.TensorType | ir.SequenceType):
        raise NotKnownError("whether its input has an element shows at run time")
    return value


def _is_wrapper(node: ir.Node | None) -> bool:
    return node is not None and node.domain == "" and node.op_type == "Optional"


def unwrap_known_optionals(model: ir.Model) -> bool:
    """Replaces nodes with a known answer by a constant or the element, in place; returns whether there were any."""
    changed = False
    for node in list(model.graph.all_nodes()):
        if node.domain or node.op_type not in (HAS, GET):
            continue
        try:
            element = element_asked_for(node)
        except NotKnownError:
            continue
        if node.op_type == HAS:
            name = f"{node.outputs[0].name}/known"
            known = ir.node("Constant", [], {"value": ir.tensor(np.array(element is not None))}, name=name)
            known.outputs[0].name = name
        elif element is None:  # in a branch that is not taken
            continue
        else:
            known = ir.node("Identity", [element], name=f"{node.outputs[0].name}/element")
            known.outputs[0].name = known.name
        known.outputs[0].type, known.outputs[0].shape = node.outputs[0].type, node.outputs[0].shape
        graph = node.graph
        assert isinstance(graph, ir.Graph), "functions are inlined before"
        ir.convenience.replace_nodes_and_values(graph, node, [node], [known], node.outputs, known.outputs)
        changed = True
    return changed
