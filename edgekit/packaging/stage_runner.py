"""Runs stages one after the other, and keeps what each of them recorded."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, overload

from edgekit.data.labels import check_order
from edgekit.errors import EdgeKitError
from edgekit.model import Model
from edgekit.processes import supervision
from edgekit.processes.memory import free_unused
from edgekit.progress import Progress
from edgekit.quantizer import BudgetError
from edgekit.stages import Stage, StageResult
from edgekit.stages.load import Load

Given = TypeVar("Given")
Result = TypeVar("Result", bound=StageResult)


class StageRunner:
    """Runs stage after stage, reports progress and warnings, and keeps the records."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._warned: set[str] = set()
        self._before: list[str] = []
        self.records: list[dict[str, Any]] = []

    @property
    def warnings(self) -> list[str]:
        """All warnings of the stages, each once, without those that were set aside."""
        texts = (warning for stage in self.records for warning in stage["record"].get("warnings", ()))
        return list(dict.fromkeys(texts))

    @overload
    def run_stage(self, stage: Stage[Given], given: Given) -> StageResult: ...

    @overload
    def run_stage(self, stage: Stage[Given], given: Given, hands_on: type[Result]) -> Result: ...

    def run_stage(self, stage: Stage[Given], given: Given, hands_on: type[StageResult] = StageResult) -> StageResult:
        """Runs a stage, and returns its result.

        Args:
            stage: The stage to run.
            given: What the stage starts from.
            hands_on: The class of the result, if it holds more than a model and a record.
        """
        start = time.perf_counter()
        try:
            with self._progress.stage(stage.name):
                result = stage(given)
        except EdgeKitError as error:
            self.keep(stage.name, {"failed": error.as_record()}, time.perf_counter() - start)
            if isinstance(error, BudgetError):
                self._tell(error.warnings)
            raise
        free_unused()
        if not isinstance(result, hands_on):
            raise stage.broken(f"it handed on no {hands_on.__name__}")
        self.keep(stage.name, result.record, time.perf_counter() - start)
        self._keep_warnings(self._before)
        self._before = []
        if stage.name == Load.name:
            supervision.tell_model_bytes(result.record["bytes"])
        self._tell(result.warnings)
        return result

    def _tell(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            if (
                warning not in self._warned
            ):  # a stage that runs again, at the sizes of the samples, repeats its warnings
                self._warned.add(warning)
                self._progress.warn(warning)

    def warn(self, text: str) -> None:
        """Reports a warning, and adds it to the last stage's record, or to the first stage's if none has run yet."""
        if self.records:
            self._keep_warnings([text])
        else:
            self._before.append(text)
        self._progress.warn(text)

    def _keep_warnings(self, texts: Sequence[str]) -> None:
        record = self.records[-1]["record"]
        if texts:
            record["warnings"] = [*record.get("warnings", ()), *texts]

    def hold_class_names(self, names: Sequence[str], file: Path, model: Model) -> None:
        """Compares a list of class names with the names that the model's file states, and warns of differences.

        Raises:
            InputError: The list has the names of the graph's classes in another order.
        """
        loaded: Mapping[str, Any] = next((stage["record"] for stage in self.records if stage["name"] == Load.name), {})
        warning = check_order(names, file, model.class_names, in_graph=bool(loaded.get("classes")))
        if warning is not None:
            self.warn(warning)

    def set_aside(self, start: int) -> list[str]:
        """Removes the warnings from the records of stages whose work does not ship, and returns the warnings.

        Args:
            start: Index of the first of these records; all records after it are among them.
        """
        return [warning for stage in self.records[start:] for warning in stage["record"].pop("warnings", ())]

    def keep(self, stage: str, record: Mapping[str, Any], seconds: float = 0.0) -> None:
        """Adds a stage's record."""
        self.records.append({"name": stage, "seconds": round(seconds, 3), "record": dict(record)})
