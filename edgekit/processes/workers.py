"""Does each job in its own process, several at a time: a job that fails, or whose process dies, ends no other job.

A job is repeated if native code without which it can go on ended its process (:mod:`edgekit.processes.crashes`).

A job is anything that can be pickled and called with a :class:`~edgekit.terminal.progress.Progress`. Each job gets a
new process, which ends when this process ends, however that happens: it notices that the other end of its connection
is closed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, NoReturn

from edgekit.errors import EdgeKitError, InputError
from edgekit.processes import supervision
from edgekit.processes.attempts import Attempts, restart_text, signal_name
from edgekit.processes.limits import Limits, Watch
from edgekit.processes.main_module import main_file, require_guarded, unguarded
from edgekit.progress import Progress
from edgekit.terminal.board import Board

GRACE_SECONDS = 5.0
"""How long a process may take to clean up before it is killed."""
SECONDS_BETWEEN_LOOKS = 0.5
"""How often the memory and the progress of the processes are looked at."""
SECONDS_BETWEEN_STEPS = 0.1
"""Steps that follow the last one sooner are not reported."""

Job = Callable[[Progress], None]
Explain = Callable[[Exception], EdgeKitError]
"""Turns whatever a job raised into an error that people can read."""


@dataclass(frozen=True)
class Failure:
    """Why a job failed, as plain data: not every exception survives the way from one process to another."""

    text: str
    record: Mapping[str, str]
    """What :meth:`EdgeKitError.as_record` returns."""
    exit_code: int
    trace: str = ""
    """Python's traceback; empty if the process died."""

    @classmethod
    def of(cls, error: EdgeKitError, trace: str = "") -> Failure:
        """The failure that an error describes."""
        return cls(str(error), error.as_record(), error.exit_code, trace)


@dataclass
class _Running:
    """A job in its process."""

    name: str
    job: Job
    process: SpawnProcess
    connection: Connection
    start: float
    watch: Watch
    attempts: Attempts
    stage: str = "start"
    limits: Limits = field(default_factory=Limits)
    patience: float = 0.0
    began: bool = False
    """Whether the process has imported the main module and begun the job."""
    ended: bool = False
    failure: Failure | None = None


def run_jobs(
    jobs: Sequence[tuple[str, Job]],
    count: int,
    board: Board,
    explain: Explain,
    *,
    ended: Callable[[str, Failure | None, float], object] = lambda _name, _failure, _seconds: None,
) -> dict[str, Failure | None]:
    """Does every job.

    Args:
        jobs: The jobs, each with a unique name.
        count: How many processes work at a time.
        board: Receives the progress of the jobs.
        explain: Called in the job's process with what the job raised; can be pickled.
        ended: Called when a job has ended: with its name, why it failed or None, and how many seconds it took. After an
            interruption, only these calls tell which jobs have ended.

    Returns:
        For each job by name: why it failed, or None.

    Raises:
        InputError: This process was started and imports the main module, which has no guard.
    """
    require_guarded()
    waiting = deque(jobs)
    running: list[_Running] = []
    results: dict[str, Failure | None] = {}
    try:
        while waiting or running:
            while waiting and len(running) < count:
                name, job = waiting.popleft()
                board.started(name)
                running.append(_started(name, job, explain, Attempts()))
            ready = wait([one.connection for one in running], SECONDS_BETWEEN_LOOKS)
            supervision.tell_step()  # the jobs' processes are watched here, so this one counts as making progress
            for one in running:
                if one.failure is None and one.connection not in ready:
                    _end_where_broken(one)
            for connection in ready:
                one = next(one for one in running if one.connection is connection)
                if _passed_on(one, board):
                    one.watch.progressed(one.patience)
                    continue
                running.remove(one)
                again = _anew(one, board, explain)
                if again is not None:
                    running.append(again)
                    continue
                results[one.name] = _result(one)
                failure, seconds = results[one.name], time.monotonic() - one.start
                ended(one.name, failure, seconds)
                board.finished(one.name, seconds, None if failure is None else failure.text)
    except BaseException as problem:
        with suppress(KeyboardInterrupt):  # after another interrupt, the `finally` below ends the processes at once
            if isinstance(problem, KeyboardInterrupt) and running:
                board.ending(len(running))
            _end_in_order(running)
        raise
    finally:
        for one in running:
            one.process.kill()
            one.process.join()
    return results


def _started(name: str, job: Job, explain: Explain, attempts: Attempts) -> _Running:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    arguments = there, job, explain, supervision.asked_limits(), attempts.ended
    process = context.Process(target=_work, args=arguments, name=name)
    with _interrupts_put_off():
        process.start()
    there.close()
    assert process.pid is not None  # it has started
    return _Running(name, job, process, here, time.monotonic(), Watch(process.pid), attempts)


