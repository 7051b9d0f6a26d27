"""Numbers of which a Sigmoid makes answers at the outputs: what samples showed of one answer says little of the other.

A detector's grid in which no sample had anything gives logits below 0 alone. With a range that ends there, no score is
ever more than 0.5, whatever the detector sees.
"""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from edgekit_quantize.graph.layers import LAYER_KINDS
from edgekit_quantize.graph.nodes import is_standard

SURE = 4.0
"""The logit of a probability of 0.982."""
_MOVES = (
    "Concat",
    "Flatten",
    "Identity",
    "Reshape",
    "Resize",
    "Slice",
    "Split",
    "Squeeze",
    "Transpose",
    "Unsqueeze",
)
"""Operators behind which a logit is what it was."""
_RECURRENT = ("GRU", "LSTM", "RNN")


def logits_of_answers(graph: ir.Graph) -> set[str]:
    """The tensors that a Sigmoid reads, moved perhaps, behind which no layer stands: gates have one.

    Args:
        graph: The prepared graph.
    """
    found: set[str] = set()
    for node in graph:
        if is_standard(node, "Sigmoid") and node.inputs[0] is not None and not _goes_into_layers(node):
            found.update(str(value.name) for value in _moved_into(node.inputs[0]) if value.name)
    return found


def with_both_answers(low: float, high: float) -> tuple[float, float]:
    """A range that goes as far to the other side of 0, but no farther than :data:`SURE`.

    Args:
        low: The lower end, as samples tell it.
        high: The upper end.
    """
    return min(low, -min(SURE, high)), max(high, min(SURE, -low))


def _moved_into(value: ir.Value) -> Iterator[ir.Value]:
    """The value, and what it is moved from."""
    waiting, seen = [value], {value}
    while waiting:
        each = waiting.pop()
        yield each
        node = each.producer()
        if node is None or not is_standard(node, *_MOVES):
            continue
        sources = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        new = {source for source in sources if source is not None} - seen
        seen |= new
        waiting.extend(new)


def _goes_into_layers(node: ir.Node) -> bool:
    """Whether a product, a convolution or a recurrent node reads what is made of it."""
    waiting, seen = [node], {node}
    while waiting:
        for output in waiting.pop().outputs:
            readers = {reader for reader, _ in output.uses()} - seen
            if any(reader.op_type in LAYER_KINDS or is_standard(reader, *_RECURRENT) for reader in readers):
                return True
            seen |= readers
            waiting.extend(readers)
    return False
