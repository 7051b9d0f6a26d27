"""Finds what is installed: targets, quantizers and rewrites by entry point, device profiles by name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import TypeVar

from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.quantizer import Quantizer
from edgekit.rewrite import Rewrite, RewriteSet
from edgekit.suggestions import near_names
from edgekit.target import Profile, Target

TARGET_GROUP = "edgekit.targets"
QUANTIZER_GROUP = "edgekit.quantizers"
REWRITE_GROUP = "edgekit.rewrites"
OWN_PACKAGE = "edgekit"
"""The distribution that this file is part of."""

Plugin = TypeVar("Plugin")


@dataclass(frozen=True)
class BrokenPlugin:
    """An entry point that is installed but does not load."""

    name: str
    value: str
    """The entry point's object reference (``package.module:Class``)."""
    reason: str

    def __str__(self) -> str:
        return f"{self.name} ({self.value}): {self.reason}"


@dataclass(frozen=True)
class InstalledTargets:
    """Every target of this installation, and the ones that do not load."""

    targets: tuple[Target, ...]
    broken: tuple[BrokenPlugin, ...]

    def profiles(self) -> Iterator[tuple[Target, Profile]]:
        """Every device profile with the target that builds for it."""
        for target in self.targets:
            for profile in target.profiles:
                yield target, profile


@functools.cache
def installed_targets() -> InstalledTargets:
    """The targets that are installed, in the order of their names."""
    targets, broken = [], []
    for entry_point in _entry_points(TARGET_GROUP):
        try:
            targets.append(_load(entry_point, Target))  # type: ignore[type-abstract]  # asked with isinstance
        except EdgeKitError as error:
            broken.append(BrokenPlugin(entry_point.name, entry_point.value, error.message))
    return InstalledTargets(tuple(targets), tuple(broken))


def find_profile(name: str) -> tuple[Target, Profile]:
    """The profile called ``name``, by its own name, by an alias, or by its target's name (the target's first profile).

    Raises:
        InputError: No installed target has a profile of that name; near names are listed.
    """
    installed = installed_targets()
    wanted = name.casefold()
    for target, profile in installed.profiles():
        if wanted in {known.casefold() for known in (profile.name, *profile.aliases)}:
            return target, profile
    for target in installed.targets:
        if wanted == target.name.casefold():
            return target, target.profiles[0]
    known_names = [
        known for target, profile in installed.profiles() for known in (target.name, profile.name, *profile.aliases)
    ]
    raise InputError(
        f"there is no target {name!r}",
        subject="--target",
        expected=near_names(wanted, known_names),
        found=_broken_note(installed.broken),
        hint="`edgekit targets` lists what is installed",
    )


@functools.cache
def installed_quantizer(name: str | None = None) -> Quantizer:
    """The quantizer called ``name``, or the first one that is installed.

    Raises:
        InputError: None is installed, or none of that name.
        InternalError: It is installed but does not load.
    """
    found = {entry_point.name: entry_point for entry_point in _entry_points(QUANTIZER_GROUP)}
    if not found:
        raise InputError(
            "no quantizer is installed",
            subject="quantize",
            hint=f"install a package with an entry point in the group {QUANTIZER_GROUP!r}",
        )
    if name is not None and name not in found:
        raise InputError(f"there is no quantizer {name!r}", expected=near_names(name, found))
    chosen = found[name] if name is not None else next(iter(found.values()))
    return _load(chosen, Quantizer)  # type: ignore[type-abstract]  # as above


@functools.cache
def installed_rewrites() -> tuple[Rewrite, ...]:
    """The rewrites that are installed, those of other packages before our own: who brings one wants it taken.

    Raises:
        InternalError: A set of rewrites is installed but does not load.
    """
    own_last = sorted(_entry_points(REWRITE_GROUP), key=lambda entry_point: _is_own(entry_point))
    sets = [_load(entry_point, RewriteSet) for entry_point in own_last]  # type: ignore[type-abstract]  # as above
    return tuple(rewrite for each in sets for rewrite in each.rewrites)


def _is_own(entry_point: EntryPoint) -> bool:
    return entry_point.module.partition(".")[0] == OWN_PACKAGE


def plugin_of(module: str) -> str | None:
    """The installed package that brings a plugin of somebody else's, of which ``module`` is a part; None for others.

    It is the distribution's name where that is known, else the name that is imported.
    """
    top = module.partition(".")[0]
    groups = (TARGET_GROUP, QUANTIZER_GROUP, REWRITE_GROUP)
    for entry_point in (entry_point for group in groups for entry_point in _entry_points(group)):
        package = top if entry_point.dist is None else entry_point.dist.name
        if entry_point.module.partition(".")[0] == top:
            return None if package == OWN_PACKAGE else package
    return None


def _entry_points(group: str) -> list[EntryPoint]:
    return sorted(entry_points(group=group), key=lambda entry_point: entry_point.name)


def _load(entry_point: EntryPoint, interface: type[Plugin]) -> Plugin:
    """An instance of the class that the entry point names, checked against its interface."""
    try:
        plugin = entry_point.load()()
    except Exception as error:  # a plugin is foreign code: whatever it raises, the others must stay usable
        raise InternalError(f"does not load: {type(error).__name__}: {error}", subject=entry_point.value) from error
    if not isinstance(plugin, interface):
        raise InternalError(f"is not a {interface.__module__}.{interface.__name__}", subject=entry_point.value)
    return plugin


def _broken_note(broken: Iterable[BrokenPlugin]) -> str | None:
    note = "; ".join(str(plugin) for plugin in broken)
    return f"targets that do not load: {note}" if note else None
