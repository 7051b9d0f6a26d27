"""Checks the sizes that a file states for outputs in runs at several sizes of the open dimensions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import onnx_ir as ir

from edgekit.execution.equivalence import Equivalence
from edgekit.features.dimensions import OpenDims, trials
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.model import Model


def drop_untrue_sizes(model: Model, executed: Equivalence) -> None:
    """Makes stated sizes of outputs unknown if they do not hold at every size of the open dimensions, in place.

    A file states the sizes that the exporter was told, or those that it traced the model with.

    Args:
        model: A model with open dimensions.
        executed: Executes the model.
    """
    found = executed.outputs
    arrays = [spec for spec in model.outputs if spec.shape is not None and isinstance(found[spec.name], np.ndarray)]
    values = {value.name: value for value in model.graph.outputs}
    names = [spec.name for spec in arrays]
    for sizes, shapes in executed.shapes_where_it_runs(names, _choices(model.open_dims)):
        for spec in at_sizes(arrays, sizes):
            _drop(values[spec.name], spec.shape or (), shapes[spec.name])


def _choices(open_dims: OpenDims) -> Iterator[Mapping[str, int]]:
    """The sizes of :func:`trials`, and those in which dimensions with a range get the second size of it.

    A network that scales pictures down and up again returns the input's size if it is a multiple of the network's
    steps, as the least and the greatest size often are.
    """
    yield from trials(open_dims)
    if any(isinstance(sizes, range) for sizes in open_dims.values()):
        yield {
            name: sizes[1] if isinstance(sizes, range) and len(sizes) > 1 else sizes[0]
            for name, sizes in open_dims.items()
        }


def _drop(value: ir.Value, stated: tuple[int | str | None, ...], found: tuple[int, ...]) -> None:
    if value.shape is None or len(stated) != len(found):
        value.shape = None
        return
    untrue = [isinstance(size, int) and size != real for size, real in zip(stated, found, strict=True)]
    if any(untrue):
        dims = [None if wrong else dim for wrong, dim in zip(untrue, value.shape, strict=True)]
        value.shape = ir.Shape(dims)
