"""The parts of a network: the bodies of its loops, the operations in all of them, and what follows from constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

LOOPS = ("TensorIterator", "Loop")


def networks_in(network: Any) -> Iterator[Any]:
    """The ``openvino.Model`` and the bodies of its loops, those inside of others first."""
    for operation in network.get_ordered_ops():
        if operation.get_type_name() in LOOPS:
            yield from networks_in(operation.get_function())
    yield network


def operations_of(network: Any, kind: str) -> list[Any]:
    """The operations of a kind in an ``openvino.Model`` and in the bodies of its loops, which may then be replaced."""
    return [
        operation
        for each in networks_in(network)
        for operation in each.get_ordered_ops()
        if operation.get_type_name() == kind
    ]


def is_constant(node: Any) -> bool:
    """Whether the results of an operation depend on constants alone."""
    waiting, seen = [node], set()
    while waiting:
        each = waiting.pop()
        if each.get_name() in seen:
            continue
        seen.add(each.get_name())
        sources = [each.input_value(place).get_node() for place in range(each.get_input_size())]
        if not sources and each.get_type_name() != "Constant":
            return False
        waiting += sources
    return True
