"""What became of a layer: one row of the record that the writer of a candidate leaves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from edgekit.comparison.numbers.metrics import json_number
from edgekit_quantize.integers.qparams import QParams

INTEGERS, DYNAMIC, STORED, FLOAT = "integers", "dynamic integers", "stored as integers", "float"
HALF = "stored as float16"
RATIOS = ("sqnr_db", "weights_db", "inputs_db")


@dataclass(frozen=True)
class LayerAccount:
    """What became of one layer, table or recurrent node."""

    layer: str
    kind: str
    done: str
    """``integers``; ``dynamic integers``: the input is quantized by its own range every time; ``stored as integers``:
    its weights alone are; ``stored as float16``; ``float``."""
    how: str
    """By which methods, or why not."""
    source: str = ""
    """The tensor that comes in."""
    sqnr_db: float | None = None
    """Power of the output over that of the error that integers add, or would add, to this layer alone."""
    weights_db: float | None = None
    """The same for the weights alone."""
    inputs_db: float | None = None
    """The same for the inputs alone."""
    low: float | None = None
    """The extremes of the inputs, where samples told."""
    high: float | None = None
    range_low: float | None = None
    """The range that the integers cover."""
    range_high: float | None = None
    outliers: float | None = None
    """Largest magnitude of the inputs over their root mean square."""
    weights: np.ndarray | None = field(default=None, repr=False, compare=False)
    """The float weights that were rounded to nearest, for the error to be found by; not in the record."""
    params: QParams | None = field(default=None, repr=False, compare=False)
    """How they were rounded; not in the record."""

    def as_record(self) -> dict[str, Any]:
        """Plain data; infinite ratios as texts."""
        record = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"weights", "params"}}
        return record | {name: json_number(record[name]) for name in RATIOS if record[name] is not None}


def largest_error_first(accounts: Iterable[LayerAccount]) -> list[LayerAccount]:
    """The accounts in the order in which they are shown; layers in float last."""
    return sorted(accounts, key=lambda a: (a.done == FLOAT, math.inf if a.sqnr_db is None else a.sqnr_db))
