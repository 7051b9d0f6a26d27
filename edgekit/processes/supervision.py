"""Runs a command in a child process, so that native code that dies, hangs or takes all memory becomes an error.

ONNX's checker, ONNX Runtime, OpenVINO and coremltools read models that nobody has vetted; some models end the process
that reads them. The command line therefore forks once, before anything heavy is imported: the child does the work, and
tells the parent through a pipe which stage it is in. The parent waits, watches the child's memory and progress, and
reports what happened if the child cannot. It also owns the folder for temporary files, and removes it at the end.

On systems without fork (Windows), or with ``EDGEKIT_SUPERVISION=0``, a command runs in the first process, without this
protection.
"""

from __future__ import annotations

import json
import math
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from edgekit.errors import InputError
from edgekit.files.atomic import remove_abandoned, temporary_folder
from edgekit.processes.attempts import Attempts, restart_text, signal_name
from edgekit.processes.interruption import ENDING_SIGNALS, InterruptionError, interruption_text
from edgekit.processes.limits import Limits, Watch, limit_allocations
from edgekit.progress import Progress
from edgekit.terminal.foreign_text import escaped

VARIABLE = "EDGEKIT_SUPERVISION"
"""Environment variable that switches supervision off, for debuggers."""

_SECONDS_BETWEEN_LOOKS = 0.05
_SECONDS_BETWEEN_STEPS = 0.5
GRACE_SECONDS = 7.0
"""Seconds that the child may take to end once it is asked to; native code notices no signal before it returns."""
_KEPT_OUTPUT = 1 << 14
_PARENT_DIED = 1
"""``PR_SET_PDEATHSIG`` of Linux's ``prctl``."""

Report = Callable[[InputError], int]
"""Prints an error, and returns the exit code."""


class StageDiedError(InputError):
    """A stage ended the process that it ran in, or was ended by the limits."""


@dataclass
class _Reported:
    """What the child has reported."""

    stage: str = "start"
    exit_code: int | None = None
    folders: list[Path] = field(default_factory=list)
    """The folders that the child writes its output to: unfinished output in them is removed."""
    limits: Limits = field(default_factory=Limits)
    subject: str | None = None
    patience: float = 0.0


_pipe: int | None = None
_listener: Callable[[Mapping[str, Any]], None] | None = None
_asked: tuple[int | None, float | None] = None, None
_worked_on: tuple[int, int] = 0, 0
"""Bytes of the model and of one sample that the limits are set for."""
_last_step = 0.0
_crashed: Mapping[str, str] = {}


def tell(**what: Any) -> None:
    """Tells the supervising process (if any) values such as ``stage``, ``folder``, ``subject`` or ``limits``."""
    if _listener is not None:
        _listener(what)
    elif _pipe is not None:
        with suppress(OSError):  # the supervising process is gone, and this one will end soon
            os.write(_pipe, json.dumps(what).encode() + b"\n")


def does_a_command() -> bool:
    """Whether this process does the work of a command; if not, it is a program that uses EdgeKit's Python API."""
    return _pipe is not None or _listener is not None


def listen(
    listener: Callable[[Mapping[str, Any]], None],
    asked: tuple[int | None, float | None],
    crashed: Mapping[str, str],
) -> None:
    """Prepares one of several worker processes, which the process that started it watches.

    Args:
        listener: Receives what :func:`tell` would send to the supervising process.
        asked: The requested limits; see :func:`asked_limits`.
        crashed: What ended a process of the same work before -> by which signal.
    """
    global _listener, _crashed
    _listener, _crashed = listener, crashed
    set_limits(*asked)


def crashed() -> Mapping[str, str]:
    """What ended a process of this command before -> by which signal; see :mod:`edgekit.processes.crashes`."""
    return _crashed


def asked_limits() -> tuple[int | None, float | None]:
    """The bytes and seconds that :func:`set_limits` recorded."""
    return _asked


def tell_step(patience: float = 0.0) -> None:
    """Tells that the work goes on.

    Args:
        patience: Seconds that may pass until the next sign of progress, if that is more than the limit; ignored if the
            user set a limit (``--max-seconds``).
    """
    global _last_step
    now = time.monotonic()
    if _pipe is not None and (patience or now - _last_step > _SECONDS_BETWEEN_STEPS):
        _last_step = now
        tell(patience=patience if _asked[1] is None else 0.0)


@contextmanager
def slow_step(seconds: float) -> Iterator[None]:
    """Wraps native code that may work for ``seconds`` without a sign of progress.

    If the user set a limit (``--max-seconds``), the limit holds instead.
    """
    if _asked[1] is None:
        tell(patience=seconds)
    yield
    tell()


def set_limits(memory: int | None, seconds: float | None) -> None:
    """Records the limits that the user set; None for a limit that follows from the model's size."""
    global _asked
    _asked = memory, seconds


def limits_for(model_bytes: int, sample_bytes: int = 0) -> Limits:
    """The limits of a command that works on a model and samples of these sizes."""
    return Limits.for_model(model_bytes, *_asked, sample_bytes)


