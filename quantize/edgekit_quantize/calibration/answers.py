"""Finds logits of yes/no answers at the outputs, whose range must allow both answers even if samples show only one.

If no sample has an object in a detector's grid, all logits of the grid are below 0. With a range that ends at 0, no
score would ever exceed 0.5, whatever the detector sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx_ir as ir

from edgekit.graph.traversal import reached
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
"""Operators that move values without changing them (Resize approximately)."""
_RECURRENT = ("GRU", "LSTM", "RNN")


def logits_of_answers(graph: ir.Graph) -> set[str]:
    """The tensors that a Sigmoid reads, directly or moved, if no layer reads its result, as layers do behind gates.

    Args:
        graph: The prepared graph.
    """
    found: set[str] = set()
    for node in graph:
        if is_standard(node, "Sigmoid") and node.inputs[0] is not None and not _goes_into_layers(node):
            found.update(str(value.name) for value in _moved_into(node.inputs[0]) if value.name)
    return found


def with_both_answers(low: float, high: float) -> tuple[float, float]:
    """The range, extended to the other side of 0 as far as it reaches on one side, but at most to :data:`SURE`.

    Args:
        low: The lower end of the range on the samples.
        high: The upper end of the range on the samples.
    """
    return min(low, -min(SURE, high)), max(high, min(SURE, -low))


def _moved_into(value: ir.Value) -> Iterator[ir.Value]:
    """The value, and the values that it is moved from."""

    def sources(moved: ir.Value) -> Iterable[ir.Value | None]:
        node = moved.producer()
        if node is None or not is_standard(node, *_MOVES):
            return ()
        return node.inputs if node.op_type == "Concat" else node.inputs[:1]

    return reached([value], sources)


def _goes_into_layers(node: ir.Node) -> bool:
    """Whether a product, a convolution or a recurrent node depends on the node's outputs."""
    readers = reached(_readers(node), _readers)
    return any(reader.op_type in LAYER_KINDS or is_standard(reader, *_RECURRENT) for reader in readers)


def _readers(node: ir.Node) -> Iterator[ir.Node]:
    return (reader for output in node.outputs for reader, _ in output.uses())
