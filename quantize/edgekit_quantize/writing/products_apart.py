"""Keeps consecutive products of integers from being fused into a kernel that computes them wrongly."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import Names, add_initializer, home, is_standard

MATRIX_RANK = 2
"""Largest rank of the tensors between two products that OpenVINO fuses."""
PRODUCTS = ("Gemm", "MatMul")


def set_products_apart(pairs: Iterable[tuple[ir.Value, ir.Node]], names: Names) -> int:
    """Adds a leading axis around the rounding of each tensor between two matrix products, in place.

    OpenVINO's CPU plugin fuses the two products into a kernel that gives zeros, or 1e9, with VNNI or AMX (2026.4),
    unless a tensor between them has a third axis. The numbers do not change. Flatten drops the axis, not Squeeze: ONNX
    Runtime (1.31) moves a DequantizeLinear past a Squeeze, and reads signed integers as unsigned if there is no zero
    point.

    Args:
        pairs: Tensors, each with the QuantizeLinear node that rounds it with a single scale.
        names: The names that are used in the model.

    Returns:
        The number of roundings that have the axis now.
    """
    chosen = [node for value, node in pairs if _goes_into_a_product(node) and _comes_of_a_product(value)]
    for node in chosen:
        _give_an_axis(node, names)
    return len(chosen)


def _goes_into_a_product(quantize: ir.Node) -> bool:
    dequantized = [node.outputs[0] for node in quantize.outputs[0].consumers()]
    return any(is_standard(reader, *PRODUCTS) for value in dequantized for reader in value.consumers())


def _comes_of_a_product(value: ir.Value) -> bool:
    """Whether a value has two axes, and a product computes it through tensors of at most two axes."""
    waiting, seen = [value], set()
    if value.shape is None or len(value.shape) != MATRIX_RANK:
        return False
    while waiting:
        each = waiting.pop()
        producer = each.producer()
        if producer is None or each in seen or (each.shape is not None and len(each.shape) > MATRIX_RANK):
            continue
        seen.add(each)
        if is_standard(producer, *PRODUCTS):
            return True
        waiting += [source for source in producer.inputs if source is not None]
    return False


def _give_an_axis(quantize: ir.Node, names: Names) -> None:
    graph = home(quantize)
    source, integers = quantize.inputs[0], quantize.outputs[0]
    assert source is not None
    axes = add_initializer(graph, names.fresh(f"{source.name}_front"), np.zeros(1, np.int64))
    widened = ir.Value(name=names.fresh(f"{source.name}_widened"))
    graph.insert_before(quantize, ir.node("Unsqueeze", [source, axes], outputs=[widened]))
    quantize.replace_input_with(0, widened)
    for dequantize in list(integers.consumers()):
        uses = list(dequantize.outputs[0].uses())
        narrowed = ir.Value(name=names.fresh(f"{dequantize.outputs[0].name}_narrowed"))
        flatten = ir.node("Flatten", dequantize.outputs[:1], {"axis": MATRIX_RANK}, outputs=[narrowed])
        graph.insert_after(dequantize, flatten)
        for reader, index in uses:
            reader.replace_input_with(index, narrowed)
