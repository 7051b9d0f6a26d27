"""What a target is: the contract between the host and the packages that build for a kind of device.

A target is found by entry point (group ``edgekit.targets``), which names a subclass of :class:`Target`. The host knows
no target by name.
"""

from __future__ import annotations

import inspect
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from edgekit.features.dimensions import OpenDims
from edgekit.features.draws import Draw
from edgekit.features.tokens import Tokens
from edgekit.features.vocabularies import Vocabulary
from edgekit.model import Arrays, Model, ValueSpec
from edgekit.preprocessing import Preprocessing
from edgekit.progress import Step

CONTRACT_VERSION = 1
"""Increased whenever existing targets have to be changed to work with this file."""


class Support(StrEnum):
    """How a target supports a node."""

    SUPPORTED = "supported"
    DECOMPOSED = "decomposed"
    FALLS_BACK = "falls back"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"

    def counted(self, count: int) -> str:
        """The count with this verdict, such as ``1 falls back`` and ``2 fall back``."""
        return f"{count} {'fall back' if self is Support.FALLS_BACK and count != 1 else self}"


class Evidence(StrEnum):
    """How a verdict is known, the strongest first."""

    COMPILED = "compiled"
    """The target's compiler took the node here."""
    REGISTRY = "registry"
    """The registry of EdgeKit's own converter."""
    TABLE = "table"
    """A table that the vendor published."""
    HEURISTIC = "heuristic"
    """A rule of thumb; the verdict's detail names where it comes from."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class NodeVerdict:
    """How a target supports one node, and how that is known."""

    node: str
    op_type: str
    """Operator name, with its domain in front unless that is the standard one."""
    support: Support
    evidence: Evidence
    unit: str = ""
    """The part of the device that runs it (``CPU``, ``GPU``, ``NPU``, ``Neural Engine``); empty where unknown."""
    detail: str = ""
    hint: str = ""
    """What would help; empty if nothing has to be done, or nothing is known."""
    unit_evidence: Evidence | None = None
    """How the unit is known; None if in the same way as the verdict."""


@dataclass(frozen=True)
class Profile:
    """A kind of device that a target builds for: what users name with ``--target``."""

    name: str
    description: str
    options: Mapping[str, str] = field(default_factory=dict)
    """What the target has to know of the device, such as a deployment target or a device name."""
    aliases: tuple[str, ...] = ()
    runs_here: bool = False
    """Whether the device's own runtime executes on this machine, so that latency measured here counts."""
    accelerator: str = "CPU"
    """The unit that the model is meant to run on, by its name in verdicts."""
    instruction_sets: tuple[str, ...] = ()
    """Instruction sets with which the devices multiply integers: ``avx2``, ``avx512``, ``vnni``, ``amx``, ``neon``. A
    quantized model has to hold its budget on the worst of them; empty if they make no difference."""
    runs_on_processors: bool = True
    """Whether the check in its bundles runs in Python on a processor of this machine; if not, ``--isa`` has no use."""


@dataclass(frozen=True)
class Feature:
    """An input or output by its ONNX name, and what the built artifact calls it."""

    name: str
    dtype: str
    shape: tuple[int | str | None, ...]
    native_name: str
    native_dtype: str
    native_shape: tuple[int | str | None, ...]
    takes_nan: bool = False
    """Whether this is an input that may hold NaN for a missing value; a build need not set this."""
    drawn: Draw | None = None
    """The distribution of the values of an input that takes random numbers; a build need not set this."""
    vocabulary: Vocabulary | None = None
    """The words behind the numbers of an input where the original model takes texts; a build need not set this."""
    tokens: Tokens = ()
    """How a text is split into words, whose numbers the last dimension holds; a build need not set this."""
    rows: int | None = None
    """Number of rows of the table, for an input of row numbers such as token ids; a build need not set this."""

    @property
    def spec(self) -> ValueSpec:
        """The input or output as the original model has it."""
        return ValueSpec(self.name, self.dtype, self.shape, self.drawn, self.vocabulary, self.tokens)


