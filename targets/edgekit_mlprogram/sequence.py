"""Executes a program with states as one sequence: each run continues from the states of the run before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from edgekit.model import Arrays


class StatefulRunner(Protocol):
    """Executes a program that takes states from outside."""

    @property
    def executed_by(self) -> str:
        """The runtime that executes the program, and how."""

    def make_state(self) -> Any:
        """States for the start of a sequence."""

    def run(self, feeds: Mapping[str, np.ndarray], state: Any = None) -> Arrays:
        """Execute one step, which changes the states."""


class SequenceRunner:
    """A runner that keeps the states itself.

    Args:
        runner: Executes the program.
    """

    def __init__(self, runner: StatefulRunner) -> None:
        self._runner = runner
        self._state = runner.make_state()

    @property
    def executed_by(self) -> str:
        """What the wrapped runner's ``executed_by`` says."""
        return self._runner.executed_by

    def restart(self) -> None:
        """Sets the states to zero."""
        self._state = self._runner.make_state()

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """The outputs of the next step, by name.

        Raises:
            edgekit.errors.InputError: Inputs that are missing, unknown, or of the wrong shape or type.
        """
        return self._runner.run(feeds, state=self._state)
