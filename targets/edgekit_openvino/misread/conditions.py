"""What several kinds of operators are asked about, to tell whether OpenVINO converts them right."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir


def rank_of(value: ir.Value | None) -> int | None:
    """The number of a value's dimensions; None where it is not known."""
    return None if value is None or value.shape is None else value.shape.rank()


def always(_: ir.Node, __: int) -> bool:
    """That all nodes of an operator are of the kind."""
    return True


def is_set(attribute: str) -> Callable[[ir.Node, int], bool]:
    """Whether a node has an attribute that is 1."""
    return lambda node, _: node.attributes.get_int(attribute, 0) == 1


def mode_is(mode: str) -> Callable[[ir.Node, int], bool]:
    """Whether a node's attribute ``mode`` is this one."""
    return lambda node, _: node.attributes.get_string("mode", "") == mode
