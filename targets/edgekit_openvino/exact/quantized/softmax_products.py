"""Products behind a Softmax of a product, whose weights are stored as integers.

OpenVINO's CPU plugin treats two such products as attention and makes one kernel of them. If the first product
multiplies integers, the kernel is wrong: it gives 1e30 if the input of the second product is not rounded, and wrong
numbers at times if it is (OpenVINO 2026.4.1). If the second product's weights are stored as floats, it is right.
"""

from __future__ import annotations

from typing import Any

from edgekit_openvino.loadable.matrix_chains import JOINS, PRODUCT, UNARY
from edgekit_openvino.loadable.stored_weights import WIDENING, computed_constant

SOFTMAX = "Softmax"
PASSING = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Operations that the plugin leaves out, or computes in its kernel of attention."""


def widen_behind_softmax(network: Any) -> list[str]:
    """Stores the integer weights of products behind a Softmax of a product as floats, in place.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The names of the second products.
    """
    found = [operation for operation in network.get_ordered_ops() if _is_second(operation)]
    for product in found:
        product.input(1).replace_source_output(computed_constant(product.input_value(1)).output(0))
    return [product.get_friendly_name() for product in found]


def _is_second(product: Any) -> bool:
    return (
        product.get_type_name() == PRODUCT
        and _stored_as_integers(product.input_value(1).get_node())
        and _is_behind(product.input_value(0), SOFTMAX, PRODUCT)
    )


def _stored_as_integers(node: Any) -> bool:
    while node.get_type_name() in WIDENING:
        node = node.input_value(0).get_node()
    return node.get_type_name() == "Constant" and bool(node.get_element_type().is_integral())


def _is_behind(value: Any, kind: str, *before: str) -> bool:
    """Whether elementwise operations lead to a value from an operation of ``kind``, and to that from ``before``."""
    waiting, seen = [value.get_node()], set()
    while waiting:
        node = waiting.pop()
        if node.get_name() in seen:
            continue
        seen.add(node.get_name())
        if node.get_type_name() == kind and (not before or _is_behind(node.input_value(0), *before)):
            return True
        if node.get_type_name() in JOINS | UNARY | PASSING:
            waiting += [port.get_node() for port in node.input_values()]
    return False
