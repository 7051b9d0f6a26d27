"""The kernel of cubic convolution (Keys 1981) as nodes: what elements at a distance weigh."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder

SHARPNESS = -0.75
"""The kernel's coefficient a, which the ONNX specification takes from PyTorch (Keys 1981 has -0.5)."""
OFFSETS = (-1, 0, 1, 2)
"""Where the elements with a weight stand, from the one at or before a place."""


def four_weights(build: NodeBuilder, share: ir.Value, dtype: np.dtype, a: float = SHARPNESS) -> list[ir.Value]:
    """What the elements at :data:`OFFSETS` weigh.

    Args:
        build: Makes the nodes.
        share: How far behind the element at offset 0 each place lies, from 0 up to 1; any shape.
        dtype: Its type, and that of the weights.
        a: The kernel's coefficient.
    """

    def number(value: float) -> np.ndarray:
        return np.asarray(value, dtype)

    def near(distance: ir.Value) -> ir.Value:
        """Up to 1 away: (a + 2) d³ - (a + 3) d² + 1."""
        slope = build("Sub", build("Mul", distance, number(a + 2)), number(a + 3))
        return build("Add", build("Mul", build("Mul", distance, distance), slope), number(1))

    def far(beyond: ir.Value) -> ir.Value:
        """Between 1 and 2 away, by what is beyond 1: a d (1 - d)²."""
        left = build("Sub", number(1), beyond)
        return build("Mul", build("Mul", beyond, number(a)), build("Mul", left, left))

    rest = build("Sub", number(1), share)
    return [far(share), near(share), near(rest), far(rest)]
