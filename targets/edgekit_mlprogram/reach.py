"""Numbers that are as large as those that they are selected from, on other inputs if not on the examples.

The greatest of several log-likelihoods is small on examples that look like one of the classes, and as large as the
others on an input that looks like none. So what an operation selects or moves is taken to reach as far as what it is
selected from, and so is the sum of such numbers and small ones.
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
"""Operations each of whose results is one of the numbers that they read, or as large as one."""
CHOOSES = "select"
"""Chooses from two; a constant among these, as what masks a position, is not what other inputs make larger."""
SUMS = frozenset({"add", "sub"})
"""Operations whose result is large where one of the numbers that they read is, and the other is not."""


class Reach:
    """Follows large numbers through a program while it is executed, operation by operation.

    Args:
        is_large: Whether an array of the float32 program may leave float16's range.
    """

    def __init__(self, is_large: Callable[[np.ndarray], bool]) -> None:
        self._is_large = is_large
        self._slots: set[int] = set()

    def follow(self, step: Step, inputs: Mapping[str, Any], results: Sequence[Any]) -> bool:
        """Takes note of an operation that was executed.

        Args:
            step: The operation.
            inputs: What its kernel was called with.
            results: What it gave.

        Returns:
            Whether it reads or gives numbers that reach further than they do here.
        """
        inherited = [argument.name for argument in step.arguments if self._slots.intersection(_slots(argument.sources))]
        large = {name for name, value in inputs.items() if self._any_large(value)} | set(inherited)
        op_type = step.call.op_type
        if op_type == CHOOSES:
            selected = large - {argument.name for argument in step.arguments if argument.is_constant}
        else:
            selected = large if op_type in SELECTS else set()
        if selected or (op_type in SUMS and len(large) == 1):
            self._slots.update(step.output_slots)
            return True
        return bool(inherited)

    def _any_large(self, value: Any) -> bool:
        if isinstance(value, list | tuple):
            return any(map(self._any_large, value))
        return isinstance(value, np.ndarray) and value.dtype == np.float32 and self._is_large(value)


def _slots(sources: Sequence[object]) -> set[int]:
    return {source for source in sources if isinstance(source, int)}
