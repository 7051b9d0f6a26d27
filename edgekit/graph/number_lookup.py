"""Looks numbers up in a list, with standard operators."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder


def looked_up(
    build: NodeBuilder, x: ir.Value, keys: np.ndarray, values: np.ndarray, other: object, *, finds_nan: bool = False
) -> ir.Value:
    """Returns, for each number, the value of the key that it equals, or else ``other``.

    Args:
        build: The builder of the nodes.
        x: Numbers of any shape, whose rank is known.
        keys: ``[n]`` in the type of ``x``, each once.
        values: ``[n]``, texts as objects.
        other: The value for numbers that are no key.
        finds_nan: Whether NaN matches a key that is NaN.
    """
    assert x.shape is not None
    rank = x.shape.rank()
    spread = build.unsqueeze(x, [rank])
    hit = equal(build, spread, keys)
    if finds_nan and keys.dtype.kind == "f" and np.isnan(keys).any():
        hit = build("Or", hit, build("And", build("IsNaN", spread), np.isnan(keys)))
    hits = build.cast(hit, ir.DataType.FLOAT)
    best = build.reduce("ReduceMax", hits, [rank], keepdims=False)
    place = build.places_of_greatest(hits, rank)
    known = build("Greater", best, np.float32(0))
    table = np.append(values, np.asarray(other, values.dtype))
    return build("Gather", table, build("Where", known, place, np.int64(len(keys))), axis=0)


def equal(build: NodeBuilder, x: ir.Value, numbers: np.ndarray | np.generic) -> ir.Value:
    """Compares numbers for equality; before opset 11, where Equal only takes integers, floats use Less and Greater."""
    if build.opset >= 11 or numbers.dtype.kind in "iub":
        return build("Equal", x, numbers)
    apart = build("Or", build("Less", x, numbers), build("Greater", x, numbers))
    return build("Not", build("Or", apart, build("IsNaN", x)))
