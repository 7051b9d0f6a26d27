"""Values inside a model on given inputs: their numbers, their shapes, their types."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from edgekit.data.battery import KINDS, battery_inputs
from edgekit.data.limits import index_limits
from edgekit.errors import InputError
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.graph.sizes.shape_request import at_sizes, independent_dims
from edgekit.model import Arrays, Model

_SHAPE_OF = "/edgekit/shape"
"""Suffix of the name of an output that is the shape of a value."""

_SIZES = (2, 3, 5, 7, 11, 13, 17, 19)
"""Sizes of the inputs' free dimensions: each gets another size in a first run, and the next size in a second run."""


@dataclass(frozen=True)
class InnerValues:
    """Values of a model's main graph on given inputs; each call of a method opens the model anew."""

    model: Model
    feeds: Arrays

    def numbers(self, names: Collection[str]) -> Arrays:
        """The values by name, and all inputs."""
        inside = [name for name in names if name not in self.feeds]
        return self.feeds | (Reference(returning(self.model, inside)).run(self.feeds) if inside else {})

    def shapes(self, names: Collection[str]) -> dict[str, tuple[int, ...]]:
        """The shapes of values by name; the values themselves do not leave the runtime."""
        return MeasuredShapes(self.model, names)(self.feeds)

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        """ONNX Runtime's names of the types of values that nodes compute; nothing is executed."""
        return Reference(returning(self.model, names)).types


class MeasuredShapes:
    """The shapes of a model's values, measured by one session; the values do not leave it.

    Args:
        model: The model; it is not changed.
        names: Values of the main graph.

    Raises:
        NotRunnableError: The model cannot be executed.
    """

    def __init__(self, model: Model, names: Collection[str]) -> None:
        fed = {spec.name for spec in model.inputs}
        self._names = names
        self._inside = [name for name in names if name not in fed]
        self._session = Reference(_with_shapes(model, self._inside)) if self._inside else None

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> dict[str, tuple[int, ...]]:
        """The shapes by name, on the inputs ``feeds``.

        Raises:
            NotRunnableError: The model does not run on these inputs.
        """
        found = {name: array.shape for name, array in feeds.items() if name in self._names}
        measured = {} if self._session is None else self._session.run(feeds)
        return found | {name: tuple(map(int, measured[f"{name}{_SHAPE_OF}"])) for name in self._inside}


def with_measured_dimensions(model: Model, names: Collection[str]) -> Model:
    """The model with dimensions of values that shape inference does not know, as far as two runs show them.

    Free dimensions of the inputs have different sizes in each run. A dimension of a value gets the name of the free
    dimension that has the same size as the value's in both runs.

    Args:
        model: A model whose inputs have free dimensions with names; it is not changed.
        names: Values of the main graph.

    Returns:
        The changed model, or the given one if it cannot be executed at these sizes.
    """
    free = sorted(independent_dims(model.inputs))
    if not free or len(free) >= len(_SIZES):
        return model
    runs = [dict(zip(free, sizes, strict=False)) for sizes in (_SIZES, _SIZES[1:])]
    limits = index_limits(model)
    try:
        feeds = [battery_inputs(at_sizes(model.inputs, sizes), KINDS[0], limits) for sizes in runs]
        first, second = map(MeasuredShapes(model, names), feeds)
    except (InputError, NotRunnableError):
        return model
    called = {(runs[0][dim], runs[1][dim]): dim for dim in free}
    graph_model = model.graph_model.clone()
    for value in [value for node in graph_model.graph for value in node.outputs if value.name in names]:
        sizes = list(zip(first[str(value.name)], second[str(value.name)], strict=False))
        known = [None] * len(sizes) if value.shape is None else list(value.shape)
        value.shape = ir.Shape(
            [called.get(pair) if _is_unknown(dim) else dim for dim, pair in zip(known, sizes, strict=False)]
        )
    return model.with_graph(graph_model)


def _is_unknown(dim: int | ir.SymbolicDim | None) -> bool:
    return dim is None or (isinstance(dim, ir.SymbolicDim) and dim.value is None)


def returning(model: Model, names: Collection[str]) -> Model:
    """The model with further values as outputs."""
    if not names:
        return model
    graph_model = model.graph_model.clone()
    returned = {value.name for value in graph_model.graph.outputs}
    made = {value.name: value for node in graph_model.graph for value in node.outputs}
    graph_model.graph.outputs.extend(made[name] for name in names if name not in returned)
    return model.with_graph(graph_model)


def _with_shapes(model: Model, names: Collection[str]) -> Model:
    """The model with the shapes of values as its only outputs."""
    graph_model = model.graph_model.clone()
    made = {value.name: value for node in graph_model.graph for value in node.outputs}
    graph_model.graph.outputs.clear()
    for name in names:
        node = ir.node("Shape", [made[name]], outputs=[ir.Value(name=f"{name}{_SHAPE_OF}")])
        graph_model.graph.append(node)
        graph_model.graph.outputs.append(node.outputs[0])
    return model.with_graph(graph_model)
