"""Recognizes an encoder: which of a graph's outputs are embeddings, vectors that are compared by their angle.

An output is an embedding if

- the graph divides it by its length (L2 normalization): ``LpNormalization``, ``x / ReduceL2(x)``, ``x / sqrt(Σ x²)`` or
  ``x · rsqrt(Σ x²)``, whatever keeps the divisor from 0, as exporters of PyTorch, Keras and TensorFlow write it;
- it is the mean of a sequence's vectors under a mask, ``Σ x·m / Σ m``: sentence encoders that do not normalize;
- its name is one that exporters of encoders give by convention.

An embedding is a vector of :data:`FEWEST_NUMBERS` numbers or more. Scores are no embeddings: what a Softmax or a
Sigmoid gives, and the outputs of a model whose classes are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import onnx_ir as ir

from edgekit.graph.nodes import scalar
from edgekit.model import Arrays

CONVENTIONAL = frozenset({"sentence_embedding", "embedding", "embeddings", "text_embeds", "image_embeds"})
"""Names of outputs that sentence-transformers, optimum and CLIP's exporters give."""
FEWEST_NUMBERS = 16
MOST_OFF_ONE = 1e-2
"""How far from 1 a normalized vector's length may be."""

_FORM = (
    "Identity",
    "Reshape",
    "Squeeze",
    "Unsqueeze",
    "Flatten",
    "Cast",
    "Dropout",
    "QuantizeLinear",
    "DequantizeLinear",
)
_GUARDS = ("Max", "Clip", "Add", "Expand", "Where")
"""Operators that keep a divisor from 0, or give it the vector's shape."""
_SCORES = ("Softmax", "LogSoftmax", "Sigmoid", "HardSigmoid", "Hardmax")
_MASKS = (ir.DataType.BOOL, ir.DataType.INT64, ir.DataType.INT32, ir.DataType.UINT8, ir.DataType.INT8)
_SQUARE, _ROOT = 2.0, 0.5


def embeddings_of(graph: ir.Graph, answers: Sequence[Arrays]) -> tuple[str, ...]:
    """The outputs that are embeddings, in the graph's order.

    Args:
        graph: The model's graph.
        answers: The model's outputs on a few samples.
    """
    return tuple(_found(graph, answers)) if answers else ()


def _found(graph: ir.Graph, answers: Sequence[Arrays]) -> Iterator[str]:
    for value in graph.outputs:
        name = value.name or ""
        arrays = [answer[name] for answer in answers if name in answer]
        if not arrays or not all(_is_vector(array) for array in arrays):
            continue
        source = _behind_form(value)
        node = source.producer()
        if node is None or _is(node, *_SCORES):
            continue
        normalized = _normalized(node)
        if normalized is not None:
            before = _behind_form(normalized).producer()
            if (before is None or not _is(before, *_SCORES)) and all(_has_length_one(array) for array in arrays):
                yield name
        elif name in CONVENTIONAL or _is_masked_mean(node):
            yield name


def _is_vector(array: np.ndarray) -> bool:
    """Whether an output holds vectors of floats: (vectors, numbers), or one vector among axes of 1."""
    if array.dtype.kind != "f" or array.ndim < 2:
        return False
    alone = max(array.shape) == array.size
    return bool((array.ndim == 2 or alone) and rows_of(array).shape[1] >= FEWEST_NUMBERS)


def rows_of(array: np.ndarray) -> np.ndarray:
    """The vectors of an output, (vectors, numbers): along the last axis, or the only one that is longer than 1."""
    if array.size and max(array.shape, default=1) == array.size:
        return array.reshape(1, -1)
    return array.reshape(-1, array.shape[-1])


def _has_length_one(array: np.ndarray) -> bool:
    lengths = np.linalg.norm(rows_of(array).astype(np.float64), axis=1)
    return bool((np.abs(lengths - 1) <= MOST_OFF_ONE).all())


def _is(node: ir.Node | None, *op_types: str) -> bool:
    return node is not None and node.domain in {"", "ai.onnx"} and node.op_type in op_types


def _behind_form(value: ir.Value) -> ir.Value:
    """Returns the value before nodes that only change its shape or type."""
    while True:
        node = value.producer()
        joins_nothing = _is(node, "Concat", "Sum") and node is not None and len(node.inputs) == 1
        if node is None or not (_is(node, *_FORM) or joins_nothing) or node.inputs[0] is None:
            return value
        value = node.inputs[0]


