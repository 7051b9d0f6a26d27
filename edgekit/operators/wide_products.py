"""Products of 64-bit integers that leave the range of 32 bits, which is all that some devices compute in."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import constant_input
from edgekit.model import Model, node_name

LEAST_FACTOR = 1 << 16
"""Of smaller factors it takes a number beyond 32,767 to leave 32 bits: places in tensors are computed with those."""
_WIDE = (np.int64, np.uint64)
_GREATEST = int(np.iinfo(np.int32).max)
_SIZES = frozenset({"Shape", "Size"})


def wide_products(model: Model) -> list[str]:
    """A warning where the graph multiplies integers of an input by factors as hashes have them; none else.

    Samples that are small enough show nothing of it.

    Args:
        model: What a device is to compute in 32 bits.
    """
    found = [(node, factor) for node in model.graph.all_nodes() if (factor := _factor(node)) >= LEAST_FACTOR]
    if not found:
        return []
    node, factor = max(found, key=lambda pair: pair[1])
    one_of = f", one of {len(found)} such nodes," if len(found) > 1 else ""
    return [
        f"node {node_name(node)!r}{one_of} multiplies 64-bit integers by {factor}: the device computes in 32 bits, and "
        f"gives other numbers where what is multiplied is beyond {_GREATEST // factor}"
    ]


def _factor(node: ir.Node) -> int:
    """The greatest magnitude of what a node multiplies integers by that come from an input; 0 where there is none."""
    if node.domain or node.op_type not in ("Mul", "BitShift"):
        return 0
    shifts = node.op_type == "BitShift"
    if shifts and node.attributes.get_string("direction", "LEFT") != "LEFT":
        return 0
    for place in (1,) if shifts else (0, 1):
        numbers = constant_input(node, place)
        if numbers is not None and numbers.dtype in _WIDE and numbers.size and _holds_inputs(node.inputs[1 - place]):
            most = max(map(abs, (int(numbers.min()), int(numbers.max()))))
            return (1 << min(most, 63)) if shifts else most
    return 0


def _holds_inputs(value: ir.Value | None) -> bool:
    """Whether numbers of the model's inputs go into a value, not their sizes alone."""
    seen: set[ir.Value] = set()
    left = [value]
    while left:
        one = left.pop()
        if one is None or one in seen:
            continue
        seen.add(one)
        producer = one.producer()
        if producer is None:
            if one.is_graph_input() and not one.is_initializer():
                return True
        elif producer.domain or producer.op_type not in _SIZES:
            left.extend(producer.inputs)
    return False
