"""Matrices in the order in which runtimes have kernels for weights that share scales in blocks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit_quantize.graph.nodes import (
    Names,
    add_initializer,
    constant,
    home,
    integer,
    is_standard,
)


def inputs_first(model: ir.Model) -> None:
    """Let every Gemm read its constant matrix with inputs along the first axis, as MatMul does.

    ONNX Runtime multiplies with integers in blocks along that axis only. Of a matrix the other way round it makes
    floats, anew for every product: 25 times as slow on a matrix of 512 by 2048.

    Args:
        model: Changed in place.
    """
    names = Names(model.graph)
    turned: dict[str, ir.Value] = {}  # unrolled recurrent nets read one matrix many times
    for node in model.graph.all_nodes():
        value = node.inputs[1] if is_standard(node, "Gemm") and integer(node, "transB", 0) else None
        matrix = constant(value)
        if value is None or matrix is None:
            continue
        name = value.name or ""
        if name not in turned:
            fresh = names.fresh(f"{name}_transposed")
            turned[name] = add_initializer(home(value), fresh, np.ascontiguousarray(matrix.T))
        node.replace_input_with(1, turned[name])
        node.attributes.pop("transB")
    drop_unused_initializers(model.graph)
