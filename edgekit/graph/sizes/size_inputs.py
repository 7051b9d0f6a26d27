"""Inputs whose values determine the sizes of tensors in the model, such as a scale or the size of a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import onnx_ir as ir

from edgekit.graph.nodes import input_at
from edgekit.graph.traversal import reached
from edgekit.model import Dim, Model

MOST_ELEMENTS = 16
"""Inputs with more elements are data, even if they determine how many boxes are kept."""

SIZES: Mapping[str, tuple[int, ...]] = {
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "ConstantOfShape": (0,),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "OneHot": (1,),
    "Pad": (1,),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (2, 3),
    "Slice": (1, 2, 4),
    "Split": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Upsample": (1,),
}
"""For each operator, the indices of inputs that its output sizes are computed from."""

_OF_SHAPES = {"Shape", "Size"}
"""Operators whose result does not depend on the values of their input."""


def inputs_of_sizes(model: Model) -> list[str]:
    """Returns the names of small inputs from whose values sizes are computed, in the model's order."""
    seen = set(reached(_size_values(model), _made_of))
    sizes = {spec.name: spec.shape for spec in model.inputs}
    found = [str(value.name) for value in model.graph.inputs if value in seen]
    return [name for name in found if _is_small(sizes.get(name))]


def _size_values(model: Model) -> Iterator[ir.Value]:
    for node in model.graph.all_nodes():
        places = SIZES.get(node.op_type, ()) if not node.domain else ()
        for place in places:
            value = input_at(node, place)
            if value is not None:
                yield value


def _made_of(value: ir.Value) -> Iterator[ir.Value]:
    """Yields the values that a value is directly computed from."""
    node = value.producer()
    if node is None or node.op_type in _OF_SHAPES:
        return
    yield from (given for given in node.inputs if given is not None)
    for attribute in node.attributes.values():
        if attribute.type is ir.AttributeType.GRAPH:
            yield from attribute.as_graph().outputs


def _is_small(shape: Sequence[Dim] | None) -> bool:
    sizes = [size for size in shape or () if isinstance(size, int)]
    return shape is not None and len(sizes) == len(shape) and math.prod(sizes) <= MOST_ELEMENTS
