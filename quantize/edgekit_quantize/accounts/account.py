"""The account of how a layer was quantized: one row of the record of a written candidate."""

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
    """How one layer, table or recurrent node was quantized."""

    layer: str
    kind: str
    done: str
    """``integers``; ``dynamic integers``: the input is quantized by a range that is found in every run; ``stored as
    integers``: only its weights are integers; ``stored as float16``; ``float``."""
    how: str
    """The methods of quantization, or why the layer is not quantized."""
    source: str = ""
    """The name of the layer's input."""
    sqnr_db: float | None = None
    """Power of the output over that of the error that quantizing only this layer adds, or would add, in decibels."""
    weights_db: float | None = None
    """The ratio of :attr:`sqnr_db` with only the weights quantized."""
    inputs_db: float | None = None
    """The ratio of :attr:`sqnr_db` with only the inputs quantized."""
    low: float | None = None
    """The lowest input over the samples; None if it was not observed. ``high`` is the highest."""
    high: float | None = None
    range_low: float | None = None
    """The lower end of the range that the integers cover; ``range_high`` is the upper end."""
    range_high: float | None = None
    outliers: float | None = None
    """Largest magnitude of the inputs over their root mean square."""
    weights: np.ndarray | None = field(default=None, repr=False, compare=False)
    """The float weights, from which the error of rounding to nearest is computed; not in the record."""
    params: QParams | None = field(default=None, repr=False, compare=False)
    """The parameters of the weights' integers; not in the record."""

    def as_record(self) -> dict[str, Any]:
        """The account as plain data, with infinite ratios as texts."""
        record = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in {"weights", "params"}}
        return record | {name: json_number(record[name]) for name in RATIOS if record[name] is not None}


def largest_error_first(accounts: Iterable[LayerAccount]) -> list[LayerAccount]:
    """The accounts in the order in which they are shown; layers in float last."""
    return sorted(accounts, key=lambda a: (a.done == FLOAT, math.inf if a.sqnr_db is None else a.sqnr_db))
