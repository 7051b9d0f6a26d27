"""Channels that are multiplied by negative numbers and then rounded to integers.

OpenVINO (2026.4) divides the limits of a ``FakeQuantize`` by the factors of the channels, so that the lower limit is
above the upper one where a factor is negative. The kernel for open sizes, and the kernel of an average that includes
the rounding, then clip the numbers between the two. OpenVINO divides by no factor that is ahead of a choice.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from edgekit_openvino.exact.barriers import ROUNDING, barrier, has_several
from edgekit_openvino.exact.replacing import put_behind

AVERAGE = "AvgPool"
NORMALIZATION = "BatchNormInference"
"""Multiplies by its second input; the term that it adds depends on the third and the fourth input."""
FACTORS = frozenset({"Divide", "Multiply", NORMALIZATION})
PASSED = frozenset(
    {AVERAGE, "Clamp", "Concat", "MaxPool", "Maximum", "Minimum", "Negative", "Pad", "Reshape", "Slice", "Split"}
    | {"Broadcast", "Squeeze", "StridedSlice", "Tile", "Transpose", "Unsqueeze", "VariadicSplit"}
)
"""Operations that OpenVINO moves a rounding ahead of, or a factor behind, or that it drops."""


def keep_negative_factors(network: Any, constants: Collection[str]) -> None:
    """Puts a choice behind factors that change signs ahead of roundings, in place; names stay.

    Args:
        network: An ``openvino.Model``.
        constants: The names of the operations that depend on constants alone.
    """
    kept: set[str] = set()
    for rounding in network.get_ordered_ops():
        if rounding.get_type_name() != ROUNDING:
            continue
        for factor in _factors(rounding, constants):
            if factor.get_name() not in kept:
                kept.add(factor.get_name())
                put_behind(factor, barrier)


def _factors(rounding: Any, constants: Collection[str]) -> list[Any]:
    """Returns multiplications by several numbers ahead of a rounding, if these, or later ones, may change signs.

    If the sizes are known, an average has to lie ahead of the rounding as well; otherwise the list is empty.
    """
    found, seen, kinds = [], set(), set()
    waiting = [(rounding.input_value(0).get_node(), False)]
    while waiting:
        each, is_turned = waiting.pop()
        kind, key = each.get_type_name(), (each.get_name(), is_turned)
        if key in seen or (kind not in PASSED and kind not in FACTORS):
            continue
        seen.add(key)
        kinds.add(kind)
        sources = [port.get_source_output().get_node() for port in each.inputs()]
        numbers = _numbers(kind, [source for source in sources if source.get_name() in constants])
        if kind in FACTORS and not numbers:
            continue
        is_turned = is_turned or kind == "Negative" or any(_may_be_negative(number) for number in numbers)
        if kind in FACTORS and is_turned and any(has_several(number.get_output_partial_shape(0)) for number in numbers):
            found.append(each)
        waiting.extend((source, is_turned) for source in sources if source.get_name() not in constants)
    return found if rounding.get_input_partial_shape(0).is_dynamic or AVERAGE in kinds else []


def _numbers(kind: str, constants: Sequence[Any]) -> Sequence[Any]:
    """Returns the constants that a factor multiplies by; none for a normalization that adds a term, and for others."""
    if kind not in FACTORS:
        return []
    if kind != NORMALIZATION:
        return constants
    if len(constants) < 4:
        return []
    factors, *added = constants[:3]
    return [] if any(each.get_type_name() != "Constant" or np.any(each.get_data()) for each in added) else [factors]


def _may_be_negative(number: Any) -> bool:
    return number.get_type_name() != "Constant" or bool(np.any(np.asarray(number.get_data()) < 0))
