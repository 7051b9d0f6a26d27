"""Keeps products of integers that follow each other from becoming one kernel that computes them wrong."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.nodes import Names, add_initializer, home, is_standard

MATRIX_RANK = 2
"""How many axes tensors have at most that OpenVINO makes such a kernel of."""
PRODUCTS = ("Gemm", "MatMul")


def set_products_apart(pairs: Iterable[tuple[ir.Value, ir.Node]], names: Names) -> int:
    """Round with one axis more in front what comes of a product of matrices and goes into another one, in place.

    OpenVINO's CPU plugin makes one kernel of both, which gives zeros, or 1e9, with VNNI or AMX (2026.4), unless a
    tensor between has a third axis. The numbers are the same. Flatten drops it: ONNX Runtime (1.31) moves a
    DequantizeLinear behind a Squeeze, and takes signed integers for unsigned ones where it has no zero point.

    Args:
        pairs: Tensors, and the QuantizeLinear nodes that make integers of them with one scale.
        names: Those that are taken in the model.

    Returns:
        How many are rounded so now.
    """
    chosen = [node for value, node in pairs if _goes_into_a_product(node) and _comes_of_a_product(value)]
    for node in chosen:
        _give_an_axis(node, names)
    return len(chosen)


def _goes_into_a_product(quantize: ir.Node) -> bool:
    dequantized = [node.outputs[0] for node in quantize.outputs[0].consumers()]
    return any(is_standard(reader, *PRODUCTS) for value in dequantized for reader in value.consumers())


def _comes_of_a_product(value: ir.Value) -> bool:
    """Whether nothing but tensors of up to two axes, and of as many, stands between the last product and a tensor."""
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
