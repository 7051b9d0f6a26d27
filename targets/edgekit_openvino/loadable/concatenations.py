"""Rounds what is concatenated ahead of the Concat, where OpenVINO's CPU plugin would end the process.

Compiling ends with a segmentation fault where two FakeQuantize follow a Concat one after the other, with nothing but
arithmetic with constants between them (seen in OpenVINO 2026.4.1): for example, the second one follows a normalization,
which is folded into it. Rounding is elementwise, so that it gives the same result ahead of the Concat.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from edgekit_openvino.networks import is_constant

_ROUNDS, _JOINS = "FakeQuantize", "Concat"
_FOLDED = {"Add", "BatchNormInference", "Convert", "Divide", "Multiply", "Subtract"}
"""Operations that are folded into what rounds behind them, where all inputs but the first are constants."""


def round_ahead_of_concats(network: Any) -> list[str]:
    """Moves each FakeQuantize that stands between a Concat and another FakeQuantize ahead of the Concat, in place.

    Args:
        network: The ``openvino.Model``.

    Returns:
        The names of the Concats.
    """
    from openvino import opset13

    moved = []
    for rounding in [node for node in network.get_ordered_ops() if node.get_type_name() == _ROUNDS]:
        joined, *ranges = (port.get_source_output() for port in rounding.inputs())
        concat = joined.get_node()
        by_element = all(_is_one(output) and is_constant(output.get_node()) for output in ranges)
        if concat.get_type_name() != _JOINS or not by_element or not any(map(_rounds, _readers(rounding))):
            continue
        parts = [
            opset13.fake_quantize(part.get_source_output(), *ranges, rounding.get_attributes()["levels"])
            for part in concat.inputs()
        ]
        together = opset13.concat(parts, concat.get_attributes()["axis"])
        together.set_friendly_name(rounding.get_friendly_name())
        together.output(0).get_tensor().set_names(rounding.output(0).get_tensor().get_names())
        for port in rounding.output(0).get_target_inputs():
            port.replace_source_output(together.output(0))
        moved.append(concat.get_friendly_name())
    return moved


def _is_one(output: Any) -> bool:
    shape = output.get_partial_shape()
    return bool(shape.is_static and all(size == 1 for size in shape.to_shape()))


def _readers(node: Any) -> Iterator[Any]:
    """Yields the nodes that read the result of a node, directly or through arithmetic with constants."""
    waiting = [node]
    while waiting:
        for port in waiting.pop().output(0).get_target_inputs():
            reader = port.get_node()
            others = [
                each.get_source_output().get_node() for each in reader.inputs() if each.get_index() != port.get_index()
            ]
            if reader.get_type_name() in _FOLDED and all(map(is_constant, others)):
                waiting.append(reader)
            else:
                yield reader


def _rounds(node: Any) -> bool:
    return bool(node.get_type_name() == _ROUNDS)
