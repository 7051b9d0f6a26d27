"""Measures each layer of the graph that was built: its time, and its error if the graph was quantized."""

from __future__ import annotations

from typing import Any, ClassVar

from edgekit.comparison.floors import Kind
from edgekit.comparison.layers import layer_errors
from edgekit.comparison.numbers.metrics import json_number
from edgekit.data.samples import Samples
from edgekit.execution.node_times import node_times
from edgekit.execution.recurrence import zero_states
from edgekit.execution.reference import NotRunnableError, Reference
from edgekit.model import Model
from edgekit.progress import Step
from edgekit.stages import Stage
from edgekit.stages.bench import Measured
from edgekit.stages.build import extend


class MeasureLayers(Stage[Measured]):
    """Has ONNX Runtime execute the graph, node by node, on one sample; see :mod:`edgekit.comparison.layers`.

    Args:
        original: The float model, its shapes fixed.
        samples: The first sample is executed.
        progress: Told of the runs.
    """

    name: ClassVar[str] = "layers"

    def __init__(self, original: Model, samples: Samples, progress: Step | None = None) -> None:
        self._original = original
        self._samples = samples
        self._progress = progress

    def run(self, given: Measured) -> Measured:
        """What was given, with a record that holds the figures, or why there are none."""
        try:
            return extend(Measured, given, record=self._measure(given))
        except NotRunnableError as error:
            return extend(Measured, given, record={"not_measured": str(error)})

    def _measure(self, given: Measured) -> dict[str, Any]:
        feeds = next(iter(self._samples)).feeds | zero_states(given.model)
        times = node_times(given.model, feeds, self._progress)
        record: dict[str, Any] = {
            "executed_by": Reference(given.model).executed_by,
            "microseconds": {name: round(time, 3) for name, time in times.items()},
        }
        if given.kind is Kind.QUANTIZED:
            errors = layer_errors(self._original, given.model, feeds, self._progress)
            record["sqnr_db"] = {name: json_number(round(value, 2)) for name, value in errors.sqnr_db.items()}
            record["left_out"] = errors.left_out
        return record
