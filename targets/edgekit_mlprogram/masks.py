"""Follows constants that mask positions, such as -3.4e38, through a program while it is executed.

Where float16 reads masked numbers, a program bounds them (:mod:`edgekit_mil.passes.masking_constants`). So these
constants are no reason to compute scores and their Softmax in float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgekit_mil.passes.masking_constants import MASKING
from edgekit_mlprogram.reach import SELECTS, SUMS
from edgekit_mlruntime.executor import Step

LEAST = 2.0**26
"""Least magnitude of a constant that masks: of what is added to it, float32 keeps only multiples of 8."""
FOLLOWED = SELECTS | SUMS | MASKING
"""Operations whose results are masked numbers, moved or with something added to them."""
ENDS = frozenset({"exp", "reduce_argmax", "reduce_log_sum_exp", "sigmoid", "softmax"})
"""Operations whose results do not depend on how far one number is below the others."""


class Masks:
    """Finds the numbers of a program that mask positions.

    Args:
        largest: Gives the largest magnitude in an array of the float32 program.
        bound: Called with an array and a magnitude: numbers of the array of at least this magnitude mask.

    Attributes:
        are_read: Whether some operation reads masks as ordinary numbers, so that they must not be treated as masks.
    """

    def __init__(self, largest: Callable[[np.ndarray], float], bound: Callable[[np.ndarray, float], None]) -> None:
        self.are_read = False
        self._largest = largest
        self._bound = bound
        self._slots: dict[int, float] = {}
        self._constants: dict[int, tuple[np.ndarray, float]] = {}
        self._masked: list[np.ndarray] = []

    def follow(self, step: Step, inputs: Mapping[str, Any], results: Sequence[Any]) -> bool:
        """Records an operation that was executed.

        Args:
            step: The operation.
            inputs: What its kernel was called with.
            results: Its results.

        Returns:
            Whether the operation masks by a constant.
        """
        op_type = step.call.op_type
        inherited = [
            self._slots[s] for a in step.arguments for s in a.sources if isinstance(s, int) and s in self._slots
        ]
        own = self._own(step, inputs, results) if op_type in MASKING else []
        if inherited and (op_type not in FOLLOWED | ENDS or (op_type == "mul" and not own)):
            self.are_read = True
        if op_type not in FOLLOWED or not (inherited or own):
            return False
        level = min([*inherited, *own])
        self._slots.update(dict.fromkeys(step.output_slots, level))
        for result in results:
            if isinstance(result, np.ndarray) and result.dtype == np.float32:
                self._bound(result, level)
                self._masked.append(result)
        return bool(own)

    def look_at(self, outputs: Mapping[str, np.ndarray]) -> None:
        """Records the program's outputs at the end of a run: masks among them count as read."""
        given = [(output, masked) for output in outputs.values() for masked in self._masked]
        self.are_read |= any(np.may_share_memory(*each) for each in given)
        self._masked.clear()

    def _own(self, step: Step, inputs: Mapping[str, Any], results: Sequence[Any]) -> list[float]:
        """The magnitudes from which the constants mask; a factor masks only if its products are 0 or as large."""
        constants = [inputs[a.name] for a in step.arguments if a.is_constant]
        levels = [level for each in constants if isinstance(each, np.ndarray) for level in self._level(each)]
        if levels and step.call.op_type == "mul":
            products = np.abs(results[0])
            if not ((products == 0) | (products >= min(levels))).all():
                return []
        for each in constants:
            if levels and isinstance(each, np.ndarray) and each.dtype == np.float32:
                self._bound(each, min(levels))
        return levels

    def _level(self, constant: np.ndarray) -> list[float]:
        """Returns the magnitude from which on a constant masks, in a list; the list is empty if it does not mask."""
        if id(constant) not in self._constants:
            if constant.dtype != np.float32 or self._largest(constant) < LEAST:
                return []
            self._constants[id(constant)] = constant, self._largest(constant) / 2
        return [self._constants[id(constant)][1]]
