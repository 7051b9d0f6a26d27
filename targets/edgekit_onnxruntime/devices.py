"""The devices of the folder ``devices``: one file each, with the device's names and what is known of its operators.

    {
      "profile": {"name": …, "description": …, "aliases": […]},
      "provider": ONNX Runtime's execution provider,
      "unit": the name in verdicts of the part of the device that the provider runs on,
      "fallback": the unit that executes the nodes that the provider leaves, by the CPU provider's kernels,
      "architecture": "arm64", if builds for it differ,
      "this_machine": whether a machine whose ONNX Runtime starts the provider is such a device,
      "open_dimensions": whether the provider supports models with dimensions that stay open,
      "session": {…} options of the provider and the session, described in :mod:`edgekit_onnxruntime.session_recipe`,
      "simulator": {…} options of QNN's simulator, which compiles for the device on this machine; or
      "unknown_because": why nothing is known of its operators; or
      "measured": the file of the folder ``measured`` with the cases that were measured with its compiler; or
      "source", "version", "date": where the table comes from, what it describes, and when it was taken from there,
      "fixed_shapes": whether the provider supports only nodes whose shapes are fixed,
      "operators": {operator, after its domain if that is not the standard one: {
          "opsets": [[first, last or null], …] supported schema versions; all if the key is missing,
          "kernels": [{"versions": [first, last], "types": {parameter of the operator's schema: [type, …]}}, …] instead
            of "opsets": a node needs a kernel with its types; parameters that are not listed may have any type,
          "absent": [index, …] inputs that must not be given,
          "ranks": […] numbers of dimensions that its first input may have; any if the key is missing,
          "constant": [index, …] inputs that must be constant if they are given,
          "attributes": {name: the only supported value},
          "note": further conditions of the source, which are not checked
      }}
    }

Adding a file adds a device. A key that is not listed here is an error. A file with an error does not affect the other
devices: its profile stays in the list, states the error, and cannot be used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from edgekit.errors import InputError
from edgekit.operators.measured import MeasuredTable
from edgekit.target import Profile
from edgekit_onnxruntime.keys import refuse_others
from edgekit_onnxruntime.session_recipe import SessionRecipe

FOLDER = Path(__file__).with_name("devices")
MEASURED = Path(__file__).with_name("measured")
BROWSERS = ("wasm", "webgpu")
"""The providers of onnxruntime-web, whose bundles a web page executes."""
NOT_STARTED = "not_started"
"""An option of a profile: why its provider, which the installed ONNX Runtime has, does not start here."""
KNOWLEDGE = ("operators", "simulator", "measured", "unknown_because")
"""Keys of which a device file has exactly one."""
_KEYS = frozenset(
    {
        *("profile", "provider", "unit", "fallback", "architecture", "this_machine", "open_dimensions", "session"),
        *("source", "version", "date", "fixed_shapes", *KNOWLEDGE),
    }
)
_PROFILE_KEYS = frozenset({"name", "description", "aliases"})
_OPERATOR_KEYS = frozenset({"opsets", "kernels", "absent", "ranks", "constant", "attributes", "note"})
_KERNEL_KEYS = frozenset({"versions", "types"})


@dataclass(frozen=True)
class Kernel:
    """A kernel of an operator, for a range of versions and some types."""

    first: int
    last: int
    types: Mapping[str, tuple[str, ...]]
    """The supported types, by the type parameters of the operator's schema."""


