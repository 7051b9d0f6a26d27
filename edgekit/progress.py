"""What long work reports while it runs: stages, steps inside a stage, and warnings.

:mod:`edgekit.terminal.progress` shows them to people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

Step = Callable[[str, int, int], None]
"""Called with what is being done, how many steps are done, and how many there are (0 if unknown)."""


class Progress:
    """Silent progress, and the interface of the others. Stages follow one another; they do not nest."""

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Wraps one stage of the work; ``name`` is what people read."""
        del name
        yield

    def step(self, what: str, done: int, total: int) -> None:
        """A step inside the stage: what is being done, how many steps are done, and how many there are (0 if unknown).

        Both numbers are 0 for one long step. The bound method is a :data:`Step`.
        """

    def warn(self, text: str) -> None:
        """Something that people should know although the work goes on."""
