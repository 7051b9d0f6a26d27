"""``edgekit targets``: what this installation can build for, and where it can execute bundles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgekit.cli._bundle_view import show_table
from edgekit.cli._command import command
from edgekit.cli._console import Console

if TYPE_CHECKING:
    from rich.console import Console as RichConsole

    from edgekit.registry import InstalledTargets


@command("edgekit targets", "edgekit targets --json")
def targets(console: Console) -> None:
    """List the device profiles and the devices.

    Each profile's name goes with --target; "runs here" tells whether the device's own runtime executes on this machine.
    Each device's URL goes with --device.
    """
    from edgekit.registry import installed_targets

    installed = installed_targets()
    record = installed.as_record()
    console.show(record, lambda out: _render(installed, record, out))
    for kind, plugin in installed.all_broken():
        console.warn(f"the {kind} {plugin}")


def _render(installed: InstalledTargets, record: Mapping[str, Any], out: RichConsole) -> None:
    here = {entry["name"] for entry in record["targets"] if entry["runs_here"]}
    rows = []
    for target, profile in installed.profiles():
        default = (target.name,) if profile == target.profiles[0] else ()
        other_names = dict.fromkeys((*default, *profile.aliases))
        runs_here = "yes" if profile.name in here else "no"
        rows.append((profile.name, ", ".join(other_names), runs_here, profile.description))
    show_table(("target", "also called", "runs here", "what it is"), rows, out)
    for number, url in enumerate(record["devices"]):
        out.print(f"{'' if number else '--device takes':<14}  {url}", soft_wrap=True, markup=False)
