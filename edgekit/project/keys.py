"""Names the project file's keys for flags of ``package`` that messages name: ``build`` has none of these flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from edgekit.errors import EdgeKitError
from edgekit.processes.workers import Explain
from edgekit.progress import Progress

KEYS = {
    "--accept": "accept",
    "--also": "also",
    "--data": "data",
    "--dim": "dims",
    "--floor": "floor",
    "--label": "label",
    "--labels": "labels",
    "--max-drop": "max_drop",
    "--metric": "metric",
    "--option": "options",
    "--postprocess": "postprocess",
    "--precision": "precision",
    "--quantize": "quantize",
    "--quantizer": "quantizer",
    "--shape": "shapes",
    "--state": "states",
    "--target": "target",
    "--verify-data": "verify_data",
    "--witness": "witness",
}
"""The key of a bundle for each flag of ``package`` that has one."""
PACKAGE_ALONE = frozenset({"--isa", "--like", "--max-size", "--smallest"})
"""Flags that only ``package`` has, without a key in the project file."""

_FLAG = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w-])")
_COMMAND = re.compile(r"`[^`]*`")


def project_keys_for(text: str) -> str:
    """What to add to a text that names flags of ``package``; empty if it names none, or names the project file."""
    if "project file" in text:
        return ""
    flags = dict.fromkeys(_FLAG.findall(_COMMAND.sub("", text)))
    named = [f"{flag} is `{KEYS[flag]}`" for flag in flags if flag in KEYS]
    alone = [f"{flag} is an option of `edgekit package`" for flag in flags if flag in PACKAGE_ALONE]
    parts = ([f"in the project file {', '.join(named)}"] if named else []) + alone
    return "; ".join(parts)


class KeysInWarnings(Progress):
    """Passes everything on to another progress; adds to warnings the keys of the flags that they name."""

    def __init__(self, inner: Progress) -> None:
        self._inner = inner

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Passes the stage on."""
        with self._inner.stage(name):
            yield

    def step(self, what: str, done: int, total: int) -> None:
        """Passes the step on."""
        self._inner.step(what, done, total)

    def warn(self, text: str) -> None:
        """Passes the warning on, with the keys."""
        keys = project_keys_for(text)
        self._inner.warn(f"{text} ({keys})" if keys else text)


def explained_with_keys(explain: Explain, failure: Exception) -> EdgeKitError:
    """The error that ``explain`` makes of a failure, with the keys of the flags that it names in its hint."""
    error = explain(failure)
    keys = project_keys_for(str(error))
    if keys:
        error.hint = keys if error.hint is None else f"{error.hint} ({keys})"
    return error
