"""Attention with as many heads as positions, whose queries the CPU plugin overwrites while it still reads them.

The plugin (2026.4) computes attention and the Transposes next to it in one kernel, a head at a time. It lets the kernel
write its result over the queries if both have the same shape. If one of them is transposed inside the kernel and
heads and positions are equally many, a head's result lands on queries of the heads that follow.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.exact.barriers import barrier
from edgekit_openvino.exact.replacing import put_behind
from edgekit_openvino.networks import networks_in

WHOLE = "ScaledDotProductAttention"
PRODUCT = "MatMul"
SOFTMAX = "Softmax"
BRANCHES = "If"
RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")
HEADS, POSITIONS, AXES = 1, 2, 4


def keep_queries(network: Any) -> None:
    """Takes what stands next to attention out of its kernel where that may overwrite queries, in place.

    A barrier is ahead of the queries and another one behind the result; values keep their names.

    Args:
        network: An ``openvino.Model`` that the hardware-independent passes are through with: they drop reshapes, and
            what was attention of one head a batch has heads then.
    """
    for each in networks_in(network):
        for operation in each.get_ordered_ops():
            if operation.get_type_name() == BRANCHES:
                keep_queries(operation.get_then_body())
                keep_queries(operation.get_else_body())
            elif operation.get_type_name() in (WHOLE, PRODUCT) and _looks_unmoved(operation.output(0)):
                _part(operation)


def _part(product: Any) -> None:
    """Puts barriers around the attention that a product ends, if any."""
    result = product.output(0).get_partial_shape()
    scores = [product] if product.get_type_name() == WHOLE else _products_of_scores(product)
    overwritten = [each for each in scores if each.input_value(0).get_partial_shape() == result]
    for each in overwritten:
        each.input(0).replace_source_output(barrier(each.input_value(0)).output(0))
    if overwritten:
        put_behind(product, barrier)


def _looks_unmoved(value: Any) -> bool:
    """Whether a value has the same shape if its heads and positions change places."""
    shape = value.get_partial_shape()
    return bool(shape.is_static and len(shape) == AXES and shape[HEADS] == shape[POSITIONS] != 1)


def _products_of_scores(product: Any) -> list[Any]:
    """Returns the products that a Softmax makes the first operand of a product of; none for other products."""
    classes = _nearest(product.input_value(0), SOFTMAX)
    return [made for each in classes for made in _nearest(each.input_value(0), PRODUCT)]


def _nearest(value: Any, kind: str) -> list[Any]:
    """Returns the operations of a kind that compute a value, with none but reshapes and what keeps shapes between."""
    found, seen = [], set()
    waiting = [(value.get_node(), value.get_partial_shape())]
    while waiting:
        node, shape = waiting.pop()
        reshapes = node.get_type_name() in RESHAPES
        if node.get_name() in seen or not (reshapes or node.get_output_partial_shape(0) == shape):
            continue
        seen.add(node.get_name())
        if node.get_type_name() == kind:
            found.append(node)
        elif node.get_type_name() not in (PRODUCT, SOFTMAX):
            given = node.input_values()[:1] if reshapes else node.input_values()
            waiting += [(each.get_node(), each.get_partial_shape() if reshapes else shape) for each in given]
    return found
