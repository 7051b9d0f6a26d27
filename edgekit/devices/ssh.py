"""A device that is reached by OpenSSH: ``ssh://user@host[:port]``."""

from __future__ import annotations

from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit

from edgekit.devices.channel import HungUpError
from edgekit.devices.remote import CONNECT_SECONDS, RemoteDevice
from edgekit.errors import InputError

FORM = "ssh://[user@]host[:port][?python=COMMAND&folder=FOLDER&config=FILE]"
_PARAMETERS = {"python", "folder", "config"}
ALIVE_SECONDS = 10
"""Seconds between checks of the connection; after three checks without an answer it counts as broken."""
_SSH_FAILED = 255
_REFUSALS = (
    ("Host key verification failed", "its host key is not a known one", "connect once with `ssh` and look at the key"),
    ("Permission denied", "does not let us in", "`ssh` must get in without asking: by a key in an agent, for example"),
    ("Too many authentication failures", "does not let us in", "name the key in ~/.ssh/config (IdentityFile)"),
)
"""For failures that are not the network's: what OpenSSH prints, EdgeKit's message, and its hint."""


class SshDevice(RemoteDevice):
    """A device with OpenSSH's server.

    Args:
        url: The URL as it was given, for errors.
        destination: What ``ssh`` connects to.
        port: The port; None for ssh's own choice.
        python: The Python command on the device.
        folder: The folder on the device that the bundle is copied into; None for the folder for temporary files.
        config: A configuration file in place of ``~/.ssh/config``.
    """

    contract_version = 1
    url_form = FORM

    def __init__(
        self,
        url: str,
        destination: str,
        port: int | None = None,
        python: str = "python3",
        folder: str | None = None,
        config: Path | None = None,
    ) -> None:
        port_option = [] if port is None else ["-p", str(port)]
        config_option = [] if config is None else ["-F", str(config)]
        options = {
            "BatchMode": "yes",
            "ConnectTimeout": CONNECT_SECONDS,
            "ServerAliveInterval": ALIVE_SECONDS,
        }
        pinned = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
        reach = ["ssh", "-T", *config_option, *pinned, *port_option, "--", destination]
        super().__init__(url, reach, python, folder)

    @classmethod
    def from_url(cls, url: str) -> Self:
        """The device that ``url`` names.

        Raises:
            InputError: The URL is not of the form :data:`FORM`, or its configuration file does not exist.
        """
        parts = urlsplit(url)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        try:
            port = parts.port
            flaw = not parts.hostname or parts.path.strip("/") or parts.password or set(query) - _PARAMETERS
        except ValueError:  # the port is no number
            port, flaw = None, True
        if flaw:
            lacks_slashes = not parts.netloc and parts.path
            hint = f"two slashes stand before the host: ssh://{parts.path}" if lacks_slashes else None
            raise InputError("is not an address of a device", subject="--device", expected=FORM, found=url, hint=hint)
        host = parts.netloc.rpartition("@")[2].partition(":")[0] if "[" not in parts.netloc else str(parts.hostname)
        destination = host if parts.username is None else f"{parts.username}@{host}"
        config = Path(query["config"]) if "config" in query else None
        if config is not None and not config.is_file():
            raise InputError("there is no such file", subject="--device", found=config)
        return cls(
            url.partition("?")[0], destination, port, query.get("python", "python3"), query.get("folder"), config
        )

    def unreachable(self, end: HungUpError) -> InputError | None:
        """The error if OpenSSH could not connect; None if it could."""
        if end.code != _SSH_FAILED:
            return None
        for words, message, hint in _REFUSALS:
            if words in end.stderr:
                return InputError(message, subject=self._url, found=end.last_words, hint=hint)
        return InputError("cannot be reached", subject=self._url, found=end.last_words)
