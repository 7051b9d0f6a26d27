"""Follows constants that mask positions, such as -3.4e38, through a program while it is executed.

Where float16 reads what they mask, a program bounds them (:mod:`edgekit_mil.passes.masking_constants`): they are no
reason to compute scores and their Softmax in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgekit_mil.passes.masking_constants import MASKING
from edgekit_mlprogram.reach import SELECTS, SUMS
from edgekit_mlruntime.executor import Step

FOLLOWED = SELECTS | SUMS | MASKING
"""Operations whose results are what is masked, moved or with something added to it."""


class Masks:
    """Which numbers of a program mask positions.

    Args:
        largest: Gives the largest magnitude in an array of the float32 program.
        limit: What a constant exceeds that masks.
        bound: Is told of an array of which the numbers from a magnitude on mask.
    """

    def __init__(
        self, largest: Callable[[np.ndarray], float], limit: float, bound: Callable[[np.ndarray, float], None]
    ) -> None:
        self._largest = largest
        self._limit = limit
        self._bound = bound
        self._slots: dict[int, float] = {}
        self._constants: dict[int, tuple[np.ndarray, float]] = {}

    def follow(self, step: Step, inputs: Mapping[str, Any], results: Sequence[Any]) -> bool:
        """Takes note of an operation that was executed.

        Args:
            step: The operation.
            inputs: What its kernel was called with.
            results: What it gave.

        Returns:
            Whether it masks by a constant that float16 does not hold.
        """
        op_type, by_constant = step.call.op_type, False
        levels: list[float] = []
        if op_type not in FOLLOWED:
            return False
        for argument in step.arguments:
            levels += [self._slots[s] for s in argument.sources if isinstance(s, int) and s in self._slots]
            value = inputs[argument.name]
            if argument.is_constant and op_type in MASKING and isinstance(value, np.ndarray):
                masked_by = self._level(value)
                levels += masked_by
                by_constant |= bool(masked_by)
        if not levels or (op_type == "mul" and not by_constant):
            return False
        level = min(levels)
        self._slots.update(dict.fromkeys(step.output_slots, level))
        for result in results:
            if isinstance(result, np.ndarray) and result.dtype == np.float32:
                self._bound(result, level)
        return by_constant

    def _level(self, constant: np.ndarray) -> list[float]:
        """From which magnitude on a constant masks; nothing where it does not."""
        if id(constant) not in self._constants:
            if constant.dtype != np.float32 or self._largest(constant) <= self._limit:
                return []
            self._constants[id(constant)] = constant, self._largest(constant) / 2
        constant, level = self._constants[id(constant)]
        self._bound(constant, level)
        return [level]
