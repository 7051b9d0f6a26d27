"""Outputs that answer a question with yes or no at every position: whether a word begins here, whether somebody speaks.

A Sigmoid gives one probability for each position, and an app asks whether it is more than a half. If a Squeeze has
removed the axis of size 1, the sequence lies along the last axis of such an output, so that its largest entry is no
decision. Several probabilities for each position are not such answers: they may be classes, of which the largest
counts, or a mask.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

_FORMS = {"Cast", "Flatten", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
"""Operators that pass on all numbers of their first input in another shape, layout or type."""


def yes_or_no_outputs(model: Model) -> frozenset[str]:
    """Returns the outputs that a Sigmoid makes of one number for each position, as far as the graph shows it."""
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
    """Yields the value, and the values before it that hold the same numbers."""
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
