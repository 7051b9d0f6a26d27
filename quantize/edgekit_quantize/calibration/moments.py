"""Second moments of the inputs of a layer's matrix product, accumulated sample by sample."""

from __future__ import annotations

import math
from collections.abc import Hashable

import numpy as np
import onnx_ir as ir

from edgekit_quantize.graph.geometry import integers, padding_of
from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.graph.nodes import integer

ROWS = 128
"""The maximum number of rows of a sample's product that are used, evenly spread: neighboring rows are similar."""
ROWS_IN_ALL = 8192
"""The number of rows over all samples that is enough: eight for each input of the longest row."""
LEAST_ROWS = 16
"""The number of rows that are used of each sample even if there are many samples: fewer would not be spread over the
sample, as the first ones are those of a picture's upper edge."""
LONGEST_ROW = 1024
"""Layers with more inputs per output than this are rounded to nearest: their moments take too much memory, and the
errors of a sum of many terms cancel out."""
TOGETHER = 1024
"""About how many rows are collected before they are multiplied: for a few rows, adding the product to the sum takes
longer than the product."""


class Moments:
    """Second moments of the rows that a layer multiplies with its weights.

    A row has the layer's ``K`` inputs in the order of its flattened weights: channels of a MatMul or Gemm, patches
    (channel, then kernel position) of a convolution with one group.
    """

    def __init__(self, size: int) -> None:
        self.count = 0
        self._products = np.zeros((size, size), np.float64)
        self._waiting = np.empty((0, size), np.float32)
        self._waits = 0

    def update(self, rows: np.ndarray) -> None:
        """Add rows, float32 of shape ``[n, K]``; those with numbers that are not finite are left out."""
        finite = np.isfinite(rows).all(1)
        rows = rows if finite.all() else rows[finite]
        if self._waits + len(rows) > len(self._waiting):
            self._multiply()
            if len(rows) > len(self._waiting):
                self._waiting = np.empty((max(TOGETHER, len(rows)), rows.shape[1]), np.float32)
        self._waiting[self._waits : self._waits + len(rows)] = rows
        self._waits += len(rows)
        self.count += len(rows)

    def _multiply(self) -> None:
        rows = self._waiting[: self._waits]
        if len(rows):
            self._products += rows.T @ rows
        self._waits = 0

    @property
    def second(self) -> np.ndarray:
        """``E[x x']``, ``[K, K]``, about zero."""
        self._multiply()
        return self._products / max(self.count, 1)


def moments_bytes(size: int) -> int:
    """The memory in bytes that :class:`Moments` take for rows with ``size`` inputs."""
    return 8 * size * size + 4 * TOGETHER * size


def row_length(layer: Layer) -> int | None:
    """How many inputs a row has; None if the layer is no single matrix product (groups, ConvTranspose)."""
    weights = layer.weights()
    if layer.kind == "Conv" and integer(layer.node, "group", 1) == 1:
        return int(weights.size // weights.shape[0])
    if layer.kind in {"MatMul", "Gemm"} and weights.ndim == 2 and layer.data_index == 0:
        return int(weights.size // weights.shape[layer.channel_axis])
    return None


def taken_rows(layer: Layer) -> Hashable:
    """A key for the rows that the layer takes of its input: layers with equal input and key multiply equal rows."""
    if layer.kind != "Conv":
        return layer.kind == "Gemm" and integer(layer.node, "transA", 0)
    geometry = {name: str(layer.node.attributes.get(name)) for name in ("auto_pad", "pads", "strides", "dilations")}
    return layer.weights().shape[1:], tuple(geometry.items())


def rows_each(samples: int) -> int:
    """How many rows are taken of each sample at most: :data:`ROWS`, or fewer if there are many samples."""
    return min(ROWS, max(LEAST_ROWS, -(-ROWS_IN_ALL // max(samples, 1))))


def rows_of(layer: Layer, data: np.ndarray, most: int = ROWS) -> np.ndarray:
    """The rows that the layer multiplies for one input, thinned out to about ``most``; float32 ``[n, K]``.

    The result is empty if the input has no rows, as for an expert that gets no token.
    """
    if layer.kind != "Conv":
        if layer.kind == "Gemm" and integer(layer.node, "transA", 0):
            data = data.T
        rows = data.reshape(-1, data.shape[-1])
        return np.ascontiguousarray(rows[:: max(-(-len(rows) // most), 1)], np.float32)
    return _patches(layer.node, data, layer.weights().shape[2:], most)


def _patches(node: ir.Node, data: np.ndarray, kernel: tuple[int, ...], most: int) -> np.ndarray:
    axes = len(kernel)
    strides, dilations = (integers(node, name, [1] * axes) for name in ("strides", "dilations"))
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    padding = padding_of(node, data.shape[2:], reach, strides)
    padded = np.pad(data, [(0, 0), (0, 0), *padding]) if any(map(any, padding)) else data
    windows = np.lib.stride_tricks.sliding_window_view(padded, reach, tuple(range(2, 2 + axes)))
    places = [slice(None, None, stride) for stride in strides]
    taps = [slice(None, None, dilation) for dilation in dilations]
    windows = windows[(slice(None), slice(None), *places, *taps)]  # [N, C, *output, *kernel]
    order = (0, *range(2, 2 + axes), 1, *range(2 + axes, 2 + 2 * axes))
    windows = windows.transpose(order)
    outputs = windows.shape[: 1 + axes]
    total = int(np.prod(outputs))
    chosen = np.unravel_index(np.arange(0, total, max(-(-total // most), 1)), outputs)
    return np.ascontiguousarray(
        windows[chosen].reshape(len(chosen[0]), math.prod(windows.shape[1 + axes :])), np.float32
    )
