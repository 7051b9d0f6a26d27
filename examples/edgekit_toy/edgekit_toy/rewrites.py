"""Replaces Celu by operators that the toy device has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import Rewrite, RewriteSet


class CeluAsExp(Rewrite):
    """``max(0, x) + min(0, alpha · (exp(x / alpha) - 1))``, as the ONNX specification defines it."""

    name = "Celu as Exp (toy)"
    op_types = ("Celu",)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value | None]:
        """Builds the nodes that take the place of a Celu node."""
        x = node.inputs[0]
        alpha = np.float32(node.attributes.get_float("alpha", 1.0))
        zero = np.float32(0)
        grown = build("Sub", build("Exp", build("Div", x, alpha)), np.float32(1))
        return (build("Add", build("Max", x, zero), build("Min", build("Mul", grown, alpha), zero)),)


class ToyRewrites(RewriteSet):
    """The set of rewrites that the entry point names."""

    contract_version = 1
    name = "toy"

    @property
    def rewrites(self) -> Sequence[Rewrite]:
        """The set's only rewrite."""
        return (CeluAsExp(),)
