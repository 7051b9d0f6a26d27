"""Finds what is installed, by entry point: targets, quantizers, devices, rewrites, witnesses; profiles by name."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from edgekit import device, quantizer, rewrite, target, witness
from edgekit.bundle import Canonical
from edgekit.declarations import flaw_of, profile_flaw
from edgekit.device import Device
from edgekit.errors import EdgeKitError, InputError, InternalError
from edgekit.quantizer import Quantizer
from edgekit.rewrite import Rewrite, RewriteSet
from edgekit.suggestions import near_names
from edgekit.target import Profile, Target
from edgekit.witness import Witness

OWN_PACKAGE = "edgekit"
"""The distribution that this file is part of."""

Plugin = TypeVar("Plugin")


@dataclass(frozen=True)
class PluginKind(Generic[Plugin]):
    """A kind of plugin, found by entry point."""

    noun: str
    group: str
    """The entry points' group."""
    interface: type[Plugin]
    contract_version: int
    """The version of the interface that this EdgeKit has."""

    def entry_points(self) -> list[EntryPoint]:
        """The installed plugins of this kind, in the order of their names."""
        return sorted(entry_points(group=self.group), key=lambda entry_point: entry_point.name)

    def by_name(self) -> dict[str, EntryPoint]:
        """The installed plugins of this kind by name; EdgeKit's own takes precedence over another of the same name.

        Raises:
            InternalError: Two other packages bring one of the same name.
        """
        found: dict[str, EntryPoint] = {}
        for entry_point in sorted(self.entry_points(), key=_is_own, reverse=True):
            first = found.setdefault(entry_point.name, entry_point)
            if first is not entry_point and not _is_own(first):
                raise InternalError(
                    f"two packages bring a {self.noun} of that name: {first.value} and {entry_point.value}",
                    subject=f"{self.noun} {entry_point.name!r}",
                    hint="uninstall one of them",
                )
        return {name: found[name] for name in sorted(found)}

    def load(self, entry_point: EntryPoint) -> type[Plugin]:
        """The class that an entry point names, checked against the interface and its version.

        Raises:
            InternalError: The class does not load, is no such plugin, or is for another version of the contract.
        """
        try:
            plugin: Any = entry_point.load()
        except (Exception, SystemExit) as error:  # foreign code: whatever it raises, the others must stay usable
            raise InternalError(f"does not load: {type(error).__name__}: {error}", subject=entry_point.value) from error
        interface = self.interface
        if not isinstance(plugin, type) or not issubclass(plugin, interface):
            raise InternalError(f"is not an {interface.__module__}.{interface.__name__}", subject=entry_point.value)
        version = getattr(plugin, "contract_version", None)
        if version != self.contract_version:
            has = "names no version" if version is None else f"is written for version {version!r}"
            raise InternalError(
                f"{has} of the {self.noun} contract, and this EdgeKit has version {self.contract_version}",
                subject=entry_point.value,
                hint="install releases of both that belong together",
            )
        missing = ", ".join(sorted(getattr(plugin, "__abstractmethods__", ())))
        flaw = f"it lacks {missing}" if missing else flaw_of(plugin) if issubclass(plugin, Device) else None
        if flaw is not None:
            raise InternalError(flaw, subject=entry_point.value)
        return plugin

    def create(self, entry_point: EntryPoint) -> Plugin:
        """An instance of the class that an entry point names.

        Raises:
            InternalError: As for :meth:`load`, or its constructor fails.
        """
        plugin = self.load(entry_point)
        try:
            created = plugin()
            flaw = flaw_of(created)
        except (Exception, SystemExit) as error:  # as above
            raise InternalError(f"does not load: {type(error).__name__}: {error}", subject=entry_point.value) from error
        if flaw is not None:
            raise InternalError(flaw, subject=entry_point.value)
        return created