def tell_model_bytes(count: int) -> None:
    """Sets the limits to what suits a model of this size."""
    _work_on(count, _worked_on[1])


def tell_sample_bytes(count: int) -> None:
    """Sets the limits to what suits a sample of ``count`` bytes, if earlier samples had fewer bytes."""
    if count > _worked_on[1]:
        _work_on(_worked_on[0], count)


def _work_on(model_bytes: int, sample_bytes: int) -> None:
    global _worked_on
    _worked_on = model_bytes, sample_bytes
    if _pipe is not None or _listener is not None:
        limits = limits_for(model_bytes, sample_bytes)
        limit_allocations(limits)
        tell(limits=vars(limits))


def supervised(work: Callable[[], int], report: Report) -> int:
    """Does ``work`` in a child process and returns its exit code; the parent prints errors by ``report``.

    Once the work has ended, signals that ask the parent to end are ignored: only the clean-up is left to do, and the
    exit code is known.
    """
    if not hasattr(os, "fork") or os.environ.get(VARIABLE) == "0":
        return work()
    with _temporary_folder() as folder:
        return _Supervisor(folder).run(work, report)


class _Supervisor:
    """The parent process."""

    def __init__(self, temporary: Path | None) -> None:
        self._temporary = temporary
        self._reported = _Reported()
        self._attempts = Attempts()
        self._output = b""
        self._unread = b""
        self._forwarded: dict[int, float] = {}  # when the child was first asked to end, by signal
        self._child = 0

    def run(self, work: Callable[[], int], report: Report) -> int:
        for number in range(3):  # a standard stream that is closed would become one of the pipes
            with suppress(OSError):
                os.fstat(number)
                continue
            os.open(os.devnull, os.O_RDWR)
        code, broken = self._done_once(work)
        while self._does_without(code, broken):
            self._reported, self._output, self._unread = _Reported(), b"", b""
            code, broken = self._done_once(work)
        if broken is None and self._reported.exit_code is not None:
            exit_code = self._reported.exit_code
        else:
            exit_code = report(self._explained(code, broken))
        for number in ENDING_SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        return exit_code

    def _done_once(self, work: Callable[[], int]) -> tuple[int, InputError | None]:
        """Lets a child do the work; returns its exit code, and why the parent ended it or None."""
        ended, tell_end = os.pipe()
        printed, print_end = os.pipe()
        parent = os.getpid()
        before = _block_signals()
        self._child = os.fork()
        if self._child == 0:
            os.close(ended)
            os.close(printed)
            _work(work, tell_end, print_end, self._temporary, parent, before)
        os.close(tell_end)
        os.close(print_end)
        handlers = self._forward_signals()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        try:
            status, broken = self._wait(ended, printed)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            os.close(ended)
            os.close(printed)
        if broken is not None or self._reported.exit_code is None:
            for folder in self._reported.folders:
                with suppress(OSError):
                    remove_abandoned(folder)
        return os.waitstatus_to_exitcode(status), broken

    def _does_without(self, code: int, broken: InputError | None) -> bool:
        """Whether the child ended in guarded code without which the work can be repeated."""
        global _crashed
        if self._reported.exit_code is not None or self._forwarded:
            return False
        if broken is not None:
            if not self._attempts.stalled(f"{broken.message} (expected: {broken.expected})"):
                return False
            text = f"stage {self._reported.stage}: {broken.message}; starting again without the part that was running"
        else:
            name = self._attempts.crashed(code)
            if name is None:
                return False
            text = restart_text(self._reported.stage, name)
        _crashed = self._attempts.ended
        with suppress(OSError):
            os.write(2, f"warning: {text}\n".encode())
        return True

    def _wait(self, ended: int, printed: int) -> tuple[int, InputError | None]:
        """Waits for the child; returns its status, and why the parent ended it or None."""
        watch, broken, reading = Watch(self._child), None, [ended, printed]
        while True:
            if ended in self._read(reading, printed, _SECONDS_BETWEEN_LOOKS):
                watch.progressed(self._reported.patience)
            gone, status = os.waitpid(self._child, 0 if ended not in reading and broken is None else os.WNOHANG)
            if gone:
                while self._read(reading, printed, 0):  # what it wrote since the last look, before it ended
                    pass
                return status, broken
            if broken is None:
                broken = watch.broken(self._reported.limits) or self._ignores_signals()
                if broken is not None:
                    watch.end()

    def _ignores_signals(self) -> InputError | None:
        """The error if the child was asked to end :data:`GRACE_SECONDS` ago and has not ended; else None."""
        asked = min(self._forwarded.values(), default=math.inf)
        return self._interrupted() if time.monotonic() - asked >= GRACE_SECONDS else None

    def _interrupted(self) -> InputError:
        """The error for a child that was asked to end; it names the signal that came first."""
        first = min(self._forwarded, key=lambda number: self._forwarded[number])
        return InterruptionError(interruption_text(first), hint="nothing was left behind")

    def _read(self, reading: list[int], printed: int, seconds: float) -> list[int]:
        """Reads from the pipes; returns those that had data, and removes those at their end from ``reading``."""
        with_data = []
        for pipe in select.select(reading, (), (), seconds)[0] if reading else []:
            data = os.read(pipe, 1 << 16)
            if not data:
                reading.remove(pipe)
                continue
            with_data.append(pipe)
            if pipe == printed:
                self._output = (self._output + data)[-_KEPT_OUTPUT:]
            else:
                self._read_messages(data)
        return with_data

    def _read_messages(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            message: Mapping[str, Any] = json.loads(line)
            self._reported.stage = message.get("stage", self._reported.stage)
            self._reported.exit_code = message.get("exit_code", self._reported.exit_code)
            self._reported.subject = message.get("subject", self._reported.subject)
            self._reported.patience = message.get("patience", 0.0)
            self._attempts.record(message)
            if "folder" in message:
                self._reported.folders.append(Path(message["folder"]))
            if "limits" in message:
                self._reported.limits = Limits(**message["limits"])

    def _explained(self, code: int, broken: InputError | None) -> InputError:
        stage, words = self._reported.stage, self._last_words()
        if self._forwarded:  # and the child has not said so itself
            return self._interrupted()
        if broken is not None:
            return StageDiedError(
                f"stage {stage}: {broken.message}",
                subject=self._reported.subject,
                expected=broken.expected,
                found=broken.found,
                hint=broken.hint,
            )
        how = f"was ended by {signal_name(-code)}" if code < 0 else f"ended with exit code {code}"
        return StageDiedError(
            f"stage {stage}: the process that ran it {how}",
            subject=self._reported.subject,
            expected="a model that the libraries under EdgeKit can take",
            found=words,
            hint="`python -m onnx.checker` may tell what is wrong with the model; "
            "if nothing is, a library has a fault; the system also ends processes when memory runs out",
        )

    def _last_words(self) -> str | None:
        """The last line that native libraries printed, without Python's streams; None if they printed nothing."""
        lines = [line.strip() for line in self._output.decode(errors="replace").splitlines() if line.strip()]
        return lines[-1][:500] if lines else None

    def _forward_signals(self) -> dict[int, Any]:
        """Forwards ending signals to the child. One to the whole group reaches the child twice, which counts once."""
        last: dict[int, float] = {}

        def forward(number: int, _frame: object) -> None:
            now = time.monotonic()
            if now - last.get(number, -math.inf) > 1.0:  # else the child got this one, too
                last[number] = now
                self._forwarded.setdefault(number, now)
                with suppress(ProcessLookupError):
                    os.kill(self._child, number)

        numbers = [number for number in ENDING_SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, forward) for number in numbers}
        return {number: handler for number, handler in before.items() if handler is not None}