def _anew(one: _Running, board: Board, explain: Explain) -> _Running | None:
    """Starts the job anew without what ended its process; returns None if the process ended in another way."""
    if one.ended or one.failure is not None:
        return None
    one.process.join(GRACE_SECONDS)
    ended_by = one.attempts.crashed(one.process.exitcode or 0)
    if ended_by is None:
        return None
    one.connection.close()
    board.warn(one.name, restart_text(one.stage, ended_by))
    again = _started(one.name, one.job, explain, one.attempts)
    again.start = one.start
    return again


@contextmanager
def _interrupts_put_off() -> Iterator[None]:
    """Defers Ctrl-C; processes started meanwhile never get it, since this process tells them when to end."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_where_broken(one: _Running) -> None:
    """Kills a process that has exceeded its limits, and records why."""
    broken = one.watch.broken(one.limits)
    if broken is not None:
        error = InputError(
            broken.message, subject=one.name, expected=broken.expected, found=broken.found, hint=broken.hint
        )
        one.failure = Failure.of(error)
        one.watch.end()


def _passed_on(one: _Running, board: Board) -> bool:
    """Passes on what the process reports; returns False once the process has ended."""
    try:
        kind, *rest = one.connection.recv()
    except (EOFError, OSError):
        return False
    one.began = True
    if kind == "ended":
        one.ended, (one.failure,) = True, rest
        return False
    one.patience = 0.0
    if kind == "told":
        (what,) = rest
        one.patience = what.get("patience", 0.0)
        one.limits = Limits(**what["limits"]) if "limits" in what else one.limits
        one.attempts.record(what)
        return True
    if kind == "stage":
        (one.stage,) = rest
    getattr(board, kind)(one.name, *rest)
    return True


def _result(one: _Running) -> Failure | None:
    """Returns why the job failed or None, once its process has ended."""
    one.process.join(GRACE_SECONDS)
    if one.process.is_alive():
        one.process.kill()
        one.process.join()
    one.connection.close()
    if one.ended or one.failure is not None:
        return one.failure
    code = one.process.exitcode or 0
    if code == 1 and not one.began and main_file() is not None:
        return Failure.of(unguarded())
    how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
    return Failure.of(
        InputError(
            f"its process {how}",
            subject=one.name,
            expected="a model that the libraries under EdgeKit can take",
            hint="the system ends processes when memory runs out, too: fewer --jobs need less",
        )
    )


def _end_in_order(running: Sequence[_Running]) -> None:
    """Asks the processes to end, and waits at most :data:`GRACE_SECONDS` for them to clean up."""
    end = time.monotonic() + GRACE_SECONDS
    for one in running:
        one.process.terminate()
    for one in running:
        one.process.join(max(0.0, end - time.monotonic()))


class _ParentProgress(Progress):
    """Sends progress to the process that started this one."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._last_step = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Reports a stage."""
        start = time.monotonic()
        self._connection.send(("stage", name))
        yield
        self._connection.send(("stage_ended", name, time.monotonic() - start))

    def step(self, what: str, done: int, total: int) -> None:
        """Reports the step if the last report was long enough ago."""
        now = time.monotonic()
        if now - self._last_step >= SECONDS_BETWEEN_STEPS:
            self._last_step = now
            self._connection.send(("step", what, done, total))

    def warn(self, text: str) -> None:
        """Reports a warning."""
        self._connection.send(("warn", text))


def _work(
    connection: Connection,
    job: Job,
    explain: Explain,
    asked: tuple[int | None, float | None],
    crashed: Mapping[str, str],
) -> None:
    """Does the job in its process."""
    connection.send(("told", {}))
    supervision.listen(lambda what: connection.send(("told", what)), asked, crashed)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # if Ctrl-C could not be blocked for this process
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        failure = None
        try:
            job(_ParentProgress(connection))
        except Exception as error:  # a job may run foreign code: whatever it raises is reported
            failure = Failure.of(explain(error), "".join(traceback.format_exception(error)))
        with suppress(BrokenPipeError):  # the other process is gone
            connection.send(("ended", failure))
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # nothing is left to clean up
    except KeyboardInterrupt:  # as above
        sys.exit(1)


def _interrupt(number: int, frame: Any) -> NoReturn:
    del number, frame
    raise KeyboardInterrupt


def _end_with(connection: Connection) -> None:
    """Waits until the process that started this one has ended, then ends this one: in order, or else by force."""
    try:
        connection.recv()
    except (EOFError, OSError):
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(GRACE_SECONDS)
        os._exit(1)