TARGETS = PluginKind("target", "edgekit.targets", Target, target.CONTRACT_VERSION)  # type: ignore[type-abstract]  # asked with issubclass
QUANTIZERS = PluginKind("quantizer", "edgekit.quantizers", Quantizer, quantizer.CONTRACT_VERSION)  # type: ignore[type-abstract]  # as above
DEVICES = PluginKind("device", "edgekit.devices", Device, device.CONTRACT_VERSION)  # type: ignore[type-abstract]  # as above
REWRITES = PluginKind("rewrite", "edgekit.rewrites", RewriteSet, rewrite.CONTRACT_VERSION)  # type: ignore[type-abstract]  # as above
WITNESSES = PluginKind("witness", "edgekit.witnesses", Witness, witness.CONTRACT_VERSION)  # type: ignore[type-abstract]  # as above
KINDS: tuple[PluginKind[Any], ...] = (TARGETS, QUANTIZERS, DEVICES, REWRITES, WITNESSES)


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
        for installed in self.targets:
            for profile in installed.profiles:
                yield installed, profile

    def all_broken(self) -> list[tuple[str, BrokenPlugin]]:
        """The plugins that do not load, each with the noun of its kind; for devices see :func:`device_forms`."""
        return [
            *((TARGETS.noun, plugin) for plugin in self.broken),
            *(("set of rewrites", plugin) for plugin in rewrite_sets().broken),
            *broken_others(),
        ]

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``: the profiles, the forms of devices' URLs, and the plugins that do not load."""
        profiles = [
            {
                "name": profile.name,
                "aliases": list(profile.aliases),
                "target": installed.name,
                "description": profile.description,
                "options": dict(profile.options),
                "build_options": dict(installed.options),
                "own_schemes": list(installed.weight_schemes(profile)),
                "runs_here": installed.on_this_machine(profile).runs_here,
            }
            for installed, profile in self.profiles()
        ]
        broken = [{"name": plugin.name, "reason": plugin.reason} for _, plugin in self.all_broken()]
        return {"targets": profiles, "devices": device_forms(), "broken": broken}


@functools.cache
def installed_targets() -> InstalledTargets:
    """The targets that are installed, in the order of their names.

    A target counts as broken if it does not load, gives no profiles, or claims a name that EdgeKit's own or an earlier
    target has already.
    """
    targets: dict[str, Target] = {}
    broken = []
    taken: dict[str, str] = {}
    for entry_point in sorted(TARGETS.entry_points(), key=_is_own, reverse=True):
        try:
            created = TARGETS.create(entry_point)
            names = _names_of(created, entry_point)
            if clashes := [name for name in names if name in taken]:
                owner = taken[clashes[0]]
                raise InternalError(f"the name {clashes[0]!r} is that of a profile of {owner} already")
        except EdgeKitError as error:
            broken.append(BrokenPlugin(entry_point.name, entry_point.value, error.message))
        else:
            targets[entry_point.value] = created
            taken |= dict.fromkeys(names, entry_point.value)
    in_order = sorted(targets.values(), key=lambda target: target.name)
    return InstalledTargets(tuple(in_order), tuple(sorted(broken, key=lambda plugin: plugin.name)))


def _names_of(created: Target, entry_point: EntryPoint) -> list[str]:
    """The names by which a target and its profiles can be chosen, aliases included, in lower case.

    Raises:
        InternalError: The target gives no profiles, or a profile violates the contract.
    """
    try:
        profiles = tuple(created.profiles)
    except Exception as error:  # a plugin is foreign code
        raise InternalError(f"its profiles: {type(error).__name__}: {error}", subject=entry_point.value) from error
    strange = [type(profile).__name__ for profile in profiles if not isinstance(profile, Profile)]
    if strange or not profiles:
        raise InternalError(
            f"its profiles are not of type edgekit.target.Profile: {strange[0] if strange else 'there is none'}",
            subject=entry_point.value,
        )
    flaw = next((flaw for flaw in map(profile_flaw, profiles) if flaw is not None), None)
    own = [profile.name.casefold() for profile in profiles] if flaw is None else []
    if twice := [name for name in own if own.count(name) > 1]:
        flaw = f"two of its profiles are called {twice[0]!r}"
    if flaw is not None:
        raise InternalError(flaw, subject=entry_point.value)
    named = (name for profile in profiles for name in (profile.name, *profile.aliases))
    return list(dict.fromkeys(name.casefold() for name in (created.name, *named)))


def find_profile(name: str, flag: str = "--target") -> tuple[Target, Profile]:
    """The profile called ``name``, by its own name, by an alias, or by its target's name (the target's first profile).

    The profile is as :meth:`edgekit.target.Target.on_this_machine` returns it.

    Args:
        name: The name.
        flag: The flag that errors name.

    Raises:
        InputError: No installed target has a profile of that name; near names are listed.
    """
    installed = installed_targets()
    wanted = name.casefold()
    for found, profile in installed.profiles():
        if wanted in {known.casefold() for known in (profile.name, *profile.aliases)}:
            return found, found.on_this_machine(profile)
    for found in installed.targets:
        if wanted == found.name.casefold():
            return found, found.on_this_machine(found.profiles[0])
    known_names = [
        known for found, profile in installed.profiles() for known in (found.name, profile.name, *profile.aliases)
    ]
    raise InputError(
        f"there is no target {name!r}",
        subject=flag,
        expected=near_names(wanted, known_names),
        found=_broken_note(installed.broken),
        hint="`edgekit targets` lists what is installed",
    )


