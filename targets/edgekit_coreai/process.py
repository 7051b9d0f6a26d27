"""Apple's code in a process of its own: a crash there is an error here.

The beta of Apple's compiler and runtime ends its process at times. One process serves many requests, since starting it
costs a second; after a crash the next request starts another, in which models that were open are opened again.
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
    """Apple's code has ended its process, or has refused what it was given.

    Args:
        message: What happened.
        subject: The model.
        doing: What was being done, with the operation as far as known.
        told: What Apple's code said.
    """

    def __init__(self, message: str, *, subject: object, doing: str, told: str) -> None:
        super().__init__(
            message, subject=subject, expected="a result", found=f"{told} while {doing}" if told else doing
        )


class Process:
    """One process of Apple's code; requests come one at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._process: subprocess.Popen[bytes] | None = None
        self.generation = 0
        """How many processes there have been."""

    def ask(self, subject: object, name: str, *arguments: Any) -> Any:
        """Have something done.

        Args:
            subject: The model, for errors.
            name: A method of :class:`edgekit_coreai.worker.Worker`.
            arguments: Its arguments.

        Raises:
            CoreAICrashError: The process ended, or Apple's code refused.
            edgekit.errors.EdgeKitError: What the worker raised.
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
                self.end()  # what comes next would be the answer to this
                raise
            if outcome == "error":
                raise value
            if outcome == "failed":
                told, trace = value
                failure = CoreAICrashError(
                    "Apple's Core AI refuses this", subject=subject, doing=self._doing(), told=told.strip()
                )
                failure.add_note(trace)
                raise failure
            return value

    @property
    def pid(self) -> int | None:
        """The process now; None where there is none."""
        return self._process.pid if self._process is not None and self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether there is a process now."""
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
        told = next(
            (line.strip() for line in said.splitlines() if "error" in line.lower() or "assert" in line.lower()), ""
        )
        self.end()
        raise CoreAICrashError(
            f"the process of Apple's Core AI {how}", subject=subject, doing=doing, told=told[:300]
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
    """The process that everything in this one shares; ended with it."""
    global _SHARED
    if _SHARED is None:
        _SHARED = Process()
        atexit.register(_SHARED.end)
    return _SHARED
