"""Distances of all points from all others (``CDist`` of ONNX Runtime's document ContribOperators)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed
from edgekit.rewrites.quantized_operators import MICROSOFT


class DistancesByProduct(Rewrite):
    """Euclidean distances, or their squares, by one matrix product: ``|a|^2 + |b|^2 - 2 a b``."""

    name: ClassVar[str] = "distances by a matrix product"
    op_types: ClassVar[Sequence[str]] = ("CDist",)
    domain: ClassVar[str] = MICROSOFT

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Distances of rows; a square that rounding makes negative becomes zero, as in ONNX Runtime's kernel."""
        x, dtype = typed(node.inputs[0])
        y = node.inputs[1]
        metric = node.attributes.get_string("metric", "sqeuclidean")
        if metric not in ("euclidean", "sqeuclidean"):
            raise InapplicableError(f"it measures {metric}")
        squares = [build.reduce("ReduceSum", build("Mul", each, each), [1]) for each in (x, y)]
        product = build("MatMul", build("Mul", x, np.asarray(-2, dtype.numpy())), build("Transpose", y, perm=[1, 0]))
        total = build("Add", build("Add", product, squares[0]), build("Transpose", squares[1], perm=[1, 0]))
        positive = build("Max", total, np.zeros((), dtype.numpy()))
        return [positive if metric == "sqeuclidean" else build("Sqrt", positive)]
