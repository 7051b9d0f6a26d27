"""Weights that a graph stores in 8 bits and converts to floats by Cast, Sub, Mul and the like stay in 8 bits.

Such nodes are folded like any others. In addition to the folded constant, the value has the operation that decompresses
the weights when the model loads, and the program holds this operation. If the graph computes in half precision, the
operation leaves out its rounding (a relative error of at most 1 / 2048): programs round to half precision themselves,
or are more exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.values import Value
from edgekit_mil.support.linear_quantization import EIGHT_BITS, LEAST_COMPRESSED
from edgekit_mil.support.stored_weights import Stored

SINGLE_OR_HALF = frozenset({ir.DataType.FLOAT, ir.DataType.FLOAT16})


def kept(node: ir.Node, inputs: Sequence[Value | None], result: Value) -> Value:
    """Returns a folded result with the operation that holds it in 8 bits, if its inputs are held in 8 bits."""
    if result.constant is None or result.dtype not in SINGLE_OR_HALF or result.constant.size < LEAST_COMPRESSED:
        return result
    if node.op_type == "Cast" and inputs[0] is not None and inputs[0].dtype in SINGLE_OR_HALF:
        return replace(result, variable=inputs[0].variable)
    stored = _folded(node, inputs, result.constant)
    if stored is None or stored.levels.shape != result.constant.shape:
        return result
    return replace(result, variable=stored.decompression())


def _folded(node: ir.Node, inputs: Sequence[Value | None], result: np.ndarray) -> Stored | None:
    first = inputs[0] if inputs else None
    if first is None or first.constant is None:
        return None
    if node.op_type == "Cast" and first.dtype in EIGHT_BITS:
        one, none = np.float32(1), np.zeros((), first.constant.dtype)
        return Stored(first.constant, np.asarray(one), none, 0)
    stored = Stored.of(first)
    second = inputs[1] if len(inputs) > 1 else None
    if node.op_type in ("Mul", "Add") and stored is None and second is not None:
        first, second, stored = second, first, Stored.of(second)
    if stored is None:
        return None
    if node.op_type == "Transpose":
        order = node.attributes.get_ints("perm", range(stored.levels.ndim)[::-1])
        return stored.transposed(order)
    if node.op_type in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return stored.reshaped(result.shape)
    if node.op_type == "Identity":
        return stored
    if second is None or second.constant is None:
        return None
    if node.op_type == "Mul":
        return stored.scaled(second.constant)
    if node.op_type == "Div":
        return stored.scaled(1 / second.constant) if np.all(second.constant) else None
    if node.op_type == "Sub":
        return stored.less(second.constant)
    if node.op_type == "Add":
        return stored.less(-second.constant)
    return None