def canonical_of(profile: str) -> Canonical | None:
    """The function that returns the content of a bundle's files (:meth:`edgekit.target.Target.canonical`).

    Args:
        profile: The device profile that the bundle was built for.

    Returns:
        The method of the profile's target; None if the target is not installed.
    """
    try:
        return find_profile(profile)[0].canonical
    except InputError:
        return None


@functools.cache
def installed_quantizer(name: str | None = None) -> Quantizer:
    """The quantizer called ``name``; without a name EdgeKit's own, or the first one if EdgeKit's is not installed.

    Raises:
        InputError: No quantizer is installed, or none of that name.
        InternalError: The quantizer is installed but does not load.
    """
    found = QUANTIZERS.by_name()
    if not found:
        raise InputError(
            "no quantizer is installed",
            subject="quantize",
            hint=f"install a package with an entry point in the group {QUANTIZERS.group!r}",
        )
    if name is not None and name not in found:
        raise InputError(f"there is no quantizer {name!r}", subject="--quantizer", expected=near_names(name, found))
    return QUANTIZERS.create(found[name or (OWN_PACKAGE if OWN_PACKAGE in found else next(iter(found)))])


def find_witness(name: str) -> Witness:
    """The witness called ``name``.

    Raises:
        InputError: No witness of that name is installed; the installed ones are listed.
        InternalError: The witness is installed but does not load.
    """
    found = WITNESSES.by_name()
    if name not in found:
        known = ", ".join(found) or "none is installed"
        raise InputError(f"there is no witness {name!r}", subject="--witness", expected=known)
    return WITNESSES.create(found[name])


def device_class(scheme: str) -> type[Device] | None:
    """The class of the device whose URLs begin with ``scheme``; None if no such device is installed.

    Raises:
        InternalError: The device is installed but does not load.
    """
    found = DEVICES.by_name()
    return DEVICES.load(found[scheme]) if scheme in found else None


def device_forms() -> list[str]:
    """How the URLs of the installed devices are written; a device that does not load is listed with the reason."""
    forms = []
    for entry_point in DEVICES.entry_points():
        try:
            forms.append(DEVICES.load(entry_point).url_form)
        except EdgeKitError as error:
            forms.append(f"{entry_point.name} ({error.message})")
    return forms


@dataclass(frozen=True)
class InstalledRewrites:
    """The rewrites of this installation, and the sets of them that do not load."""

    rewrites: tuple[Rewrite, ...]
    broken: tuple[BrokenPlugin, ...]


@functools.cache
def rewrite_sets() -> InstalledRewrites:
    """The installed rewrites; those of other packages precede EdgeKit's own, since who installs one wants it used."""
    rewrites: list[Rewrite] = []
    broken = []
    for entry_point in sorted(REWRITES.entry_points(), key=_is_own):
        try:
            rewrites += REWRITES.create(entry_point).rewrites
        except Exception as error:  # a plugin is foreign code: the others must stay usable
            reason = error.message if isinstance(error, EdgeKitError) else f"{type(error).__name__}: {error}"
            broken.append(BrokenPlugin(entry_point.name, entry_point.value, reason))
    return InstalledRewrites(tuple(rewrites), tuple(broken))


def broken_others() -> tuple[tuple[str, BrokenPlugin], ...]:
    """The quantizers and witnesses that do not load, each with the noun of its kind; choosing one raises an error."""
    broken = []
    kinds: tuple[PluginKind[Any], ...] = (QUANTIZERS, WITNESSES)
    for kind in kinds:
        for entry_point in kind.entry_points():
            try:
                kind.create(entry_point)
            except EdgeKitError as error:
                broken.append((kind.noun, BrokenPlugin(entry_point.name, entry_point.value, error.message)))
    return tuple(broken)


def installed_rewrites() -> tuple[Rewrite, ...]:
    """The rewrites of the sets that load, those of other packages first."""
    return rewrite_sets().rewrites


def _package_of(entry_point: EntryPoint) -> str:
    """The name of the distribution that contains a plugin; the name that is imported if the distribution is unknown."""
    return entry_point.module.partition(".")[0] if entry_point.dist is None else entry_point.dist.name


def _is_own(entry_point: EntryPoint) -> bool:
    return _package_of(entry_point) == OWN_PACKAGE


def plugin_of(module: str) -> str | None:
    """The installed package of the third-party plugin that contains ``module``; None if there is no such plugin.

    The package is named by its distribution if that is known, else by the name that is imported.
    """
    top = module.partition(".")[0]
    for kind in KINDS:
        for entry_point in kind.entry_points():
            if entry_point.module.partition(".")[0] == top:
                package = _package_of(entry_point)
                return None if package == OWN_PACKAGE else package
    return None


def _broken_note(broken: Iterable[BrokenPlugin]) -> str | None:
    note = "; ".join(str(plugin) for plugin in broken)
    return f"targets that do not load: {note}" if note else None
