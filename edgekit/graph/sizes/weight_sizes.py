"""Open dimensions of inputs whose size follows from weights: a convolution's channels, a product's columns.

Exporters leave them open (optimum's ``num_channels``, onnxruntime-genai's ``kv_cache_dim``), but the model runs with no
other size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import onnx_ir as ir

from edgekit.graph.sizes.shapes import ContradictionError, infer_shapes
from edgekit.model import Model, computed_values

_MATRIX = _OPERANDS = 2
_SAME_SIZES = frozenset(["Cast", "Identity", "Relu", "Sigmoid", "Tanh"])
_BY_ELEMENT = frozenset(["Add", "Div", "Mul", "Sub"])
_HALF_A_BYTE = 4
_CACHES = (3, 4)
"""Indices of the inputs of grouped attention with past keys and values, [b, heads, t, width]."""

KnownSize = tuple[int, int, int]
"""The index of a node's input, an axis of that input, and the size along that axis."""


@dataclass(frozen=True)
class WeightSize:
    """A size that was written into an input."""

    input: str
    axis: int
    size: int
    dimension: str | None
    """The name that the size replaced everywhere; None if there was no name, or it is also the name of other sizes."""


def tell_sizes_by_weights(model: Model) -> list[WeightSize]:
    """Writes sizes that follow from weights into the inputs, in place, and wherever a name of that size alone occurs.

    Returns:
        The sizes that were written.
    """
    inputs = [value for value in model.graph.inputs if not value.is_initializer() and value.shape is not None]
    if not any(isinstance(dim, ir.SymbolicDim) for value in inputs for dim in value.shape or ()):
        return []
    found: dict[tuple[ir.Value, int], int] = {}
    widths = _Widths(model)
    for node in model.graph:  # nodes in branches may be meant for other sizes
        for place, axis, size in _known_sizes(node, widths):
            source = _source(node.inputs[place], axis)
            if source is not None and source[0] in inputs:
                found.setdefault(source, size)
    written = (_written(model, value, axis, size) for (value, axis), size in found.items())
    return [each for each in written if each is not None]


def _written(model: Model, value: ir.Value, axis: int, size: int) -> WeightSize | None:
    """Writes a size wherever its dimension's name occurs; returns None if the dimension was not open."""
    assert value.shape is not None
    dim = value.shape[axis]
    if isinstance(dim, int):
        return None
    value.shape = ir.Shape([size if place == axis else each for place, each in enumerate(value.shape)])
    if dim.value is None or any(_is_called(each, dim.value) for each in _elsewhere(model, value, axis)):
        return WeightSize(value.name or "", axis, size, None)
    for other in computed_values(model.graph_model):
        if other.shape is not None and not other.is_initializer():
            other.shape = ir.Shape([size if _is_called(each, dim.value) else each for each in other.shape])
    return WeightSize(value.name or "", axis, size, dim.value)


def _elsewhere(model: Model, value: ir.Value, axis: int) -> Iterator[int | ir.SymbolicDim]:
    """Yields the dimensions of inputs at other axes than this one, and of inputs of another rank."""
    for other in model.graph.inputs:
        for place, each in enumerate(other.shape or ()):
            if place != axis or len(other.shape or ()) != len(value.shape or ()):
                yield each


def _is_called(dim: int | ir.SymbolicDim, name: str | None) -> bool:
    return isinstance(dim, ir.SymbolicDim) and dim.value == name


def _source(value: ir.Value | None, axis: int) -> tuple[ir.Value, int] | None:
    """Returns the value without a producer whose axis reaches this one unchanged, and which axis that is, or None."""
    while value is not None:
        node = value.producer()
        if node is None:
            if value.shape is None or not -len(value.shape) <= axis < len(value.shape):
                return None
            return value, axis % len(value.shape)
        if node.domain or not node.inputs:
            return None
        if node.op_type == "Transpose":
            perm = node.attributes.get_ints("perm", ())
            if not perm or not -len(perm) <= axis < len(perm):
                return None
            axis = perm[axis]
        elif node.op_type not in _SAME_SIZES and not _takes_a_number(node):
            return None
        value = node.inputs[0]
    return None


