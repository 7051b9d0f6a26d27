"""The operations of a network together with those of its branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def with_branches(network: Any) -> Iterator[Any]:
    """The operations of an ``openvino.Model`` and of all branches in it; two branches may name different values alike.

    Operations in loops are left out: a value that a body scans has one axis more in OpenVINO.
    """
    for operation in network.get_ops():
        yield operation
        if operation.get_type_name() == "If":
            yield from with_branches(operation.get_then_body())
            yield from with_branches(operation.get_else_body())
