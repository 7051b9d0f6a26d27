"""What it costs to keep a candidate's layers in float, and what noise they add at the outputs otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from edgekit.graph.cost import node_macs
from edgekit.progress import Step
from edgekit_quantize.accounts.errors import by_error_for_cost
from edgekit_quantize.accounts.explain import with_errors
from edgekit_quantize.calibration.statistics import Calibration
from edgekit_quantize.graph.nodes import constant
from edgekit_quantize.integers.stored_weights import recurrent_name, recurrent_weights
from edgekit_quantize.placement import place
from edgekit_quantize.search.bench import Write
from edgekit_quantize.search.in_float import LayerNoise, StoredCosts
from edgekit_quantize.search.output_noise import noise_of_inputs
from edgekit_quantize.search.stored_noise import noise_of_stored
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.written import Written


@dataclass(frozen=True)
class MeasuredCosts:
    """The costs of keeping layers in float; see :class:`edgekit_quantize.search.near_miss.Costs`."""

    model: ir.Model
    """The prepared float model."""
    calibration: Calibration
    progress: Step | None = None

    def noises(self, of: Written, settings: Settings) -> Mapping[str, LayerNoise]:
        """The noise and the cost of each layer of a candidate that computes with integers."""
        tensors, computing = self.calibration.tensors, set(of.quantized)
        plan = place(self.model.graph, settings, of.keep_float, tensors=tensors)
        found = noise_of_inputs(self.model, plan, tensors, self.calibration.references, self._report)
        layers = {layer.name: layer for layer in plan.layers if layer.name in computing}
        return {
            name: LayerNoise(noise, float(node_macs(layers[name].node) or layers[name].weights().size))
            for name, noise in found.items()
            if name in layers
        }

    def stored(self, of: Written, settings: Settings) -> StoredCosts:
        """The costs of the layers whose weights a candidate only stores as integers."""
        tensors = self.calibration.tensors
        plan = place(self.model.graph, settings, tensors=tensors)
        accounts = with_errors(of.accounts, self.model, settings, tensors)
        left = [each for each in accounts if each.layer in of.stored and each.kind != "Gather"]
        sizes = {layer.name: float(layer.weights().size) for layer in plan.stored}
        known = [(each.layer, each.sqnr_db, sizes[each.layer]) for each in left if each.layer in sizes]
        by_size = by_error_for_cost((layer, db, size) for layer, db, size in known if db is not None)
        return StoredCosts({each.layer: 1.0 for each in left}, by_size)

    def noises_of_stored(self, of: Written, settings: Settings, write: Write) -> Mapping[str, LayerNoise]:
        """The noise and the size of each layer whose weights a candidate only stores; empty if that takes too long."""
        plan = place(self.model.graph, settings, tensors=self.calibration.tensors)
        sizes = {layer.name: float(layer.weights().size) for layer in plan.stored}
        for node, place_of_weights, _ in recurrent_weights(self.model):
            array = constant(node.inputs[place_of_weights])
            sizes[recurrent_name(node, place_of_weights)] = 0.0 if array is None else float(array.size)
        layers = [each.layer for each in of.accounts if each.layer in of.stored and each.layer in sizes]
        found = noise_of_stored(
            self.model,
            layers,
            lambda in_float: write(settings, [*of.keep_float, *in_float], False).model,
            self.calibration.references,
            self._report,
        )
        return {layer: LayerNoise(noise, sizes[layer]) for layer, noise in found.items()}

    def _report(self, done: int, total: int) -> None:
        if self.progress is not None:
            self.progress("measuring what each layer adds", done, total)
