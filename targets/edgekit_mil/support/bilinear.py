"""Core ML's own bilinear resizing as a table of weights."""

from __future__ import annotations

import numpy as np

from edgekit.graph.resize_tables import Axis, Table, linear_table


def bilinear_table(size: int, out: int, sampling_mode: str) -> Table:
    """Weights that MIL's ``resize_bilinear`` documents for a sampling mode."""
    x = np.arange(out)
    if sampling_mode == "UNALIGN_CORNERS":
        grid = (x + 0.5) * size / out - 0.5
    elif sampling_mode == "DEFAULT":
        grid = x * size / out
    elif sampling_mode == "STRICT_ALIGN_CORNERS":
        grid = x * (size - 1) / max(out - 1, 1)
    else:
        raise ValueError(f"no table for {sampling_mode}")
    axis = Axis(size, out, out / size)
    return linear_table(axis, np.clip(grid, 0, size - 1), antialias=False, exclude_outside=False)