@dataclass(frozen=True)
class BuildOptions:
    """What the user asked of a build beyond the profile."""

    precision: str = "auto"
    """``float32``, ``float16`` or ``auto``; a target without a choice ignores it and says so in the record."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Values of the target's own options, by the names that :attr:`Target.options` lists."""
    compression: str | None = None
    """One of the target's own :meth:`Target.weight_schemes`; None stores the weights as the model has them."""
    labels: tuple[str, ...] = ()
    """Names of the classes by index; empty if unknown."""
    preprocessing: Preprocessing | None = None
    """How a picture or a sound becomes the model's only input; None if that is not declared."""
    examples: tuple[Mapping[str, np.ndarray], ...] = ()
    """A few samples, inputs and states by name, like those that the build is verified on; the precision ``auto`` is
    decided by them."""
    draft: bool = False
    """Whether the build is one candidate of several, which is executed on this machine and then discarded: making files
    small and writing files for other programs can be skipped, and the caller judges the outputs."""
    onnx_ships: bool = False
    """Whether the ONNX file itself ships. A draft is then what the device's runtime makes of that file, without the
    target's corrections, if the runtime reads it."""
    progress: Step | None = None
    """Called with the trials of a long build; is not passed to other processes."""

    def __getstate__(self) -> dict[str, Any]:
        """The state for pickling: all fields but ``progress``."""
        return {**self.__dict__, "progress": None}


@dataclass(frozen=True)
class Artifact:
    """What a build left in its folder."""

    main: Path
    """The file or folder that the device loads."""
    files: tuple[Path, ...]
    """Everything that ships, ``main`` included; a folder ships with everything in it."""
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...] = ()
    """The states that the artifact keeps from one run to the next, by the names of the inputs; not in ``inputs``."""
    precision: str = "float32"
    """``float16`` if any weights or arithmetic are in half precision, so that only its accuracy can be expected."""
    alternatives: tuple[Path, ...] = ()
    """Those of ``files`` that hold the model once more in another format; they do not count towards its size."""
    dimensions: OpenDims = field(default_factory=dict)
    """The sizes of the dimensions that stay open, for a :meth:`Target.device_check` that needs them."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """What the target did, as plain data for the manifest."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Settings of the runtime, by its own names, that an app makes so that the device computes what was verified."""


@runtime_checkable
class Runner(Protocol):
    """Executes a built artifact. Names, shapes and dtypes are the ONNX model's.

    Several threads may call :meth:`run` at once, as those of a web service do; each gets the outputs of its own inputs.
    """

    @property
    def executed_by(self) -> str:
        """What really executes: runtime, version, device and precision."""

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        """Outputs by name for inputs by name."""


@runtime_checkable
class Inspectable(Protocol):
    """A runner that can show what the model computes inside."""

    def intermediates(self, feeds: Mapping[str, np.ndarray], names: Sequence[str]) -> Arrays:
        """Intermediate values by their ONNX names; values that the built model no longer has are left out."""


@runtime_checkable
class Pinned(Protocol):
    """A runner that executes with :attr:`Artifact.settings`."""

    def by_default(self) -> Runner | None:
        """Executes the artifact without the settings; None if they are the runtime's defaults on this machine."""


@dataclass(frozen=True)
class DeviceCheck:
    """The check that ships in a bundle and runs without EdgeKit."""

    files: Mapping[str, str]
    """File name in the bundle -> its text."""
    command: str
    """The command that runs the check in the folder of the files. A command with ``{folder}`` runs in the bundle's
    folder; ``{folder}`` is then replaced by the files' folder there: empty, or a further build's with a slash at its
    end."""

    def command_in(self, folder: str) -> str:
        """The command that runs the check in the bundle's folder; ``folder`` is the files' subfolder, or empty."""
        if "{folder}" in self.command:
            return self.command.replace("{folder}", f"{folder}/" if folder else "")
        return f"cd {folder} && {self.command}" if folder else self.command


