"""The stages that a model passes through, and the contract that each stage keeps.

A stage is one class in one file. It says what it requires, what it does, and what holds afterwards. This is checked on
every call, so a stage that breaks its contract fails at once and by name, not three stages later.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from edgekit.errors import InternalError
from edgekit.model import Model

Given = TypeVar("Given")
"""What a stage starts from: a file for the first one, the model for those that follow."""


@dataclass(frozen=True)
class StageResult:
    """The result of a stage."""

    model: Model
    record: Mapping[str, Any]
    """What the stage did, as plain data for the manifest."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of a stage that succeeded: the record's ``warnings``."""
        return tuple(self.record.get("warnings", ()))


class Stage(ABC, Generic[Given]):
    """One stage: ``requires``, then ``run``, then ``ensures``."""

    name: ClassVar[str]
    """What people read in the progress display, and the record's key in the manifest."""
    _tried: tuple[Given, StageResult] | None = None

    def requires(self, given: Given) -> None:
        """Checks what the stage starts from.

        Raises:
            edgekit.errors.EdgeKitError: Something is missing that the stage needs.
        """

    @abstractmethod
    def run(self, given: Given) -> StageResult:
        """Does the work, without changing what was given."""

    def ensures(self, given: Given, result: StageResult) -> None:
        """Checks what must hold afterwards.

        Raises:
            edgekit.errors.InternalError: The stage did not do what it promises.
        """

    def tried(self, given: Given) -> StageResult:
        """The result of :meth:`run`, kept for a call on the same input: what suits a device is found by trial."""
        if self._tried is None or self._tried[0] is not given:
            self._tried = given, self.run(given)
        return self._tried[1]

    def __call__(self, given: Given) -> StageResult:
        """Runs the stage, and checks its contract."""
        self.requires(given)
        result = self.run(given) if self._tried is None or self._tried[0] is not given else self._tried[1]
        try:
            json.dumps(result.record, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise self.broken(f"its record is not plain data: {error}") from error
        self.ensures(given, result)
        return result

    def broken(self, what: str) -> InternalError:
        """The error for a contract that the stage itself does not keep."""
        return InternalError(f"the stage broke its contract: {what}", subject=self.name)
