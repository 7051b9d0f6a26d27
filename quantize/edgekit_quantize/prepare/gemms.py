"""Writes Gemm as MatMul and Add, for runtimes that multiply integers only in MatMul."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.simplification.cleanup import drop_unused_initializers
from edgekit_quantize.graph.nodes import Names, add_initializer, constant, home, integer, is_standard


def split_gemms(model: ir.Model) -> int:
    """Replace ``Gemm(a, b, c) = alpha * a @ b + beta * c`` by MatMul, and Add if there is a bias; returns how many.

    This requires that ``b`` is constant, and that ``c``, if there is one, has one number per column, so that it stays a
    bias. The MatMul keeps the node's name, and takes ``b`` with inputs along the first axis; ``alpha`` and ``beta`` are
    multiplied into the constants. ONNX Runtime's CPU provider has integer kernels for MatMul; it computes a Gemm
    between DequantizeLinear nodes in float, and converts the matrix to floats in every run.

    Args:
        model: Changed in place.
    """
    names = Names(model.graph)
    matrices: dict[tuple[str, bool, float], ir.Value] = {}
    gemms = [node for node in model.graph.all_nodes() if is_standard(node, "Gemm") and _is_layer(node)]
    for node in gemms:
        data, given, bias = node.inputs[0], node.inputs[1], node.inputs[2] if len(node.inputs) > 2 else None
        matrix = constant(given)
        assert data is not None
        assert given is not None
        assert matrix is not None
        transposed, alpha = bool(integer(node, "transB", 0)), _number(node, "alpha")
        key = (str(given.name), transposed, alpha)
        if key not in matrices:
            array = np.ascontiguousarray(matrix.T if transposed else matrix) * matrix.dtype.type(alpha)
            matrices[key] = add_initializer(home(given), names.fresh(f"{given.name}_product"), array)
        old = node.outputs[0]
        output = ir.Value(name=old.name, shape=old.shape, type=old.type)
        old.name = names.fresh(f"{old.name}_gemm")
        if bias is None:
            nodes = [ir.node("MatMul", [data, matrices[key]], outputs=[output], name=node.name)]
        else:
            numbers = constant(bias)
            assert numbers is not None
            product = ir.Value(name=names.fresh(f"{output.name}_product"), shape=old.shape, type=old.type)
            scaled = numbers.reshape(-1) * numbers.dtype.type(_number(node, "beta"))
            added = add_initializer(home(node), names.fresh(f"{bias.name}_added"), scaled)
            nodes = [
                ir.node("MatMul", [data, matrices[key]], outputs=[product], name=node.name),
                ir.node("Add", [product, added], outputs=[output], name=f"{node.name}_bias"),
            ]
        home(node).insert_after(node, nodes)
        old.replace_all_uses_with(output, replace_graph_outputs=True)
        home(node).remove(node, safe=True)
    if gemms:
        drop_unused_initializers(model.graph)
    return len(gemms)


def _is_layer(node: ir.Node) -> bool:
    """Whether the Gemm multiplies by a constant matrix, and adds nothing or one constant per column."""
    matrix = constant(node.inputs[1])
    if matrix is None or matrix.ndim != 2 or integer(node, "transA", 0):
        return False
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if bias is None:
        return True
    numbers, columns = constant(bias), matrix.shape[0 if integer(node, "transB", 0) else 1]
    return numbers is not None and numbers.size == columns and numbers.shape[-1] == columns


def _number(node: ir.Node, name: str) -> float:
    return node.attributes[name].as_float() if name in node.attributes else 1.0