def _takes_a_number(node: ir.Node) -> bool:
    """Whether a node is an elementwise operator whose second operand is a constant scalar."""
    return node.op_type in _BY_ELEMENT and len(node.inputs) == _OPERANDS and _sizes(node.inputs[1]) == ()


class _Widths:
    """Sizes of values along their last axis; shapes are inferred when a size is needed that the file does not state."""

    def __init__(self, model: Model) -> None:
        self._model = model

    def of(self, value: ir.Value) -> int | None:
        """Returns the last size of a value, or None if it is unknown."""
        return _last_size(value) or _last_size(self._inferred.get(value.name or ""))

    @cached_property
    def _inferred(self) -> Mapping[str, ir.Value]:
        try:
            return ir.convenience.create_value_mapping(infer_shapes(self._model, strict=False).graph)
        except ContradictionError:
            return {}


def _last_size(value: ir.Value | None) -> int | None:
    size = value.shape[-1] if value is not None and value.shape else None
    return size if isinstance(size, int) else None


def _known_sizes(node: ir.Node, widths: _Widths) -> Iterator[KnownSize]:
    rule = _RULES.get(node.op_type)
    if len(node.inputs) < _OPERANDS:  # an invalid node, which the check of the file reports
        return
    if rule is not None and node.domain == "":
        yield from rule(node)
    elif node.op_type == "GroupQueryAttention":
        yield from _of_caches(node, widths)


def _of_convolution(node: ir.Node) -> Iterator[KnownSize]:
    weights = _sizes(node.inputs[1])
    if weights is not None and len(weights) > 1:
        yield 0, 1, weights[1] * node.attributes.get_int("group", 1)


def _of_transposed_convolution(node: ir.Node) -> Iterator[KnownSize]:
    weights = _sizes(node.inputs[1])
    if weights:
        yield 0, 1, weights[0]


def _of_product(node: ir.Node) -> Iterator[KnownSize]:
    left, right = _sizes(node.inputs[0]), _sizes(node.inputs[1])
    if right is not None and len(right) > 1:
        yield 0, -1, right[-2]
    if left is not None and len(left) > 1:
        yield 1, -2, left[-1]


def _of_matrices(node: ir.Node) -> Iterator[KnownSize]:
    right = _sizes(node.inputs[1])
    if right is not None and len(right) == _MATRIX:
        inner = right[1] if node.attributes.get_int("transB", 0) else right[0]
        yield 0, 0 if node.attributes.get_int("transA", 0) else 1, inner


def _of_layer(node: ir.Node) -> Iterator[KnownSize]:
    weights = _sizes(node.inputs[1])
    if weights is not None and len(weights) > _MATRIX and not node.attributes.get_int("layout", 0):
        yield 0, 2, weights[2]


def _of_channels(node: ir.Node) -> Iterator[KnownSize]:
    scale = _sizes(node.inputs[1])
    if scale:
        yield 0, 1, scale[0]


def _of_caches(node: ir.Node, widths: _Widths) -> Iterator[KnownSize]:
    """Past keys and values are as wide as heads of queries, unless a byte holds two numbers."""
    if node.attributes.get_int("kv_cache_bit_width", 0) == _HALF_A_BYTE:
        return
    caches = [place for place in _CACHES if place < len(node.inputs) and node.inputs[place] is not None]
    query = node.inputs[0]
    if not caches or query is None:
        return
    width = widths.of(query)
    parts = node.attributes.get_int("num_heads", 0)
    if node.inputs[1] is None:
        parts += 2 * node.attributes.get_int("kv_num_heads", 0)
    if width and parts:
        for place in caches:
            yield place, 3, width // parts


def _sizes(value: ir.Value | None) -> Sequence[int] | None:
    """Returns the sizes of a constant, or None for other values."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None else tuple(tensor.shape.numpy())


_RULES: dict[str, Callable[[ir.Node], Iterator[KnownSize]]] = {
    "BatchNormalization": _of_channels,
    "Conv": _of_convolution,
    "ConvInteger": _of_convolution,
    "ConvTranspose": _of_transposed_convolution,
    "GRU": _of_layer,
    "Gemm": _of_matrices,
    "InstanceNormalization": _of_channels,
    "LSTM": _of_layer,
    "MatMul": _of_product,
    "MatMulInteger": _of_product,
    "RNN": _of_layer,
}
