"""Shows people progress: a live display on a terminal, plain lines elsewhere, only warnings if it is not wanted."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO, TypeVar

from edgekit.progress import Progress

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as LiveDisplay
    from rich.progress import TaskID, TextColumn

Shown = TypeVar("Shown")

SECONDS_BETWEEN_LINES = 5.0
"""Least time between two lines of plain output about steps inside a stage."""
SECONDS_OF_SILENCE = 10.0
"""Time without a step, or since the last line, after which plain output repeats what a stage is working on."""
SECONDS_BEFORE_ESTIMATE = 1.0
"""How long steps are watched before the remaining time is shown."""
MOST_SECONDS = 100
"""From this many seconds on, the remaining time is shown in minutes."""


class WarningsAlone(Progress):
    """Shows no progress, and prints a line for each warning."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def warn(self, text: str) -> None:
        """Prints the warning."""
        print(f"warning: {text}", file=self._stream, flush=True)


class RemainingTime:
    """Describes how many steps are done and, once it can be estimated, the remaining time.

    The estimate uses the later half of the steps that are done: the first step often compiles or loads what the others
    use.
    """

    def __init__(self) -> None:
        self._what = ""
        self._marks: list[tuple[int, float]] = []

    def text(self, what: str, done: int, total: int) -> str:
        """The step as people read it: ``calibrating 48/512, 12 s left``; only the name for one long step."""
        now = time.monotonic()
        if what != self._what or done < self._marks[-1][0]:
            self._what, self._marks = what, []
        self._marks.append((done, now))
        reached = counted(what, done, total)
        first, start = self._marks[0]
        if not total or done == first or now - start < SECONDS_BEFORE_ESTIMATE:
            return reached
        middle, since = next(mark for mark in reversed(self._marks) if mark[0] <= (first + done) / 2)
        left = (now - since) / (done - middle) * (total - done)
        return f"{reached}, " + (f"{left:.0f} s left" if left < MOST_SECONDS else f"{left / 60:.0f} min left")


def counted(what: str, done: int, total: int) -> str:
    """A step and how many are done, as in ``calibrating 48/512``; without a total, the count or the name alone."""
    if not total:
        return f"{what} {done}" if done else what
    return f"{what} {done}/{total}"


class PlainProgress(Progress):
    """Prints a line when a stage starts, one when it ends, and few in between: for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._last_line = 0.0
        self._pace = RemainingTime()
        self._step = ""
        self._lock = threading.RLock()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Prints the stage's name at its start, and the time that it took at its end."""
        self._step = ""
        start = self._print(name)
        ended = threading.Event()
        reminder = threading.Thread(target=self._remind, args=(name, start, ended), daemon=True)
        reminder.start()
        try:
            yield
        finally:
            ended.set()
            reminder.join()
        self._print(f"{name}: {time.monotonic() - start:.1f} s")

    def step(self, what: str, done: int, total: int) -> None:
        """Prints the step if the last line was printed long enough ago."""
        text = self._pace.text(what, done, total)
        self._step = counted(what, done, total)
        if time.monotonic() - self._last_line >= SECONDS_BETWEEN_LINES:
            self._print(f"  {text}")

    def warn(self, text: str) -> None:
        """Prints the warning."""
        self._print(f"warning: {text}")

    def _remind(self, stage: str, start: float, ended: threading.Event) -> None:
        """Says what the stage is at whenever nothing was printed for a while: one step may be long."""
        wait = SECONDS_OF_SILENCE
        while not ended.wait(wait):
            with self._lock:
                now = time.monotonic()
                wait = self._last_line + SECONDS_OF_SILENCE - now
                if wait <= 0:
                    step = f": {self._step}" if self._step else ""
                    self._print(f"  {stage}, {now - start:.0f} s so far{step}")
                    wait = SECONDS_OF_SILENCE

    def _print(self, line: str) -> float:
        with self._lock:
            print(line, file=self._stream, flush=True)
            self._last_line = time.monotonic()
            return self._last_line


class LiveProgress(Progress):
    """Shows a spinner with the running stage and its step; each finished stage leaves one line with its time."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: tuple[LiveDisplay, TaskID] | None = None
        self._pace = RemainingTime()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Shows the stage while it runs."""
        from rich.progress import Progress as LiveDisplay
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            step_column(),
            TimeElapsedColumn(),
        )
        start = time.monotonic()
        with LiveDisplay(*columns, console=self._console, transient=True, expand=True) as display:
            self._live = display, display.add_task(name, total=None, step="")
            try:
                yield
            finally:
                self._live = None
        self._console.print(f"[green]✓[/] {name} [dim]{time.monotonic() - start:.1f} s[/]", highlight=False)

    def step(self, what: str, done: int, total: int) -> None:
        """Shows the step beside the stage."""
        if self._live is not None:
            display, task = self._live
            display.update(task, step=self._pace.text(what, done, total))

    def warn(self, text: str) -> None:
        """Prints the warning above the display."""
        from rich.text import Text

        self._console.print(Text.assemble(("warning: ", "yellow"), text), soft_wrap=True)


def step_column() -> TextColumn:
    """The column of the step: if the line is too short, only this column is cut in a display that expands."""
    from rich.progress import TextColumn
    from rich.table import Column

    rest = Column(no_wrap=True, overflow="ellipsis", ratio=1)
    return TextColumn("{task.fields[step]}", style="dim", markup=False, table_column=rest)


def progress_on(stream: TextIO, *, quiet: bool = False) -> Progress:
    """The progress that fits ``stream``: live on a terminal, plain lines elsewhere, only warnings if ``quiet``."""
    return WarningsAlone(stream) if quiet else live_or_plain(stream, LiveProgress, PlainProgress)


def live_or_plain(stream: TextIO, live: Callable[[Console], Shown], plain: Callable[[TextIO], Shown]) -> Shown:
    """A display of progress: ``live`` on a terminal, ``plain`` on a stream or terminal that cannot move its cursor."""
    if not stream.isatty():
        return plain(stream)
    from rich.console import Console

    console = Console(file=stream)
    return plain(stream) if console.is_dumb_terminal else live(console)
