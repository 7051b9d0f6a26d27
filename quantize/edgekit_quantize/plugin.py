"""The quantizer that ships with EdgeKit: post-training quantization, calibrated on samples."""

from __future__ import annotations

from typing import ClassVar

from edgekit.errors import InputError
from edgekit.quantizer import QuantizationRequest, QuantizationResult, Quantizer
from edgekit_quantize.calibration.collect import observe
from edgekit_quantize.calibration.data import ConstantInputs, checked_feeds
from edgekit_quantize.calibration.histogram import Histogram
from edgekit_quantize.placement import Settings, place
from edgekit_quantize.prepare import prepared
from edgekit_quantize.qdq import write_static
from edgekit_quantize.qparams import TYPES
from edgekit_quantize.ranges import RULES, make


class PostTrainingQuantizer(Quantizer):
    """Int8 by calibration on samples."""

    name: ClassVar[str] = "edgekit"

    def quantize(self, request: QuantizationRequest) -> QuantizationResult:
        """Quantize as requested; see :class:`edgekit.quantizer.Quantizer`."""
        if request.samples is None:
            raise InputError("static quantization needs samples", hint="give a folder of samples with --data")
        settings = Settings.read(request.placement)
        model = prepared(request.model.graph_model)
        plan = place(model.graph, settings)
        histograms: dict[str, Histogram] = {name: Histogram() for name in plan.observed()}
        constants = ConstantInputs()

        def feeds():  # noqa
            for sample in checked_feeds(request.samples, request.model.inputs):
                constants.watch(sample)
                for name, array in sample.items():
                    if name in histograms:
                        histograms[name].update(array)
                yield sample

        count = observe(model, [n for n in histograms if n not in {i.name for i in model.graph.inputs}], feeds(), lambda n, a: histograms[n].update(a))
        dtype = TYPES[settings.activations]
        params = {}
        for name, histogram in histograms.items():
            low, high = RULES["percentile"](histogram, dtype, settings.symmetric_activations)
            params[name] = make(low, high, dtype, settings.symmetric_activations)
        write_static(plan, model.graph, params)
        record = {"scheme": "int8", "samples": count, "quantized": [layer.name for layer in plan.layers], "float": plan.kept_float, "warnings": constants.warnings(count)}
        return QuantizationResult(request.model.with_graph(model), record)
