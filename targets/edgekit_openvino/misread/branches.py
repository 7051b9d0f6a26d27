"""The operations of a network together with those of its branches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def with_branches(network: Any) -> Iterator[Any]:
    """The operations of an ``openvino.Model`` and of all branches in it; two branches may name different values alike.

    Those of loops are left out: what a body scans has an axis more in OpenVINO.
    """
    for operation in network.get_ops():
        yield operation
        if operation.get_type_name() == "If":
            yield from with_branches(operation.get_then_body())
            yield from with_branches(operation.get_else_body())
