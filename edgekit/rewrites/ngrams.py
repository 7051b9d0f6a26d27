"""Counts of n-grams, by comparing windows of the text with every n-gram of the pool."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.arithmetic import typed

MOST_COMPARISONS = 1 << 22


class ComparedNgrams(Rewrite):
    """``TfIdfVectorizer`` of whole numbers."""

    name: ClassVar[str] = "n-grams by comparison"
    op_types: ClassVar[Sequence[str]] = ("TfIdfVectorizer",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the pool holds numbers; texts are left to runtimes that have the operator."""
        return "pool_int64s" in node.attributes

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """For any number of texts of a known length: the more places and n-grams, the more comparisons."""
        x, _ = typed(node.inputs[0])
        *_, length = x.shape if x.shape is not None else [None]
        if x.shape is None or not isinstance(length, int):
            raise InapplicableError("the length of its texts is not known")
        is_one = x.shape.rank() == 1
        rows = 1 if is_one else x.shape[0]
        attributes = node.attributes
        shortest, longest = (attributes[f"{name}_gram_length"].as_int() for name in ("min", "max"))
        skips = attributes["max_skip_count"].as_int()
        columns = np.array(attributes["ngram_indexes"].as_ints())
        mode = attributes["mode"].as_string()
        weights = np.array(attributes.get_floats("weights", [1.0] * len(columns)), np.float32)
        text = build("Cast", x, to=int(ir.DataType.INT64))
        if is_one:
            text = build.unsqueeze(text, [0])
        parts: list[tuple[ir.Value, np.ndarray]] = []
        for size, pool, ids in _pools(node):
            if not shortest <= size <= longest or not len(pool):
                continue
            steps = [1] if size == 1 else range(1, skips + 2)
            order = np.argsort(columns[ids], kind="stable")
            found = self._found(build, text, pool[order], steps, (rows if isinstance(rows, int) else 1, length))
            if found is not None:
                parts.append((found, columns[ids][order]))
        width = int(columns.max()) + 1
        counts = _by_column(build, parts, width) if parts else None
        by_column = np.ones(width, np.float32)
        by_column[columns] = weights
        if counts is None:
            if not isinstance(rows, int):
                raise InapplicableError("no n-gram fits into its texts, and how many these are is not known")
            counts = build("Identity", np.zeros((rows, width), np.float32))
        if mode == "IDF":
            counts = build("Cast", build("Greater", counts, np.float32(0)), to=int(ir.DataType.FLOAT))
        result = build("Mul", counts, by_column) if mode != "TF" else counts
        return [build("Reshape", result, [width]) if is_one else result]

    def _found(
        self, build: NodeBuilder, text: ir.Value, pool: np.ndarray, steps: Sequence[int], sizes: tuple[int, int]
    ) -> ir.Value | None:
        """Returns how often each n-gram occurs, its words ``steps`` apart: [rows, n-grams]; None if none fits."""
        rows, length = sizes
        total: ir.Value | None = None
        for step in steps:
            places = length - (pool.shape[1] - 1) * step
            if places < 1:
                continue
            if rows * places * pool.size > MOST_COMPARISONS:
                raise InapplicableError(f"{len(pool)} n-grams at {places} places are too many to be compared")
            matches: ir.Value | None = None
            for word in range(pool.shape[1]):
                window = build.slice(text, [word * step], [word * step + places], [1])
                same = build(
                    "Equal", build.unsqueeze(window, [2]), np.ascontiguousarray(pool[:, word]).reshape(1, 1, -1)
                )
                matches = same if matches is None else build("And", matches, same)
            counted = build.reduce("ReduceSum", build("Cast", matches, to=int(ir.DataType.FLOAT)), [1], keepdims=False)
            total = counted if total is None else build("Add", total, counted)
        return total


def _by_column(build: NodeBuilder, parts: Sequence[tuple[ir.Value, np.ndarray]], width: int) -> ir.Value:
    """Returns the counts of n-grams in their output columns: gathered if each has its own, else summed.

    Args:
        build: Makes the nodes.
        parts: Counts [rows, n-grams], with the column of each n-gram.
        width: How many columns there are.
    """
    columns = np.concatenate([outputs for _, outputs in parts])
    if np.array_equal(np.sort(columns), np.arange(width)):
        counts = [found for found, _ in parts]
        whole = build("Concat", *counts, axis=1) if len(counts) > 1 else counts[0]
        in_order = np.array_equal(columns, np.arange(width))
        return whole if in_order else build("Gather", whole, np.argsort(columns), axis=1)
    total: ir.Value | None = None
    for found, outputs in parts:
        places = np.zeros((len(outputs), width), np.float32)
        places[np.arange(len(outputs)), outputs] = 1
        part = build("MatMul", found, places)
        total = part if total is None else build("Add", total, part)
    assert total is not None
    return total


def _pools(node: ir.Node) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Returns the n-grams by size: the size, the words [n-grams, size], and their indices among all n-grams."""
    words = np.array(node.attributes["pool_int64s"].as_ints(), np.int64)
    begins = [*node.attributes["ngram_counts"].as_ints(), len(words)]
    pools, first = [], 0
    for size, (begin, end) in enumerate(itertools.pairwise(begins), start=1):
        pool = words[begin:end].reshape(-1, size)
        pools.append((size, pool, np.arange(first, first + len(pool))))
        first += len(pool)
    return pools
