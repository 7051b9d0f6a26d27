"""A device that OpenSSH reaches: ``ssh://user@host[:port]``."""

from __future__ import annotations

import base64
import secrets
import shlex
import shutil
import subprocess
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from edgekit.bundle import Bundle, file_records
from edgekit.devices.channel import Channel, HungUpError, SilentError
from edgekit.devices.device import Device, Session
from edgekit.devices.service_session import ServiceSession, require_python_check, silent
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.python_check import IN_DEFAULT_PRECISION, SERVE

FORM = "ssh://[user@]host[:port][?python=COMMAND&folder=FOLDER&config=FILE]"
_PARAMETERS = {"python", "folder", "config"}
CONNECT_SECONDS = 15
ALIVE_SECONDS = 10
"""How often the connection is asked whether it still stands; three times without an answer it is broken."""
RECONNECTS = 3
"""How often a copy that broke off is taken up again."""
PATIENCE_SECONDS = 30
"""How long what has arrived waits on the device for that."""
_SECONDS_BEFORE_RECONNECT = 1.0
_CHUNK = 1 << 16
_SSH_FAILED = 255
_NOT_FOUND = (126, 127)
_REFUSALS = (
    ("Host key verification failed", "its host key is not a known one", "connect once with `ssh` and look at the key"),
    ("Permission denied", "does not let us in", "`ssh` must get in without asking: by a key in an agent, for example"),
    ("Too many authentication failures", "does not let us in", "name the key in ~/.ssh/config (IdentityFile)"),
)
"""What OpenSSH says of a failure that is not the network's, what we say, and what helps."""


class SshDevice(Device):
    """A device with OpenSSH's server, Python 3.10 or later, NumPy and the runtime of the bundle; nothing of EdgeKit.

    Args:
        url: As it was given.
        destination: What ``ssh`` connects to.
        port: Another one than ssh's own choice.
        python: The Python there.
        folder: Where the bundle is put there; the system's folder for temporary files where nothing is given.
        config: A configuration file in place of ``~/.ssh/config``.
    """

    def __init__(
        self,
        url: str,
        destination: str,
        port: int | None = None,
        python: str = "python3",
        folder: str | None = None,
        config: Path | None = None,
    ) -> None:
        self._url = url
        self._python = python
        self._parent = folder
        port_option = [] if port is None else ["-p", str(port)]
        config_option = [] if config is None else ["-F", str(config)]
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_SECONDS,
            "ServerAliveInterval": ALIVE_SECONDS,
        }
        pinned = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        self._ssh = ["ssh", "-T", *config_option, *pinned, *port_option, "--", destination]

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device that ``url`` names.

        Raises:
            InputError: The URL is not written so.
        """
        parts = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            port = parts.port
            flaw = not parts.hostname or parts.path.strip("/") or parts.password or set(query) - _PARAMETERS
        except ValueError:  # the port is no number
            port, flaw = None, True
        if flaw:
            raise InputError("is no address of a device", subject="--device", expected=FORM, found=url)
        host = parts.netloc.rpartition("@")[2].partition(":")[0] if "[" not in parts.netloc else str(parts.hostname)
        destination = host if parts.username is None else f"{parts.username}@{host}"
        config = Path(query["config"]) if "config" in query else None
        if config is not None and not config.is_file():
            raise InputError("there is no such file", subject="--device", found=config)
        return cls(
            url.partition("?")[0], destination, port, query.get("python", "python3"), query.get("folder"), config
        )

    def open(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """The bundle's check, copied there and started; it and its folder go when the context is left.

        Raises:
            InputError: The device cannot be reached.
            RequirementError: It has no Python, or not the bundle's runtime, or no room.
        """
        return self._open(bundle, SERVE)

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        """Likewise, in the precision that the runtime there chooses by itself."""
        return self._open(bundle, (*SERVE, IN_DEFAULT_PRECISION))

    @contextmanager
    def _open(self, bundle: Bundle, arguments: Sequence[str]) -> Iterator[Session]:
        require_python_check(bundle, self._url)
        if shutil.which("ssh") is None:
            raise InputError("`ssh` is not installed", subject="--device", hint="install OpenSSH's client")
        channel, folder = self._copy(bundle)
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
        """A channel to the device where the bundle's files have arrived, and the folder that they are in."""
        records = file_records(bundle.path)
        request = {
            "parent": self._parent,
            "folder": f"edgekit-{secrets.token_hex(8)}",
            "files": records,
            "patience": PATIENCE_SECONDS,
        }
        folder: str | None = None
        for attempts_left in reversed(range(RECONNECTS + 1)):
            channel = Channel([*self._ssh, self._command()], self.timeout)
            try:
                channel.send(request)
                answer = self._receive(channel)
                folder = answer["folder"]
                channel.send_raw(_rest_of_files(bundle, records, answer["arrived"]))
                self._receive(channel)
            except BaseException as problem:
                channel.close(0)
                if isinstance(problem, HungUpError) and folder is not None and attempts_left:
                    time.sleep(_SECONDS_BEFORE_RECONNECT)
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
        """What the login shell there gets to run: the landing program, packed so that no shell can misread it."""
        source = files("edgekit.devices").joinpath("landing.py").read_bytes()
        packed = base64.b64encode(zlib.compress(source, 9)).decode()
        program = f'import base64,zlib;exec(zlib.decompress(base64.b64decode("{packed}")))'
        return f"{shlex.quote(self._python)} -c '{program}'"

    def _remove(self, folder: str) -> None:
        """Removes what may be left there, as far as the device can still be reached."""
        command = [*self._ssh, f"rm -rf {shlex.quote(folder)}"]
        try:
            subprocess.run(command, timeout=CONNECT_SECONDS, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except subprocess.TimeoutExpired:
            return  # the landing program there removes it as soon as it notices that we are gone

    def _refused(self, end: HungUpError, *, reached: bool) -> EdgeKitError:
        """What to say of a connection that did not come about, or broke off."""
        if reached:
            return RequirementError(
                f"the connection broke off {RECONNECTS + 1} times while the bundle was copied",
                subject=self._url,
                found=end.last_words,
            )
        if end.code in _NOT_FOUND:
            return RequirementError(
                f"there is no {self._python!r} there",
                subject=self._url,
                found=end.last_words,
                hint="install Python 3.10 or later there, or name it: ssh://user@host?python=/usr/bin/python3.11",
            )
        if end.code != _SSH_FAILED:
            return RequirementError("Python does not run there", subject=self._url, found=end.last_words)
        for words, message, hint in _REFUSALS:
            if words in end.stderr:
                return InputError(message, subject=self._url, found=end.last_words, hint=hint)
        return InputError("cannot be reached", subject=self._url, found=end.last_words)


def _rest_of_files(bundle: Bundle, records: list[dict[str, Any]], arrived: list[int]) -> Iterator[bytes]:
    for record, offset in zip(records, arrived, strict=True):
        with (bundle.path / record["path"]).open("rb") as stream:
            stream.seek(offset)
            while chunk := stream.read(_CHUNK):
                yield chunk
