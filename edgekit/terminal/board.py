"""Shows people the progress of several jobs that run at the same time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TextIO

from edgekit.terminal.progress import SECONDS_BETWEEN_LINES, live_or_plain, step_column

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as LiveDisplay
    from rich.progress import TaskID


class Board:
    """A silent board, and the interface of the other boards. Each job has a unique name."""

    def __enter__(self) -> Board:
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the display."""

    def started(self, name: str) -> None:
        """A job has begun."""

    def stage(self, name: str, stage: str) -> None:
        """A job has begun a stage."""

    def stage_ended(self, name: str, stage: str, seconds: float) -> None:
        """A job has completed a stage."""

    def step(self, name: str, what: str, done: int, total: int) -> None:
        """A step inside the stage; ``total`` is 0 if unknown."""

    def warn(self, name: str, text: str) -> None:
        """Something that people should know although the job goes on."""

    def finished(self, name: str, seconds: float, error: str | None) -> None:
        """A job has ended; ``error`` is None if it succeeded."""

    def ending(self, count: int) -> None:
        """The run was interrupted while ``count`` jobs are still running."""


class WarningsBoard(Board):
    """Prints only warnings, and why it takes a while to end after an interruption."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def warn(self, name: str, text: str) -> None:
        """Prints the warning."""
        print(f"warning: {name}: {text}", file=self._stream, flush=True)

    def ending(self, count: int) -> None:
        """Prints that the processes are being ended, which may take a while."""
        print(_ending_text(count), file=self._stream, flush=True)


class PlainBoard(WarningsBoard):
    """Prints lines that begin with the job's name: for logs and pipes."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._last_lines: dict[str, float] = {}

    def stage(self, name: str, stage: str) -> None:
        """Prints the stage's name."""
        self._print(name, stage)

    def stage_ended(self, name: str, stage: str, seconds: float) -> None:
        """Prints the stage's name and the time that it took."""
        self._print(name, f"{stage}: {seconds:.1f} s")

    def step(self, name: str, what: str, done: int, total: int) -> None:
        """Prints the step if the job's last line was printed long enough ago."""
        if time.monotonic() - self._last_lines.get(name, 0.0) >= SECONDS_BETWEEN_LINES:
            self._print(name, f"  {_step_text(what, done, total)}")

    def finished(self, name: str, seconds: float, error: str | None) -> None:
        """Prints how the job ended, with the error's first line; the summary shows the whole error."""
        how = "done" if error is None else "FAILED"
        self._print(name, f"{how} after {seconds:.1f} s{_reason(error)}")

    def _print(self, name: str, line: str) -> None:
        print(f"{name}: {line}", file=self._stream, flush=True)
        self._last_lines[name] = time.monotonic()


class LiveBoard(Board):
    """Shows a line for each running job, with its stage and step; each finished job leaves a line with its time."""

    def __init__(self, console: Console) -> None:
        from rich.progress import Progress as LiveDisplay
        from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

        self._console = console
        self._tasks: dict[str, TaskID] = {}
        self._display: LiveDisplay = LiveDisplay(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TextColumn("{task.fields[stage]}", style="cyan", markup=False),
            step_column(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            expand=True,
        )

    def __enter__(self) -> Board:
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Removes the display; the lines of finished jobs stay."""
        self._display.stop()

    def started(self, name: str) -> None:
        """Adds the job's line."""
        self._tasks[name] = self._display.add_task(name, total=None, stage="", step="")

    def stage(self, name: str, stage: str) -> None:
        """Shows the stage."""
        self._display.update(self._tasks[name], stage=stage, step="", refresh=True)

    def step(self, name: str, what: str, done: int, total: int) -> None:
        """Shows the step beside the stage."""
        self._display.update(self._tasks[name], step=_step_text(what, done, total))

    def warn(self, name: str, text: str) -> None:
        """Prints the warning above the lines."""
        from rich.text import Text

        self._console.print(Text.assemble(("warning: ", "yellow"), f"{name}: {text}"), soft_wrap=True)

    def finished(self, name: str, seconds: float, error: str | None) -> None:
        """Replaces the job's line by a permanent one."""
        from rich.text import Text

        self._display.remove_task(self._tasks.pop(name))
        self._display.refresh()
        mark = ("✓", "green") if error is None else ("✗", "red")
        self._console.print(Text.assemble(mark, f" {name} ", (f"{seconds:.1f} s", "dim"), _reason(error)))

    def ending(self, count: int) -> None:
        """Prints that the processes are being ended, which may take a while."""
        self._console.print(_ending_text(count), highlight=False)


def _reason(error: str | None) -> str:
    """The first line of an error, as the end of its job's last line."""
    return "" if error is None else f": {error.partition(chr(10))[0]}"


def _ending_text(count: int) -> str:
    return f"ending {count} process{'es' if count != 1 else ''}; another Ctrl-C ends them at once"


def _step_text(what: str, done: int, total: int) -> str:
    return f"{what} {done}/{total}" if total else f"{what} {done}"


def board_on(stream: TextIO, *, quiet: bool = False) -> Board:
    """The board that fits ``stream``: live on a terminal, plain lines elsewhere, only warnings if ``quiet``."""
    return WarningsBoard(stream) if quiet else live_or_plain(stream, LiveBoard, PlainBoard)