def _work(
    work: Callable[[], int], tell_end: int, print_end: int, temporary: Path | None, parent: int, signals: set[Any]
) -> NoReturn:
    """Does the work in the child process; never returns to its caller."""
    global _pipe
    code = 3
    try:
        _end_with_parent(parent)
        _pipe = tell_end
        _keep_libraries_apart(print_end)
        if temporary is not None:
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        limit_allocations(Limits())
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        code = work()
        tell(exit_code=code)
    finally:
        # An interpreter that ends in order runs destructors of native libraries, some of which crash.
        import atexit

        with suppress(Exception):
            atexit._run_exitfuncs()
        os._exit(code)


def _keep_libraries_apart(print_end: int) -> None:
    """Moves Python's streams to new descriptors, so that what native code prints goes to a pipe."""
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is not None:
            with suppress(OSError, ValueError):
                stream.flush()
                own = os.dup(number)
                setattr(sys, name, os.fdopen(own, "w", encoding=stream.encoding, errors="replace"))
                setattr(sys, f"__{name}__", getattr(sys, name))
        os.dup2(print_end, number)
    os.close(print_end)


def _end_with_parent(parent: int) -> None:
    """Makes Linux end this process as soon as its parent is gone; does nothing on other systems."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_PARENT_DIED, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _block_signals() -> set[Any]:
    """Blocks ending signals until both processes handle them; returns the signals that were blocked before."""
    return signal.pthread_sigmask(signal.SIG_BLOCK, set(ENDING_SIGNALS))


@contextmanager
def _temporary_folder() -> Iterator[Path | None]:
    """A folder for all temporary files of a command, removed afterwards; None if no folder can be made."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(temporary_folder())
        except OSError:  # nowhere to write: the command says so if it has to
            folder = None
        yield folder


class SupervisedProgress(Progress):
    """Reports stages and steps to the supervising process, and passes them on to another progress as safe text."""

    def __init__(self, inner: Progress) -> None:
        self._inner = inner

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Wraps one stage."""
        tell(stage=name)
        with self._inner.stage(escaped(name)):
            yield

    def step(self, what: str, done: int, total: int) -> None:
        """Reports a step."""
        tell_step()
        self._inner.step(escaped(what), done, total)

    def warn(self, text: str) -> None:
        """Passes on a warning."""
        self._inner.warn(escaped(text))