class Target(ABC):
    """Declares device profiles, judges operators, builds artifacts and executes them. One package per target."""

    contract_version: ClassVar[int]
    """The value of :data:`CONTRACT_VERSION` for which the target was written, as a literal number."""
    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}
    """The target's own options, which users set with ``--option NAME=VALUE``, each with what it does."""
    goes_by_examples: ClassVar[bool] = False
    """Whether the build depends on :attr:`BuildOptions.examples`, so that other examples may give a better build."""

    @property
    @abstractmethod
    def profiles(self) -> Sequence[Profile]:
        """The devices that the target builds for; the target's own name selects the first."""

    @abstractmethod
    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """A verdict for every node of the model as it will be built, subgraphs' nodes too, in graph order."""

    def require_installed(self, profile: Profile) -> None:
        """Check that the tools that build for a profile are installed here; called before the long work.

        Raises:
            edgekit.errors.InputError: A tool is missing; the hint says how to install it.
        """
        del profile

    def require_options(self, options: BuildOptions, model: Model | None) -> None:
        """Check that the values of the target's own options can be used; called before the long work.

        Args:
            options: What the user asked for.
            model: The model with fixed shapes; None before it is loaded, when only the values can be checked.

        Raises:
            edgekit.errors.RequestError: An option cannot be used.
        """
        del options, model

    @abstractmethod
    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Write the artifact into ``folder``, which exists and is empty.

        Raises:
            edgekit.errors.UnsupportedOpsError: Operators that the target cannot take, all of them.
        """

    def on_this_machine(self, profile: Profile) -> Profile:
        """The profile with the fields that depend on this machine, such as :attr:`~Profile.runs_here`.

        The call may take seconds, for example while a driver starts. By default the profile is unchanged.
        """
        return profile

    def simulator(self, profile: Profile) -> str | None:
        """The URL of the device on this machine that simulates the profile's device; None if there is no simulator."""
        return None

    @abstractmethod
    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """A runner on this machine for the artifact whose main file is ``main``.

        Args:
            main: The file.
            profile: The profile that the artifact was built for.
            threads: How many threads the runtime may use, if that can be set. With more than one thread, other models
                run in turns with this one, so threads that wait must not spin.
        """

    @abstractmethod
    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """The check that goes into the bundle: compares the golden outputs on the device, with its runtime alone."""

    def app_package(self, name: str, builds: Mapping[str, str]) -> Mapping[str, str]:
        """Further files that make the bundle a package which an app's project can include; by default none.

        Args:
            name: The bundle's name.
            builds: Path in the bundle of what a device loads -> its profile's name; the main build first.

        Returns:
            File name in the bundle -> its text.
        """
        return {}

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """Whether a model with :attr:`edgekit.model.Model.open_dims` can be built for the profile's device."""
        return False

    def takes_empty_dimensions(self, profile: Profile) -> bool:
        """Whether an open dimension may have size 0, such as a decoder's past, which is empty at first."""
        return False

    def takes_free_dimensions(self, profile: Profile) -> bool:
        """Whether a model with dimensions of any size, which nobody fixed, can be built for the profile's device.

        If not, the dimensions get the sizes of the samples.
        """
        return False

    def takes_differing_branches(self, profile: Profile) -> bool:
        """Whether the branches of an If may give tensors of different shapes on the profile's device.

        If not, and an input of the model chooses the branch, the built model has only one of the branches.
        """
        return False

    def takes_texts(self, profile: Profile) -> bool:
        """Whether tensors may hold texts on the profile's device.

        If not, inputs whose texts the model only looks up in lists take the numbers of the words instead.
        """
        return True

    def takes_batches(self, profile: Profile) -> bool:
        """Whether the check in a bundle runs a model of fixed shapes on several samples at once (``--batch``)."""
        return False

    def takes_states(self, profile: Profile) -> bool:
        """Whether a model with :attr:`edgekit.model.Model.states` can be built for the profile's device.

        What :meth:`load` returns for such a model has to be :class:`edgekit.execution.recurrence.Restartable`.
        """
        return False

    def float_precisions(self, profile: Profile) -> Sequence[str]:
        """Values of :attr:`BuildOptions.precision` that are tried in turn if a model with samples ships in float.

        The smallest comes first, the original's precision last; the first that meets what is asked of it ships.
        """
        return ("auto", "float32")

    def weight_schemes(self, profile: Profile) -> Sequence[str]:
        """Schemes of ``--quantize`` that the target applies itself when it builds: how it stores the weights."""
        return ()

    def held_to(self, instruction_set: str) -> Mapping[str, str] | None:
        """Environment variables with which a process has to start for its runtime to use only an instruction set.

        Args:
            instruction_set: ``avx2``, ``avx512``, ``vnni`` or ``amx``; the processor has it, and a better one.

        Returns:
            The variables; None if the runtime cannot be restricted to an instruction set.
        """
        return None

    def canonical(self, file: Path) -> bytes | None:
        """The content of an artifact's file, in the bytes that :meth:`build` would write for it.

        Some tools write the same model again in other bytes just by opening it; this does not count as a change.

        Returns:
            The bytes; None if the file is none of the target's formats, or if other bytes always mean another model.
        """
        return None

    def placement(self, profile: Profile) -> Mapping[str, Any]:
        """What the target's runtime fuses and prefers: settings for the quantizer, as plain data.

        The settings are in ``placement.json`` beside the target's module, as
        ``{"format": 1, "default": {SETTINGS}, "profiles": {"<profile name>": {SETTINGS that differ}}}``; ``profiles``
        may be left out. Without the file there are no settings, and the quantizer uses only what every runtime computes
        correctly.
        """
        file = Path(inspect.getfile(type(self))).with_name("placement.json")
        if not file.is_file():
            return {}
        data = json.loads(file.read_text(encoding="utf-8"))
        return {**data["default"], **data.get("profiles", {}).get(profile.name, {})}
