"""Folds a division by factors per channel into the layer before it, if nothing else reads that layer's output.

Xiao et al., SmoothQuant (ICML 2023), section 4: the tensor that is divided is the output of a linear layer or a
normalization, whose parameters can be divided instead. ReLU commutes with positive factors, so it may stand between
the layer and the division. If weights are integers, only their scales change.

Folding saves a pass over the activation. It also avoids an error of OpenVINO: its CPU plugin computes a fully connected
layer of one row wrong on one thread if its output is multiplied by factors and then rounded (2026.4, processors with
VNNI).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import (
    Names,
    add_initializer,
    bypass,
    constant,
    home,
    integer,
    is_standard,
    only_consumer,
)

HOMOGENEOUS = ("Relu", "LeakyRelu", "Identity")
"""Operators that commute with the multiplication by a positive number."""
NORMALIZATIONS = ("LayerNormalization", "BatchNormalization")


def fold_factors(divisions: Iterable[ir.Node], names: Names) -> int:
    """Folds factors into the layers whose outputs they multiply; returns the number of multiplications removed.

    Values between the layer and the multiplication hold different numbers afterwards, and get new names.

    Args:
        divisions: Nodes ``Mul(value, factors)``; their graphs are changed in place.
        names: The names that are used in the model.
    """
    count = 0
    for node in divisions:
        value, factors = node.inputs[0], constant(node.inputs[1])
        if value is None or factors is None or only_consumer(value) is not node or not np.all(factors > 0):
            continue
        fold = _Fold(_axis(factors), factors.reshape(-1))
        if not fold.reach(value):
            continue
        for holder, place, array in fold.changes:
            wish = holder.inputs[place]
            name = names.fresh(f"{wish.name if wish is not None else holder.name}_smooth")
            holder.replace_input_with(place, add_initializer(home(holder), name, array))
        for changed in fold.values:
            changed.name = names.fresh(f"{changed.name}_smooth")
        bypass(node, value)
        count += 1
    return count


def _axis(factors: np.ndarray) -> int:
    """The axis of the value that the factors run along, counted from the last axis (negative)."""
    wide = [place for place, size in enumerate(factors.shape) if size > 1]
    return (wide[0] if wide else 0) - factors.ndim


@dataclass
class _Fold:
    """The changes by which a value is computed already multiplied by factors along an axis."""

    axis: int
    factors: np.ndarray
    changes: list[tuple[ir.Node, int, np.ndarray]] = field(default_factory=list)
    """Nodes, the indices of their inputs, and the constants that replace these inputs."""
    values: list[ir.Value] = field(default_factory=list)
    """The values whose numbers change."""

    def reach(self, value: ir.Value) -> bool:
        """Whether the factors can be folded into the layer that the value comes from.

        Only operators that commute with the factors may stand between the layer and the value.
        """
        node = value.producer()
        if node is None or only_consumer(value) is None or node.outputs[0] is not value:
            return False
        self.values.append(value)
        if is_standard(node, *HOMOGENEOUS):
            return self._reach_through(node, 0)
        if is_standard(node, "Add", "Sub"):
            places = [place for place in (0, 1) if constant(node.inputs[place]) is not None]
            return len(places) == 1 and self._constant(node, places[0]) and self._reach_through(node, 1 - places[0])
        if is_standard(node, "MatMul"):
            return self._weights(node, 1)
        if is_standard(node, "Gemm"):
            plain = all(node.attributes.get_float(name, 1.0) == 1.0 for name in ("alpha", "beta"))
            return plain and self._weights(node, 0 if integer(node, "transB", 0) else 1) and self._bias(node)
        if is_standard(node, "Conv"):
            return self._weights(node, 0) and self._bias(node)
        if is_standard(node, *NORMALIZATIONS):
            return self._normalization(node)
        return False

    def _reach_through(self, node: ir.Node, place: int) -> bool:
        value = node.inputs[place]
        return value is not None and self.reach(value)

    def _constant(self, node: ir.Node, place: int) -> bool:
        """Whether an added constant has one number per channel, or one in total, and can be multiplied by factors."""
        array = constant(node.inputs[place])
        if array is None or array.dtype != np.float32 or -self.axis > max(array.ndim, -self.axis):
            return False
        along = [1] * max(array.ndim, -self.axis)
        along[self.axis] = len(self.factors)
        if array.size not in (1, len(self.factors)) or (array.size > 1 and _axis(array) != self.axis):
            return False
        self.changes.append((node, place, (array * self.factors.reshape(along)).astype(np.float32)))
        return True

    def _weights(self, node: ir.Node, channel_axis: int) -> bool:
        """Whether a layer's weights have a scale per output channel, or are floats that only this layer reads."""
        value = node.inputs[1]
        if value is None or len(tuple(value.uses())) != 1:
            return False
        array = constant(value)
        rank = array.ndim if array is not None else _rank(value)
        if rank is None or self.axis != (1 - rank if node.op_type == "Conv" else -1):
            return False
        if node.op_type != "Conv" and rank != 2:
            return False
        if array is None:
            return self._scales(value.producer(), channel_axis)
        if array.dtype != np.float32:
            return False
        shape = [1] * rank
        shape[channel_axis] = -1
        self.changes.append((node, 1, (array * self.factors.reshape(shape)).astype(np.float32)))
        return True

    def _scales(self, node: ir.Node | None, channel_axis: int) -> bool:
        """Whether the node dequantizes integers with a scale per channel, into which the factors are multiplied."""
        if node is None or not is_standard(node, "DequantizeLinear") or integer(node, "block_size", 0):
            return False
        scale, integers = constant(node.inputs[1]), constant(node.inputs[0])
        if scale is None or integers is None or scale.shape != self.factors.shape or scale.dtype != np.float32:
            return False
        if integer(node, "axis", 1) % integers.ndim != channel_axis:
            return False
        self.changes.append((node, 1, (scale * self.factors).astype(np.float32)))
        return True

    def _bias(self, node: ir.Node) -> bool:
        value = node.inputs[2] if len(node.inputs) > 2 else None
        if value is None:
            return True
        array = constant(value)
        if array is None:
            return len(tuple(value.uses())) == 1 and self._scales(value.producer(), 0)
        if array.dtype != np.float32 or array.size != len(self.factors):
            return False
        self.changes.append((node, 2, (array.reshape(-1) * self.factors).astype(np.float32).reshape(array.shape)))
        return True

    def _normalization(self, node: ir.Node) -> bool:
        """Whether the parameters of a normalization run along the axis of the factors, and can be multiplied."""
        if node.op_type == "LayerNormalization":
            along = self.axis == -1 and integer(node, "axis", -1) == -1
        else:
            rank = None if node.outputs[0].shape is None else len(node.outputs[0].shape)
            along = rank is not None and self.axis == 1 - rank
        places = [place for place in (1, 2) if place < len(node.inputs) and node.inputs[place] is not None]
        arrays = [constant(node.inputs[place]) for place in places]
        if not along or any(array is None or array.shape != self.factors.shape for array in arrays):
            return False
        for place, array in zip(places, arrays, strict=True):
            assert array is not None
            self.changes.append((node, place, (array * self.factors).astype(array.dtype)))
        return True


def _rank(value: ir.Value) -> int | None:
    """The rank of dequantized weights."""
    node = value.producer()
    integers = constant(node.inputs[0]) if node is not None else None
    return None if integers is None else integers.ndim
