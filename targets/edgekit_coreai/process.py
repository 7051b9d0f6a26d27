"""Runs Apple's code in a separate process, so that a crash there becomes an exception here.

The beta of Apple's compiler and runtime crashes at times. One process serves many requests, because starting a process
takes a second; after a crash, the next request starts a new process, in which each runner opens its model again.
"""

from __future__ import annotations

import atexit
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
from typing import Any, NoReturn

from edgekit.errors import RequirementError
from edgekit_coreai.availability import require_core_ai
from edgekit_coreai.trace import Trace


class CoreAICrashError(RequirementError, RuntimeError):
    """Apple's code has ended its process, or has refused its input.

    Args:
        message: What happened.
        subject: The model.
        doing: What the process was doing, including the operation if known.
        output: The error text of Apple's code.
    """

    def __init__(self, message: str, *, subject: object, doing: str, output: str) -> None:
        super().__init__(
            message, subject=subject, expected="a result", found=f"{output} while {doing}" if output else doing
        )


class Process:
    """A process that runs Apple's code and serves one request at a time; it is restarted after a crash."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self.generation = 0
        """Number of processes started so far."""

    def ask(self, subject: object, name: str, *arguments: Any) -> Any:
        """Call a method of the worker in the process, and return its result.

        Args:
            subject: The model, for error messages.
            name: A method of :class:`edgekit_coreai.worker.Worker`.
            arguments: The method's arguments.

        Raises:
            CoreAICrashError: The process ended, or Apple's code refused the request.
            edgekit.errors.EdgeKitError: The worker raised this error.
        """
        with self._lock:
            process = self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                pickle.dump((name, arguments), process.stdin, protocol=pickle.HIGHEST_PROTOCOL)
                process.stdin.flush()
                outcome, value = pickle.load(process.stdout)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                self._died(process, subject)
            except BaseException:
                self.end()  # or the next request would get the answer to this one
                raise
            if outcome == "error":
                raise value
            if outcome == "failed":
                output, trace = value
                failure = CoreAICrashError(
                    "Apple's Core AI refuses this", subject=subject, doing=self._doing(), output=output.strip()
                )
                failure.add_note(trace)
                raise failure
            return value

    @property
    def pid(self) -> int | None:
        """The process ID, or None if no process is running."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        require_core_ai()
        self.end()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        with tempfile.TemporaryFile() as traced:
            self._trace = Trace(traced.fileno())
            self._process = subprocess.Popen(
                [sys.executable, "-m", "edgekit_coreai.worker", str(traced.fileno())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
                pass_fds=(traced.fileno(),),
            )
        self.generation += 1
        return self._process

    def _doing(self) -> str:
        return self._trace.read() or "starting"

    def _died(self, process: subprocess.Popen[bytes], subject: object) -> NoReturn:
        code = process.wait()
        self._said.seek(0)
        said = self._said.read().decode("utf-8", errors="replace")
        doing = self._doing()
        how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
        output = next(
            (line.strip() for line in said.splitlines() if "error" in line.lower() or "assert" in line.lower()), ""
        )
        self.end()
        raise CoreAICrashError(
            f"the process of Apple's Core AI {how}", subject=subject, doing=doing, output=output[:300]
        ) from None

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            if process.stdin is not None:
                process.stdin.close()
            try:
                process.wait(timeout=2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stdout is not None:
                process.stdout.close()
            self._said.close()


_SHARED: Process | None = None


def shared() -> Process:
    """The process for Apple's code that all callers in this Python process share; it ends with Python."""
    global _SHARED
    if _SHARED is None:
        _SHARED = Process()
        atexit.register(_SHARED.end)
    return _SHARED
