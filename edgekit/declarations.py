"""Checks what a plugin declares of itself against its contract, before anything relies on it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from edgekit.device import Device
from edgekit.quantizer import Quantizer, Scheme
from edgekit.rewrite import Rewrite, RewriteSet
from edgekit.target import Profile, Target
from edgekit.witness import Witness

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""The form of profiles' names, which are also names of folders in bundles."""
_ABSENT = object()


def flaw_of(plugin: object) -> str | None:
    """What is wrong with what a plugin declares; None if it meets the contract.

    Args:
        plugin: An instance of a target, a quantizer, a set of rewrites or a witness; for a device, the class.
    """
    return next(_flaws(plugin), None)


def profile_flaw(profile: Profile) -> str | None:
    """What is wrong with a target's device profile; None if it meets the contract."""
    return next(_profile_flaws(profile), None)


def _flaws(plugin: Any) -> Iterator[str]:
    if isinstance(plugin, type) and issubclass(plugin, Device):
        yield from _unlike("its url_form", getattr(plugin, "url_form", _ABSENT), str, "text")
        return
    yield from _unlike("its name", getattr(plugin, "name", _ABSENT), str, "text")
    if isinstance(plugin, Target):
        yield from _not_texts("its options", plugin.options)
    if isinstance(plugin, Quantizer):
        yield from _others("its schemes", plugin.schemes, Scheme)
    if isinstance(plugin, RewriteSet):
        yield from _others("its rewrites", plugin.rewrites, Rewrite)
    if isinstance(plugin, Witness):
        targets = getattr(plugin, "targets", _ABSENT)
        if not isinstance(targets, frozenset):
            yield f"its targets are not a frozenset: {'there are none' if targets is _ABSENT else repr(targets)}"


def _profile_flaws(profile: Profile) -> Iterator[str]:
    for name in (profile.name, *(profile.aliases if isinstance(profile.aliases, tuple) else ())):
        if not isinstance(name, str) or _NAME.fullmatch(name) is None:
            yield f"a profile's name may have only letters, digits, '.', '_' and '-': {name!r}"
    called = f"profile {profile.name!r}: its"
    yield from _unlike(f"{called} description", profile.description, str, "text")
    yield from _not_texts(f"{called} options", profile.options)
    yield from _unlike(f"{called} runs_here", profile.runs_here, bool, "bool")
    yield from _unlike(f"{called} accelerator", profile.accelerator, str, "text")
    for field in ("aliases", "instruction_sets"):
        given = getattr(profile, field)
        if not isinstance(given, tuple) or not all(isinstance(each, str) for each in given):
            yield f"{called} {field} are not a tuple of texts: {given!r}"


def _unlike(what: str, given: object, kind: type, noun: str) -> Iterator[str]:
    if not isinstance(given, kind):
        yield f"{what} is not a {noun}: {'there is none' if given is _ABSENT else repr(given)}"


def _not_texts(what: str, given: object) -> Iterator[str]:
    if not isinstance(given, Mapping) or not all(isinstance(text, str) for pair in given.items() for text in pair):
        yield f"{what} are not a mapping from texts to texts: {given!r}"


def _others(what: str, given: Any, kind: type) -> Iterator[str]:
    for each in given:
        if not isinstance(each, kind):
            yield f"{what} are not of type {kind.__module__}.{kind.__name__}: {each!r}"
