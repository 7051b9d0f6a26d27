"""The outputs of a classifier."""

from __future__ import annotations

from typing import Any

import numpy as np

from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, kernel


@kernel("classify", raw=True)
def classify(call: Call, probabilities: Array, classes: Any) -> tuple[Any, dict[Any, float]]:
    """The most probable class, and the probabilities by class (str or int)."""
    names = [name if isinstance(name, str) else int(name) for name in classes]
    flat = probabilities.reshape(-1)
    return names[int(np.argmax(flat))], dict(zip(names, map(float, flat), strict=True))
