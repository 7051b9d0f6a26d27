"""What lengths among a model's inputs stay below where open dimensions have other sizes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from edgekit.data.limits import index_limits
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.sizes.shapes import fold_shapes, infer_shapes
from edgekit.model import Model, ValueSpec


class Lengths:
    """Inputs that count places along an open axis, how many steps each sequence has, say.

    Args:
        model: The model with its open dimensions by their names.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._names = {spec.name for spec in model.fed_inputs if _may_count(spec)}

    def below(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """What each of them stays below, by its name.

        Args:
            sizes: The size of each open dimension.
        """
        if not self._names:
            return {}
        graph_model = self._model.graph_model.clone()
        for value, spec in zip(graph_model.graph.inputs, at_sizes(self._model.inputs, sizes), strict=True):
            value.shape = None if spec.shape is None else ir.Shape(spec.shape)
        for node in graph_model.graph.all_nodes():
            for value in node.outputs:
                value.shape = None
        inferred = infer_shapes(self._model.with_graph(graph_model), strict=False)
        limits = index_limits(fold_shapes(inferred))
        return {name: limit for name, limit in limits.items() if name in self._names and isinstance(limit, int)}


def _may_count(spec: ValueSpec) -> bool:
    """Whether it holds integers, a fixed number of them for each item of a batch."""
    is_integer = spec.dtype.startswith(("int", "uint"))
    return is_integer and spec.shape is not None and all(isinstance(dim, int) for dim in spec.shape[1:])
