"""The operations of a network together with those of its branches and loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def with_bodies(network: Any) -> Iterator[Any]:
    """The operations of an ``openvino.Model`` and of all bodies in it; two bodies may name different values alike."""
    for operation in network.get_ops():
        yield operation
        kind = operation.get_type_name()
        if kind == "If":
            yield from with_bodies(operation.get_then_body())
            yield from with_bodies(operation.get_else_body())
        elif kind in ("Loop", "TensorIterator"):
            yield from with_bodies(operation.get_function())
