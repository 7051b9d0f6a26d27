"""Puts what installed plugins offer into the help texts of the options that choose them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from typer.core import TyperArgument, TyperGroup, TyperOption

from edgekit.errors import EdgeKitError


def fill_help(group: TyperGroup, name: str) -> None:
    """Puts what is installed into the help of a command's options, in place of ``{schemes}``, ``{devices}``, ….

    This loads the plugins, so it is only done for a command line that asks for the command's help.

    Args:
        group: All commands.
        name: The command; nothing happens if there is no command of that name.
    """
    command = group.commands.get(name)
    for parameter in [] if command is None else command.params:
        if isinstance(parameter, TyperArgument):
            parameter.display_type_rich = lambda ctx: None  # type: ignore[method-assign]  # <list[Path]> says nothing
        if isinstance(parameter, TyperOption) and parameter.help:
            for placeholder, text in _TEXTS.items():
                if placeholder in parameter.help:
                    parameter.help = parameter.help.replace(placeholder, text())


def _schemes() -> str:
    from edgekit.registry import installed_quantizer

    try:
        schemes = installed_quantizer().schemes
    except EdgeKitError as error:  # the help has to show the rest
        return f"({error.message})"
    return ", ".join(f"{scheme.name}{'*' if scheme.needs_samples else ''}" for scheme in schemes)


def _quantizers() -> str:
    from edgekit.registry import QUANTIZERS

    return ", ".join(QUANTIZERS.by_name()) or "none is installed"


def _witnesses() -> str:
    from edgekit.registry import WITNESSES

    return ", ".join(WITNESSES.by_name()) or "none is installed"


def _weight_schemes() -> str:
    from edgekit.registry import installed_targets

    found: dict[str, list[str]] = {}
    for target, profile in installed_targets().profiles():
        known = found.setdefault(target.name, [])
        known += [scheme for scheme in target.weight_schemes(profile) if scheme not in known]
    return "; ".join(f"{name}: {', '.join(schemes)}" for name, schemes in found.items() if schemes) or "none does"


def _devices() -> str:
    from edgekit.registry import device_forms

    return ", ".join(device_forms())


_TEXTS: Mapping[str, Callable[[], str]] = {
    "{schemes}": _schemes,
    "{quantizers}": _quantizers,
    "{weight_schemes}": _weight_schemes,
    "{devices}": _devices,
    "{witnesses}": _witnesses,
}
