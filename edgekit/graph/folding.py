"""Limits of constant folding: a node of a few bytes can produce a tensor of terabytes."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

MOST_BYTES = 256 << 20
"""The most bytes of all folded tensors together, for a model without weights."""
TIMES_WEIGHTS = 4
"""How many bytes each byte of the model's own tensors adds to :data:`MOST_BYTES`."""
MOST_NODES = 200_000

GROWTH_BYTES = 4 << 10
GROWTH_SHARE = 0.05
"""What folding may add to a model: this number of bytes, or this share of its tensors, whichever is more."""
ELEMENTS = (1024, 256, 64)
"""Limits on the elements of folded tensors, tried in order until the model does not grow too much.

Shapes and indices stay within the last one.
"""

_GROWING: dict[str, Callable[[list[ir.TensorProtocol]], float]] = {
    "Tile": lambda given: math.prod(given[0].shape.numpy()) * _product(given[1]),
    "Expand": lambda given: math.prod(given[0].shape.numpy()) * _product(given[1]),
    "ConstantOfShape": lambda given: _product(given[0]),
    "Range": lambda given: _range(*(float(tensor.numpy().reshape(-1)[0]) for tensor in given[:3])),
}
"""The most elements of the output, from the constant inputs, for operators with outputs larger than their inputs."""
_UNBOUNDED = frozenset(
    ["CenterCropPad", "Einsum", "EyeLike", "Loop", "OneHot", "Pad", "Resize", "Scan", "SequenceMap", "Upsample"]
)
"""Operators with outputs larger than their inputs that are folded only if the output's size is known."""
SOFTMAXES = frozenset(["Hardmax", "LogSoftmax", "Softmax"])
"""Operators that are along one axis since version 13, and over all from one on before."""
MISCOMPUTED = frozenset(
    ["AveragePool", "ConvTranspose", "GRU", "GlobalMaxPool", "GridSample", "LRN", "LSTM", "LpPool", "MaxPool", "RNN"]
)
"""Operators that ONNX's evaluator, which folds constants, does not compute as ONNX defines them (onnx 1.23).

It ignores attributes and inputs of recurrent layers, and handles only the usual ranks, batches or groups of tensors. It
also miscomputes :data:`SOFTMAXES` of old versions.
"""
FOLDED_BY_EXECUTION = MISCOMPUTED | SOFTMAXES | {"BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"}
"""Operators that :mod:`edgekit.execution.executed_constants` folds.

For the last four, the evaluator's numbers are only close to those of ONNX Runtime.
"""


def is_miscomputed(op_type: str, version: int) -> bool:
    """Whether ONNX's evaluator does not compute this version of a standard operator as ONNX defines it."""
    return op_type in MISCOMPUTED or (op_type in SOFTMAXES and version < 13)


def growth_allowed(weight_bytes: int) -> float:
    """Returns the bytes that folding may add to a model whose tensors have ``weight_bytes`` bytes.

    Larger tables stay computed at run time.
    """
    return max(GROWTH_BYTES, GROWTH_SHARE * weight_bytes)


class FoldingBudget:
    """Decides for each node whether it is folded; nodes that would exceed the budget are not folded.

    Args:
        otherwise: A further rule for each node; its result None leaves the decision to the folder.
        weight_bytes: Bytes of the model's own tensors, which folding may copy a few times.
    """

    def __init__(self, otherwise: Callable[[ir.Node], bool | None] = lambda _: None, *, weight_bytes: int = 0) -> None:
        self._otherwise = otherwise
        self._most = MOST_BYTES + TIMES_WEIGHTS * weight_bytes
        self._bytes = 0.0
        self._nodes = 0

    def __call__(self, node: ir.Node) -> bool | None:
        """Whether to fold the node; None leaves it to the folder's own rules."""
        decided = self._otherwise(node)
        if decided is False or (not node.domain and node.op_type in FOLDED_BY_EXECUTION):
            return False
        given = [None if value is None else ir.convenience.get_const_tensor(value) for value in node.inputs]
        if any(tensor is None for tensor in given):
            return decided
        self._nodes += 1
        self._bytes += _bytes(node, [tensor for tensor in given if tensor is not None])
        return decided if self._bytes <= self._most and self._nodes <= MOST_NODES else False


def _width(tensor: ir.TensorProtocol) -> float:
    """Bytes of an element; the mean for texts."""
    if tensor.dtype is ir.DataType.STRING:
        return tensor.nbytes / max(tensor.size, 1)
    return tensor.dtype.itemsize


def _bytes(node: ir.Node, given: list[ir.TensorProtocol]) -> float:
    """Estimated bytes of the outputs; infinite if nothing limits them."""
    width = max([8, *map(_width, given)])
    shapes = [value.shape for value in node.outputs if value.name]
    if shapes and all(shape is not None and shape.is_static() for shape in shapes):
        return width * sum(math.prod(abs(int(dim)) for dim in shape.numpy()) for shape in shapes if shape is not None)
    if node.domain == "" and node.op_type in _GROWING:
        try:
            return width * float(_GROWING[node.op_type](given))
        except (ValueError, IndexError, OverflowError):  # invalid inputs: the folder reports them
            return 0.0
    if node.op_type in _UNBOUNDED:
        return math.inf
    return width * float(sum(tensor.size for tensor in given))


def _product(tensor: ir.TensorProtocol) -> float:
    return math.prod(abs(float(size)) for size in tensor.numpy().reshape(-1))


def _range(start: float, limit: float, step: float) -> float:
    return abs((limit - start) / step) if step else math.inf
