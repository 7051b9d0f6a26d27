"""How far the results of a graph's layers are from another graph's.

ONNX Runtime executes both graphs on the CPU, node by node, whatever target a graph is built for.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx_ir as ir

from edgekit.comparison.numbers.metrics import OutputComparison
from edgekit.execution.reference import Reference
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model
from edgekit.progress import Step

MOST_BYTES = 2**28
"""How many bytes of results are compared; if there are more, the largest values are left out."""
AT_ONCE_BYTES = 2**27
"""How many bytes of results each model keeps in memory at a time; a larger value is computed alone."""

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.DOUBLE)


@dataclass(frozen=True)
class LayerErrors:
    """How far the results of layers are from the float model's."""

    sqnr_db: Mapping[str, float]
    """By the name of the value; infinite where both are equal."""
    left_out: int
    """How many of the values that both graphs compute were not compared, because of :data:`MOST_BYTES`."""


def layer_errors(
    original: Model, built: Model, feeds: Mapping[str, np.ndarray], progress: Step | None = None
) -> LayerErrors:
    """Compares the floating-point values that nodes of both main graphs compute under the same name.

    Args:
        original: The float model.
        built: The model that was built from it. Values whose shapes cannot be worked out, or differ, are not compared.
        feeds: One sample.
        progress: Told how many of the values are compared.

    Raises:
        edgekit.execution.reference.NotRunnableError: ONNX Runtime does not execute one of the graphs.
    """
    both = tuple(infer_shapes(model, strict=False) for model in (original, built))
    sizes = _shared_floats(*both)
    compared = within(sizes, MOST_BYTES)
    found: dict[str, float] = {}
    done = 0
    for names in portions(compared, AT_ONCE_BYTES):
        if progress is not None:
            progress("comparing what each layer gives", done, len(compared))
        done += len(names)
        wanted, got = (Reference(with_outputs(model, names), lean=True).run(feeds) for model in both)
        for name in names:
            comparison = OutputComparison(name)
            comparison.add(wanted.pop(name), got.pop(name))
            decibels = comparison.result().sqnr_db
            if decibels is not None:
                found[name] = decibels
    return LayerErrors(found, len(sizes) - len(compared))


def _shared_floats(original: Model, built: Model) -> dict[str, int]:
    """Bytes of the floating-point values that both main graphs compute under one name, in the order of ``built``."""
    known = {value.name: value for node in original.graph for value in node.outputs}
    sizes = {}
    for node in built.graph:
        for value in node.outputs:
            other, shape, dtype = known.get(value.name), value.shape, value.dtype
            if not value.name or other is None or shape is None or dtype not in _FLOATS or not shape.is_static():
                continue
            if (other.shape, other.dtype) == (shape, dtype):
                sizes[value.name] = int(math.prod(shape.numpy()) * dtype.itemsize)
    return sizes


def within(sizes: Mapping[str, int], most: int) -> dict[str, int]:
    """Returns the values without the largest ones, so that all together take at most ``most`` bytes."""
    kept: set[str] = set()
    total = 0
    for name, size in sorted(sizes.items(), key=lambda item: item[1]):
        total += size
        if total > most:
            break
        kept.add(name)
    return {name: size for name, size in sizes.items() if name in kept}


def portions(sizes: Mapping[str, int], most: int) -> Iterator[list[str]]:
    """Yields the names in groups of at most ``most`` bytes; a value that is larger is a group alone."""
    group: list[str] = []
    total = 0
    for name, size in sizes.items():
        if group and total + size > most:
            yield group
            group, total = [], 0
        group.append(name)
        total += size
    if group:
        yield group


def with_outputs(model: Model, names: Sequence[str]) -> Model:
    """Returns the model with the named values as its outputs; names that the model does not have are left out."""
    copy = model.graph_model.clone()
    values = ir.convenience.create_value_mapping(copy.graph, include_subgraphs=False)
    copy.graph.outputs[:] = [values[name] for name in names if name in values]
    return model.with_graph(copy)


def showing(file: Path, names: Sequence[str]) -> Model:
    """Returns the model of an ONNX file with inner values as its outputs; names that it does not have are left out."""
    return with_outputs(infer_shapes(Model(ir.load(file), file), strict=False), names)