@dataclass(frozen=True)
class Operator:
    """A table's entry for an operator."""

    opsets: tuple[tuple[int, int | None], ...] = ()
    ranks: tuple[int, ...] = ()
    constant: tuple[int, ...] = ()
    kernels: tuple[Kernel, ...] = ()
    absent: tuple[int, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @classmethod
    def of(cls, name: str, data: Mapping[str, Any]) -> Operator:
        """The operator from its entry in a device file.

        Raises:
            ValueError: The entry has an unknown key.
        """
        refuse_others(f"operators.{name}", data, _OPERATOR_KEYS)
        for entry in data.get("kernels", ()):
            refuse_others(f"operators.{name}.kernels", entry, _KERNEL_KEYS)
        kernels = tuple(
            Kernel(first, last, {name: tuple(types) for name, types in entry["types"].items()})
            for entry in data.get("kernels", ())
            for first, last in [entry["versions"]]
        )
        spans = data.get("opsets") or sorted({(kernel.first, kernel.last) for kernel in kernels})
        return cls(
            tuple((first, last) for first, last in spans),
            tuple(data.get("ranks", ())),
            tuple(data.get("constant", ())),
            kernels,
            tuple(data.get("absent", ())),
            data.get("attributes", {}),
            data.get("note", ""),
        )


@dataclass(frozen=True)
class Table:
    """A table of the operators that a provider supports."""

    source: str
    version: str
    date: str
    fixed_shapes: bool
    operators: Mapping[str, Operator]
    """The entries by the operators' names in lower case: tables differ from the standard in capitalization."""

    def find(self, operator: str) -> Operator | None:
        """The entry for an operator (such as ``com.microsoft.Gelu``); None if the table does not have it."""
        return self.operators.get(operator.casefold())

    def __str__(self) -> str:
        return f"{self.source}, {self.version}, {self.date}"


@dataclass(frozen=True)
class Device:
    """A device file."""

    profile: Profile
    provider: str
    unit: str
    fallback: str
    table: Table | None
    simulator: Mapping[str, str] | None
    measured: MeasuredTable | None
    unknown_because: str
    session: SessionRecipe | None = None
    """How a session is opened; None if the file gives no options of a session."""
    open_dimensions: bool = False
    this_machine: bool = False
    """Whether a machine whose ONNX Runtime starts the provider is such a device."""


def read_device(file: Path) -> Device:
    """The device that a file describes.

    Raises:
        ValueError: The file does not have the form that this module describes, or not exactly one of :data:`KNOWLEDGE`.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        refuse_others("the file", data, _KEYS)
        known = [kind for kind in KNOWLEDGE if kind in data]
        if len(known) != 1:
            raise ValueError(f"has to have one of {', '.join(KNOWLEDGE)}, has {', '.join(known) or 'none'}")
        named = data["profile"]
        refuse_others("profile", named, _PROFILE_KEYS)
        options = {"provider": data["provider"], "device": named["name"]}
        if "architecture" in data:
            options["architecture"] = data["architecture"]
        profile = Profile(
            named["name"],
            named["description"],
            options,
            tuple(named.get("aliases", ())),
            accelerator=data["unit"],
            runs_on_processors=data["provider"] not in BROWSERS,
        )
        table = None
        if "operators" in data:
            operators = {name.casefold(): Operator.of(name, entry) for name, entry in data["operators"].items()}
            fixed_shapes = data.get("fixed_shapes", False)
            table = Table(data["source"], data["version"], data["date"], fixed_shapes, operators)
        return Device(
            profile,
            data["provider"],
            data["unit"],
            data["fallback"],
            table,
            data.get("simulator"),
            MeasuredTable.read(MEASURED / data["measured"]) if "measured" in data else None,
            data.get("unknown_because", ""),
            SessionRecipe.of(data["session"]) if "session" in data else None,
            data.get("open_dimensions", False),
            data.get("this_machine", False),
        )
    except KeyError as error:
        raise ValueError(f"{file.name}: lacks {error}") from error
    except (ValueError, OSError) as error:
        raise ValueError(f"{file.name}: {error}") from error
    except (TypeError, AttributeError) as error:
        raise ValueError(f"{file.name}: a value has another form: {error}") from error


def device_of(profile: Profile) -> Device | None:
    """The device file of a profile; None for profiles of the CPU provider and of WebAssembly in browsers.

    Raises:
        InputError: The file has an error.
    """
    name = profile.options.get("device", "")
    if name in broken_devices():
        raise InputError(
            "its device file cannot be used",
            subject=f"target {name}",
            found=broken_devices()[name],
            hint="edgekit_onnxruntime/devices.py tells the form of a device file",
        )
    return devices().get(name)


@cache
def devices(folder: Path = FOLDER) -> Mapping[str, Device]:
    """The devices of a folder whose files have no error, by the profile's name, in the order of the files' names."""
    found = [device for device in _read(folder).values() if isinstance(device, Device)]
    return {device.profile.name: device for device in found}


@cache
def broken_devices(folder: Path = FOLDER) -> Mapping[str, str]:
    """The errors of the files of a folder that have one, by the file's name without its ending."""
    return {name: text for name, text in _read(folder).items() if isinstance(text, str)}


def profiles(folder: Path = FOLDER) -> tuple[Profile, ...]:
    """A profile for each file of a folder; that of a file with an error has no provider, and states the error."""
    return (
        *(device.profile for device in devices(folder).values()),
        *(
            Profile(name, f"cannot be used: {text}", {"provider": "", "device": name})
            for name, text in broken_devices(folder).items()
        ),
    )


def _read(folder: Path) -> dict[str, Device | str]:
    """The device of each file, or the error of the file, by the file's name without its ending."""
    found: dict[str, Device | str] = {}
    for file in sorted(folder.glob("*.json")):
        try:
            found[file.stem] = read_device(file)
        except ValueError as error:
            found[file.stem] = str(error)
    return found
