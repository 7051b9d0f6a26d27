"""Devices where a command can be run over a connection that carries its input and output: by SSH, by adb."""

from __future__ import annotations

import base64
import math
import secrets
import shlex
import shutil
import subprocess
import time
import zlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import files
from typing import Any

from edgekit.bundle import Bundle, file_records
from edgekit.device import Device, Session
from edgekit.device_check.python_check import IN_DEFAULT_PRECISION, SERVE, together
from edgekit.devices.channel import Channel, HungUpError, SilentError
from edgekit.devices.own_check import with_own_check
from edgekit.devices.service_session import ServiceSession, require_python_check, silent
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.progress import Step

CONNECT_SECONDS = 15
PATIENCE_SECONDS = 30
"""How long files that have arrived are kept on the device for the next connection."""
_SECONDS_BEFORE_RECONNECTS = (1.0, 2.0, 8.0)
"""Pauses before each attempt to reconnect after a copy breaks off; the copy continues where it broke off."""
_CHUNK = 1 << 16
_MEGABYTE = 10**6
_NOT_FOUND = (126, 127)
"""Exit codes of a shell if a command does not exist, or is no program."""


class RemoteDevice(Device):
    """A device with Python 3.10 or later, NumPy and the bundle's runtime, without EdgeKit.

    :mod:`edgekit.devices.remote_copy` copies the bundle to the device, and removes it in the end.

    Args:
        url: How errors name the device.
        reach: The command that runs another one on the device; that one follows as one argument, for a POSIX shell.
        python: The Python command on the device.
        folder: The folder on the device that the bundle is copied into; None for the folder for temporary files.
    """

    def __init__(self, url: str, reach: Sequence[str], python: str, folder: str | None) -> None:
        self._url = url
        self._reach = reach
        self._python = python
        self._parent = folder

    @abstractmethod
    def unreachable(self, end: HungUpError) -> InputError | None:
        """The error if there was no connection; None if there was one, and the program on the device ended."""

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Copies the bundle to the device and starts its check; leaving the context ends it and removes the copy.

        Raises:
            InputError: The device cannot be reached.
            RequirementError: The device lacks Python, the bundle's runtime or room.
        """
        return self._open(bundle, SERVE)

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Bring the bundle to the device, in the precision that the runtime there chooses by default."""
        return self._open(bundle, (*SERVE, IN_DEFAULT_PRECISION))

    def open_for_throughput(self, bundle: Bundle, streams: int | None, batch: int) -> AbstractContextManager[Session]:
        """Bring the bundle to the device, for inferences that run at the same time."""
        return self._open(bundle, (*SERVE, *together(streams, batch)))

    @contextmanager
    def _open(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        require_python_check(bundle, self._url)
        if shutil.which(self._reach[0]) is None:
            raise InputError(f"`{self._reach[0]}` is not installed here", subject="--device")
        with with_own_check(bundle) as ours:
            channel, folder = self._copy(ours)
        ended_in_order = False
        try:
            with channel:
                channel.send({"arguments": arguments})
                yield ServiceSession(channel, bundle, self._url)
                ended_in_order = channel.close() == 0
        finally:
            if not ended_in_order:
                self._remove(folder)

    def _copy(self, bundle: Bundle) -> tuple[Channel, str]:
        """Copies the bundle to the device; returns a channel to the device, and the bundle's folder there."""
        records = file_records(bundle.path)
        request = {
            "parent": self._parent,
            "folder": f"edgekit-{secrets.token_hex(8)}",
            "files": records,
            "patience": PATIENCE_SECONDS,
        }
        folder: str | None = None
        for pause in (*_SECONDS_BEFORE_RECONNECTS, None):
            channel = Channel([*self._reach, self._command()], self.timeout)
            try:
                channel.send(request)
                answer = self._receive(channel)
                folder = answer["folder"]
                channel.send_raw(_rest_of_files(bundle, records, answer["arrived"], self.step))
                self._receive(channel)
            except BaseException as problem:
                channel.close(0)
                if isinstance(problem, HungUpError) and folder is not None and pause is not None:
                    time.sleep(pause)
                    continue
                if folder is not None:
                    self._remove(folder)
                if isinstance(problem, HungUpError):
                    raise self._refused(problem, reached=folder is not None) from None
                if isinstance(problem, SilentError):
                    raise silent(self._url, self.timeout) from None
                raise
            return channel, folder
        raise AssertionError("the last attempt returns or raises")

    def _receive(self, channel: Channel) -> dict[str, Any]:
        message, _ = channel.receive()
        if "error" in message:
            raise RequirementError("the bundle cannot be copied there", subject=self._url, found=message["error"])
        return message

    def _command(self) -> str:
        """The command for the login shell on the device: the copying program, encoded so that no shell changes it."""
        source = files("edgekit.devices").joinpath("remote_copy.py").read_bytes()
        packed = base64.b64encode(zlib.compress(source, 9)).decode()
        program = f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{packed}")))'
        return f"{shlex.quote(self._python)} -c '{program}'"

    def _remove(self, folder: str) -> None:
        """Removes the folder on the device if it is still there and the device can be reached."""
        command = [*self._reach, f"rm -rf {shlex.quote(folder)}"]
        try:
            subprocess.run(command, timeout=CONNECT_SECONDS, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except subprocess.TimeoutExpired:
            return  # the copying program on the device removes the folder once it notices that the host is gone

    def _refused(self, end: HungUpError, *, reached: bool) -> EdgeKitError:
        """The error for a connection that was not made, or broke off."""
        if reached:
            return RequirementError(
                f"the connection broke off {len(_SECONDS_BEFORE_RECONNECTS) + 1} times while the bundle was copied",
                subject=self._url,
                found=end.last_words,
            )
        if end.code in _NOT_FOUND:
            return RequirementError(
                f"there is no {self._python!r} there",
                subject=self._url,
                found=end.last_words,
                hint=f"install Python 3.10 or later there, or name it: {self._url}?python=/usr/bin/python3.11",
            )
        return self.unreachable(end) or RequirementError(
            "Python does not run there", subject=self._url, found=end.last_words
        )


def _rest_of_files(
    bundle: Bundle, records: Sequence[Mapping[str, Any]], arrived: Sequence[int], step: Step | None
) -> Iterator[bytes]:
    done, total = sum(arrived), sum(record["bytes"] for record in records)
    for record, offset in zip(records, arrived, strict=True):
        with (bundle.path / record["path"]).open("rb") as stream:
            stream.seek(offset)
            while chunk := stream.read(_CHUNK):
                yield chunk
                done += len(chunk)
                if step is not None:
                    step("MB copied:", done // _MEGABYTE, math.ceil(total / _MEGABYTE))
