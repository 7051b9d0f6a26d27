"""What lengths and places among a model's inputs stay below where open dimensions have other sizes."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from edgekit.data.limits import index_limits
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.graph.sizes.shapes import fold_shapes, infer_shapes
from edgekit.model import Model


class Lengths:
    """Limits of inputs that count places along an open axis: how many steps a sequence has, or which row is meant.

    Args:
        model: The model with its open dimensions by their names.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._names = {spec.name for spec in model.fed_inputs if spec.dtype.startswith(("int", "uint"))}
        self._known: dict[tuple[tuple[str, int], ...], Mapping[str, int]] = {}

    def work_out(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """Returns what each input that counts places stays below, by name, and keeps it for :meth:`below`.

        Args:
            sizes: The size of each open dimension.
        """
        key = tuple(sizes.items())
        if key not in self._known:
            self._known[key] = self._limits(sizes) if self._names else {}
        return self._known[key]

    def below(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        """The limits that :meth:`work_out` computed for these sizes; empty if it was not called for them."""
        return self._known.get(tuple(sizes.items()), {})

    def _limits(self, sizes: Mapping[str, int]) -> Mapping[str, int]:
        graph_model = self._model.graph_model.clone()
        for value, spec in zip(graph_model.graph.inputs, at_sizes(self._model.inputs, sizes), strict=True):
            value.shape = None if spec.shape is None else ir.Shape(spec.shape)
        for node in graph_model.graph.all_nodes():
            for value in node.outputs:
                value.shape = None
        inferred = infer_shapes(self._model.with_graph(graph_model), strict=False)
        limits = index_limits(fold_shapes(inferred))
        return {name: limit for name, limit in limits.items() if name in self._names and isinstance(limit, int)}
