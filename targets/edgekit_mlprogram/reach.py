"""Finds numbers that may become as large as the numbers they are selected from, on other inputs than the examples.

The greatest of several log-likelihoods is small on examples that look like one of the classes, and as large as the
others on an input that looks like none. So the result of an operation that selects or moves numbers is assumed to reach
as far as the numbers it is selected from, and so is the sum of such a number and a small one; a constant factor scales
how far it reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from edgekit_mlruntime.executor import Step

SELECTS = frozenset(
    {
        "abs",
        "gather",
        "gather_along_axis",
        "gather_nd",
        "slice_by_index",
        "slice_by_size",
        "sliding_windows",
        "split",
        "max_pool",
        "reduce_max",
        "reduce_min",
        "topk",
        "concat",
        "pad",
        "stack",
        "tile",
        "batch_to_space",
        "depth_to_space",
        "pixel_shuffle",
        "pixel_unshuffle",
        "space_to_batch",
        "space_to_depth",
        "expand_dims",
        "flatten2d",
        "identity",
        "reshape",
        "reshape_like",
        "reverse",
        "reverse_sequence",
        "squeeze",
        "transpose",
    }
)
"""Operations each of whose results is one of their input numbers, or as large as one."""
CHOOSES = "select"
"""The operation that chooses between two inputs; a constant input, as a mask is, does not grow on other inputs."""
SUMS = frozenset({"add", "sub"})
"""Operations whose result is large if one of the two inputs is large and the other is not."""
SMALLEST = float(np.finfo(np.float32).tiny)
"""Smaller divisors, and zero, are replaced by this number."""
SCALES = {"mul": {"x", "y"}, "real_div": {"y"}}
"""Operations that scale by a constant, and the inputs that may be that constant."""


class Reach:
    """Follows large numbers through a program while it is executed, operation by operation.

    Args:
        largest: Gives the largest magnitude in an array of the float32 program.
        limit: Numbers of a larger magnitude may leave float16's range.
    """

    def __init__(self, largest: Callable[[np.ndarray], float], limit: float) -> None:
        self._largest = largest
        self._limit = limit
        self._slots: dict[int, float] = {}

    def follow(self, step: Step, inputs: Mapping[str, Any], results: Sequence[Any]) -> bool:
        """Records an operation that was executed.

        Args:
            step: The operation.
            inputs: What its kernel was called with.
            results: Its results.

        Returns:
            Whether its inputs or results may be larger than the limit, here or on other inputs.
        """
        inherited = self._inherited(step)
        reached = self._reached(step, inputs, inherited)
        if reached > self._limit:
            for slot in step.output_slots:
                self._slots[slot] = max(reached, self._slots.get(slot, 0.0))
            return True
        return bool(inherited)

    def _inherited(self, step: Step) -> dict[str, float]:
        """Returns how far each input reaches that was selected from larger numbers, by the input's name."""
        sources = {
            argument.name: [self._slots[s] for s in argument.sources if isinstance(s, int) and s in self._slots]
            for argument in step.arguments
        }
        return {name: max(reaches) for name, reaches in sources.items() if reaches}

    def _reached(self, step: Step, inputs: Mapping[str, Any], inherited: Mapping[str, float]) -> float:
        """Returns the magnitude that the results may reach on other inputs; 0 if they reach no further than here."""
        op_type = step.call.op_type
        if op_type in SCALES:
            return max((reach * self._factor(step, inputs, name) for name, reach in inherited.items()), default=0.0)
        reaches = {name: max(self._magnitude(value), inherited.get(name, 0.0)) for name, value in inputs.items()}
        large = {name: reach for name, reach in reaches.items() if reach > self._limit}
        if op_type == CHOOSES:
            constants = {argument.name for argument in step.arguments if argument.is_constant}
            return max((reach for name, reach in large.items() if name not in constants), default=0.0)
        if op_type in SELECTS or (op_type in SUMS and len(large) == 1):
            return max(large.values(), default=0.0)
        return 0.0

    def _factor(self, step: Step, inputs: Mapping[str, Any], scaled: str) -> float:
        """Returns the largest factor by which the input ``scaled`` is scaled; 0 if the factor is not constant."""
        for argument in step.arguments:
            name = argument.name
            if argument.is_constant and name != scaled and name in SCALES[step.call.op_type]:
                sizes = np.abs(inputs[name])
                if step.call.op_type == "mul":
                    return float(sizes.max(initial=0.0))
                return 1 / max(float(sizes.min(initial=np.inf)), SMALLEST)
        return 0.0

    def _magnitude(self, value: Any) -> float:
        if isinstance(value, list | tuple):
            return max(map(self._magnitude, value), default=0.0)
        return self._largest(value) if isinstance(value, np.ndarray) and value.dtype == np.float32 else 0.0
