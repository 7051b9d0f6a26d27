"""The parts of a network: the bodies of its loops, and the operations in all of them."""

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
