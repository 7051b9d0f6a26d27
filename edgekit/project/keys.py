"""Says what stands in the project file for the flags that texts name: ``build`` has none of them."""

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
"""Flags that choose how a bundle is made, and have no key."""

_FLAG = re.compile(r"(?<![\w-])--[a-z]+(?:-[a-z]+)*(?![\w-])")
_COMMAND = re.compile(r"`[^`]*`")


def keys_told(text: str) -> str:
    """What to add to a text that names flags of ``package``; empty where it names none, or tells of the file itself."""
    if "project file" in text:
        return ""
    flags = dict.fromkeys(_FLAG.findall(_COMMAND.sub("", text)))
    told = [f"{flag} is `{KEYS[flag]}`" for flag in flags if flag in KEYS]
    alone = [f"{flag} is an option of `edgekit package`" for flag in flags if flag in PACKAGE_ALONE]
    parts = ([f"in the project file {', '.join(told)}"] if told else []) + alone
    return "; ".join(parts)


class KeysTold(Progress):
    """Hands everything on; warnings tell the keys of the flags that they name."""

    def __init__(self, inner: Progress) -> None:
        self._inner = inner

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Hands the stage on."""
        with self._inner.stage(name):
            yield

    def step(self, what: str, done: int, total: int) -> None:
        """Hands the step on."""
        self._inner.step(what, done, total)

    def warn(self, text: str) -> None:
        """Hands the warning on, with the keys."""
        told = keys_told(text)
        self._inner.warn(f"{text} ({told})" if told else text)


def explained_with_keys(explain: Explain, failure: Exception) -> EdgeKitError:
    """The error that people can read, whose hint tells the keys of the flags that it names."""
    error = explain(failure)
    told = keys_told(str(error))
    if told:
        error.hint = told if error.hint is None else f"{error.hint} ({told})"
    return error
