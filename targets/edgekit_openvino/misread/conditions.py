"""Conditions for several kinds of operators, to tell whether OpenVINO converts them right."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir


def rank_of(value: ir.Value | None) -> int | None:
    """The number of a value's dimensions; None where it is not known."""
    return None if value is None or value.shape is None else value.shape.rank()


def always(_: ir.Node, __: int) -> bool:
    """The condition that every node of an operator meets."""
    return True


def is_set(attribute: str) -> Callable[[ir.Node, int], bool]:
    """Returns the condition that the attribute of a node is 1."""
    return lambda node, _: node.attributes.get_int(attribute, 0) == 1


def is_not_zero(attribute: str) -> Callable[[ir.Node, int], bool]:
    """Returns the condition that the attribute of a node is set to any number but 0, as ONNX Runtime reads some."""
    return lambda node, _: node.attributes.get_int(attribute, 0) != 0


def mode_is(mode: str) -> Callable[[ir.Node, int], bool]:
    """Returns the condition that the attribute ``mode`` of a node is the given one."""
    return lambda node, _: node.attributes.get_string("mode", "") == mode