def _normalized(node: ir.Node) -> ir.Value | None:
    """Returns the value that the node divides by its own length, or None if it does something else."""
    if _is(node, "LpNormalization"):
        return node.inputs[0] if node.attributes.get_int("p", 2) == 2 else None
    if _is(node, "Div"):
        return _if_length(node.inputs[0], node.inputs[1])
    if _is(node, "Mul"):
        for one, other in (node.inputs, node.inputs[::-1]):
            if one is not None and other is not None and (length := _inverse(other)) is not None:
                found = _if_length(one, length)
                if found is not None:
                    return found
    return None


def _inverse(value: ir.Value) -> ir.Value | None:
    """Returns the value that another is the inverse of, a power of -0.5 itself, or None."""
    node = _behind_guards(value).producer()
    if _is(node, "Reciprocal") and node is not None:
        return node.inputs[0]
    if _is(node, "Div") and node is not None and scalar(node.inputs[0]) == 1:
        return node.inputs[1]
    if _is(node, "Pow") and node is not None and scalar(node.inputs[1]) == -_ROOT:
        return value
    return None


def _if_length(vector: ir.Value | None, divisor: ir.Value | None) -> ir.Value | None:
    """Returns the vector if the divisor is its length, else None."""
    if vector is None or divisor is None:
        return None
    measured = _measured(divisor)
    return vector if measured is not None and _behind_form(measured) is _behind_form(vector) else None


def _measured(length: ir.Value) -> ir.Value | None:
    """Returns the vector whose length a value is, or None."""
    node = _behind_guards(length).producer()
    if node is None:
        return None
    if _is(node, "ReduceL2"):
        return node.inputs[0]
    if _is(node, "Sqrt") or (_is(node, "Pow") and scalar(node.inputs[1]) in (_ROOT, -_ROOT)):
        root = node.inputs[0]
        return None if root is None else _squared(root)
    return None


def _squared(total: ir.Value) -> ir.Value | None:
    """Returns the vector whose sum of squares a value is, or None."""
    node = _behind_guards(total).producer()
    if node is None or node.inputs[0] is None:
        return None
    if _is(node, "ReduceSumSquare"):
        return node.inputs[0]
    if not _is(node, "ReduceSum"):
        return None
    square = _behind_form(node.inputs[0]).producer()
    if square is None or square.inputs[0] is None:
        return None
    if _is(square, "Mul") and square.inputs[0] is square.inputs[1]:
        return square.inputs[0]
    if _is(square, "Pow") and scalar(square.inputs[1]) == _SQUARE:
        magnitude = square.inputs[0].producer()
        return magnitude.inputs[0] if _is(magnitude, "Abs") and magnitude is not None else square.inputs[0]
    return None


def _behind_guards(value: ir.Value) -> ir.Value:
    """Returns the value before nodes that keep it from 0, or broadcast it."""
    while True:
        value = _behind_form(value)
        node = value.producer()
        if node is None or not _is(node, *_GUARDS):
            return value
        if _is(node, "Where"):
            open_inputs = [each for each in node.inputs[1:] if each is not None and scalar(each) is None]
        else:
            ends = 1 if _is(node, "Clip", "Expand") else len(node.inputs)
            open_inputs = [each for each in node.inputs[:ends] if each is not None and scalar(each) is None]
        if len(open_inputs) != 1:
            return value
        value = open_inputs[0]


def _is_masked_mean(node: ir.Node) -> bool:
    """Whether the node divides the sum of vectors under a mask by the sum of that mask."""
    if not _is(node, "Div") or node.inputs[0] is None or node.inputs[1] is None:
        return False
    total, count = (_behind_guards(value).producer() for value in node.inputs if value is not None)
    if not _is(total, "ReduceSum") or not _is(count, "ReduceSum") or total is None or count is None:
        return False
    product, mask = total.inputs[0], count.inputs[0]
    masked = None if product is None else product.producer()
    if masked is None or mask is None or not _is(masked, "Mul"):
        return False
    unguarded = _behind_guards(mask)
    is_mask = unguarded.dtype in _MASKS
    return is_mask and any(each is not None and _behind_guards(each) is unguarded for each in masked.inputs)
