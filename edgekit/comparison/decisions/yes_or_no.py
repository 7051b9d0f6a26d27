"""Outputs that answer a question with yes or no at every position: whether a word begins here, whether somebody speaks.

A Sigmoid makes one probability a position, and whoever uses it asks whether it is more than a half. Along the last
axis of such an output lies the sequence, where a squeeze has taken the axis of size 1 away, so that its largest entry
decides nothing. Several probabilities a position are none of these: they may be classes, of which the largest counts,
or a mask.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

_FORMS = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that hand on all numbers of their first input, in another form."""


def yes_or_no_outputs(model: Model) -> frozenset[str]:
    """The outputs that a Sigmoid makes of one number a position, as far as the graph tells."""
    if not any(_sigmoid_behind(value) for value in model.graph.outputs):
        return frozenset()
    graph = infer_shapes(model, strict=False).graph
    return frozenset(value.name for value in graph.outputs if value.name and _answers(value))


def _sigmoid_behind(value: ir.Value) -> ir.Node | None:
    node = list(_forms_of(value))[-1].producer()
    return node if node is not None and node.op_type == "Sigmoid" and not node.domain else None


def _answers(output: ir.Value) -> bool:
    node = _sigmoid_behind(output)
    if node is None or node.inputs[0] is None:
        return False
    forms = [*_forms_of(output), *_forms_of(node.inputs[0])]
    convolved = (made := forms[-1].producer()) is not None and made.op_type == "Conv" and _size(forms[-1], 1) == 1
    return convolved or any(_size(value, -1) == 1 for value in forms)


def _forms_of(value: ir.Value) -> Iterator[ir.Value]:
    """The value, and those behind it that hold the same numbers."""
    yield value
    node = value.producer()
    while node is not None and node.op_type in _FORMS and not node.domain and node.inputs[0] is not None:
        value = node.inputs[0]
        yield value
        node = value.producer()


def _size(value: ir.Value, axis: int) -> int | None:
    shape = value.shape
    if shape is None or len(shape) < 2:
        return None
    size = shape[axis]
    return size if isinstance(size, int) else None
