"""Exchanges messages with a program over its standard input and output, such as a bundle's check with ``--serve``.

The other end is :mod:`edgekit.device_check.check_service`.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from edgekit.processes import supervision

_CHUNK = 1 << 16
_KEPT_STDERR = 1 << 16
_SECONDS_OF_QUICK_ANSWERS = 1.0
"""The supervising process is not told of a wait that is shorter."""
_SECONDS_TO_END = 5.0
"""Time that a program has to end by itself once its input is closed."""


class HungUpError(Exception):
    """The program ended, or the connection to it did, before it answered.

    Args:
        code: The program's exit code; negative if a signal ended it.
        stderr: The end of its standard error, followed by what it wrote to standard output that is no message.
    """

    def __init__(self, code: int | None, stderr: str) -> None:
        super().__init__(f"exit code {code}: {stderr}")
        self.code = code
        self.stderr = stderr

    @property
    def last_words(self) -> str:
        """The last line of ``stderr`` that is not blank."""
        lines = [line.strip() for line in self.stderr.splitlines() if line.strip()]
        return lines[-1] if lines else f"it ended with exit code {self.code}"


class SilentError(Exception):
    """The program neither answered nor took what was sent within the time limit."""


class Channel:
    """A running program; leaving the context ends it, whatever it is doing.

    Args:
        command: The program and its arguments.
        timeout: Seconds that the program may be silent.
        folder: The program's working directory.
        environment: Variables that are added to the environment.
    """

    def __init__(
        self,
        command: Sequence[str],
        timeout: float,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.timeout = timeout
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the channel
        self._process = subprocess.Popen(
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C reaches EdgeKit alone, which ends the program in order
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)
        self._received = bytearray()
        self._passed_over = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close(0)

    def send(self, message: Mapping[str, Any], payload: bytes = b"") -> None:
        """Sends a message; does not wait for an answer.

        Raises:
            SilentError: The program does not read the message.
        """
        head = {**message, "bytes": len(payload)} if payload else message
        self.send_raw([json.dumps(head).encode() + b"\n", payload])

    def send_raw(self, parts: Iterable[bytes]) -> None:
        """Sends bytes until all are sent, or until the program answers or ends: :meth:`receive` then tells why.

        Raises:
            SilentError: The program does not read the bytes.
        """
        with selectors.DefaultSelector() as selector:
            selector.register(self._input, selectors.EVENT_WRITE)
            selector.register(self._output, selectors.EVENT_READ)
            for part in parts:
                rest = memoryview(part)
                while rest:
                    ready = [key.fileobj for key, _ in self._select(selector)]
                    if self._output in ready:
                        self._read()
                        return
                    try:
                        rest = rest[os.write(self._input.fileno(), rest[:_CHUNK]) :]
                    except BrokenPipeError:
                        return

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next message and its payload. What a login shell prints before the first one is ignored.

        Raises:
            HungUpError: The program ended before the message.
            SilentError: The message does not come in time.
        """
        while True:
            line = self._take_line()
            if line.startswith(b"{"):
                message: dict[str, Any] = json.loads(line)
                return message, self._take(message.get("bytes", 0))
            self._passed_over = line

    def close(self, seconds: float = _SECONDS_TO_END) -> int:
        """Closes the program's input, and ends it after ``seconds``; returns its exit code."""
        self._input.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()
        self._stderr.close()
        return self._process.returncode

    def _take_line(self) -> bytes:
        while b"\n" not in self._received:
            self._wait_and_read()
        line, _, rest = bytes(self._received).partition(b"\n")
        self._received = bytearray(rest)
        return line

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            self._wait_and_read()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _wait_and_read(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._output, selectors.EVENT_READ)
            self._select(selector)
        if not self._read():
            raise self._hung_up()

    def _select(self, selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
        ready = selector.select(min(self.timeout, _SECONDS_OF_QUICK_ANSWERS))
        if not ready:
            # A run in an emulator takes long. Only this class knows how long the program may be silent.
            with supervision.slow_step(self.timeout):
                ready = selector.select(max(0.0, self.timeout - _SECONDS_OF_QUICK_ANSWERS))
        if not ready:
            raise SilentError
        return ready

    def _read(self) -> bool:
        """Reads what there is; returns False at the end of the program's output."""
        data = os.read(self._output.fileno(), _CHUNK)
        self._received += data
        return bool(data)

    def _hung_up(self) -> HungUpError:
        deadline = time.monotonic() + _SECONDS_TO_END
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - _KEPT_STDERR))
        said = [self._stderr.read(), self._passed_over, bytes(self._received)]
        return HungUpError(self._process.returncode, b"\n".join(said).decode(errors="replace"))
