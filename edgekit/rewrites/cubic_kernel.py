"""The kernel of cubic convolution (Keys 1981) as nodes: the weights of elements by their distance."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder

SHARPNESS = -0.75
"""The kernel's coefficient a, which the ONNX specification takes from PyTorch (Keys 1981 has -0.5)."""
OFFSETS = (-1, 0, 1, 2)
"""The positions of the elements with a weight, counted from the element at or before a coordinate."""


def four_weights(build: NodeBuilder, share: ir.Value, dtype: np.dtype, a: float = SHARPNESS) -> list[ir.Value]:
    """Returns the weights of the elements at :data:`OFFSETS`.

    Args:
        build: Makes the nodes.
        share: How far each coordinate lies behind the element at offset 0, from 0 up to 1; any shape.
        dtype: The type of ``share``, and of the weights.
        a: The kernel's coefficient.
    """

    def number(value: float) -> np.ndarray:
        return np.asarray(value, dtype)

    def near(distance: ir.Value) -> ir.Value:
        """Returns the weight of an element up to 1 away: (a + 2) d³ - (a + 3) d² + 1."""
        slope = build("Sub", build("Mul", distance, number(a + 2)), number(a + 3))
        return build("Add", build("Mul", build("Mul", distance, distance), slope), number(1))

    def far(beyond: ir.Value) -> ir.Value:
        """Returns the weight of an element between 1 and 2 away, by its distance d beyond 1: a d (1 - d)²."""
        left = build("Sub", number(1), beyond)
        return build("Mul", build("Mul", beyond, number(a)), build("Mul", left, left))

    rest = build("Sub", number(1), share)
    return [far(share), near(share), near(rest), far(rest)]
