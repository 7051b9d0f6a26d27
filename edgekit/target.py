"""What a target is: the contract between the host and the packages that build for a kind of device.

A target is found by entry point (group ``edgekit.targets``), which names a class with the interface of
:class:`Target`. The host knows no target by name.
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
"""Raised when a target has to be changed to work with this file."""


class Support(StrEnum):
    """What becomes of a node on a target."""

    SUPPORTED = "supported"
    DECOMPOSED = "decomposed"
    FALLS_BACK = "falls back"
    UNSUPPORTED = "unsupported"
    UNKNOWN = "unknown"

    def counted(self, count: int) -> str:
        """Such as ``1 falls back`` and ``2 fall back``."""
        return f"{count} {'fall back' if self is Support.FALLS_BACK and count != 1 else self}"


class Evidence(StrEnum):
    """How a verdict is known, the strongest first."""

    COMPILED = "compiled"
    """The target's compiler took the node here."""
    REGISTRY = "registry"
    """Our converter's own registry."""
    TABLE = "table"
    """A table that the vendor published."""
    HEURISTIC = "heuristic"
    """A rule of thumb; the verdict's detail names where it comes from."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class NodeVerdict:
    """What becomes of one node, and how that is known."""

    node: str
    op_type: str
    """With the domain in front where that is not the standard one."""
    support: Support
    evidence: Evidence
    unit: str = ""
    """The part of the device that runs it (``CPU``, ``GPU``, ``NPU``, ``Neural Engine``); empty where unknown."""
    detail: str = ""
    hint: str = ""
    """What would help; empty where nothing has to, or nothing is known."""
    unit_evidence: Evidence | None = None
    """How the unit is known, where that is otherwise than the verdict; None where it is the same."""


@dataclass(frozen=True)
class Profile:
    """A kind of device that a target builds for: what users name with ``--target``."""

    name: str
    description: str
    options: Mapping[str, str] = field(default_factory=dict)
    """What the target has to know of it, such as a deployment target or a device name."""
    aliases: tuple[str, ...] = ()
    runs_here: bool = False
    """Whether the device's own runtime executes on this machine, so that latency measured here counts."""
    accelerator: str = "CPU"
    """The unit that the model is meant to run on, by the name that verdicts call it."""
    instruction_sets: tuple[str, ...] = ()
    """What the devices multiply integers with: ``avx2``, ``avx512``, ``vnni``, ``amx``, ``neon``. A quantized model has
    to hold its budget on the worst of them; empty where that makes no difference."""
    runs_on_processors: bool = True
    """Whether the check of its bundles runs on a processor of this machine, in Python: else ``--isa`` says nothing."""


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
    """Whether it is an input that may hold NaN, which stands for a missing value; a build need not say so."""
    drawn: Draw | None = None
    """What its numbers are drawn from, where it is an input that takes random numbers; a build need not say so."""
    vocabulary: Vocabulary | None = None
    """The words that its numbers stand for, where the original model takes texts; a build need not say so."""
    tokens: Tokens = ()
    """How a text becomes words, where its last dimension holds the numbers of these; a build need not say so."""
    rows: int | None = None
    """Of an input of numbers of a table's rows, such as token ids, how many there are; a build need not say so."""

    @property
    def spec(self) -> ValueSpec:
        """What the original model calls it, as an input or output of its own."""
        return ValueSpec(self.name, self.dtype, self.shape, self.drawn, self.vocabulary, self.tokens)


@dataclass(frozen=True)
class BuildOptions:
    """What the user asked of a build beyond the profile."""

    precision: str = "auto"
    """``float32``, ``float16`` or ``auto``; a target without a choice ignores it and says so in the record."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of the target's own, by the names that its :attr:`Target.options` lists."""
    compression: str | None = None
    """One of the target's own :meth:`Target.weight_schemes`; None stores the weights as the model has them."""
    labels: tuple[str, ...] = ()
    """Names of the classes by index, where they are known."""
    preprocessing: Preprocessing | None = None
    """How a picture or a sound becomes the model's only input, where that is declared."""
    examples: tuple[Mapping[str, np.ndarray], ...] = ()
    """A few inputs by name, states among them, like those that the build is verified on; ``auto`` decides by them."""
    draft: bool = False
    """Whether it is executed on this machine and then thrown away, as one candidate of several is: what makes files
    small and what makes files for other programs can be left out, and who asks judges the outputs."""
    onnx_ships: bool = False
    """Whether the ONNX file itself is what ships. A draft is then what the device's runtime makes of that file, without
    what the target mends, where the runtime reads it."""
    progress: Step | None = None
    """Told of the trials of a build that takes its time; does not go into other processes."""

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but the callable."""
        return {**self.__dict__, "progress": None}


@dataclass(frozen=True)
class Artifact:
    """What a build left in its folder."""

    main: Path
    """The file or folder that the device loads."""
    files: tuple[Path, ...]
    """Everything that ships, ``main`` included; folders stand for all that is in them."""
    inputs: tuple[Feature, ...]
    outputs: tuple[Feature, ...]
    states: tuple[Feature, ...] = ()
    """What it keeps from one run to the next, by the names of the inputs; these are not among ``inputs``."""
    precision: str = "float32"
    """``float16`` where weights or arithmetic are half precision somewhere, so that only that accuracy can be asked."""
    alternatives: tuple[Path, ...] = ()
    """Those of the files that hold the model once more, in another format; they do not count towards its size."""
    dimensions: OpenDims = field(default_factory=dict)
    """The sizes of the dimensions that stay open, for a :meth:`Target.device_check` that goes by them."""
    record: Mapping[str, Any] = field(default_factory=dict)
    """What the target did, as plain data for the manifest."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What an app sets, by the runtime's own names, so that the device computes what was verified."""


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
        """Values by their ONNX names; those that the built model no longer has are left out."""


@runtime_checkable
class Pinned(Protocol):
    """A runner that executes with :attr:`Artifact.settings`."""

    def by_default(self) -> Runner | None:
        """What executes the same without them; None where the runtime does the same on this machine by itself."""


@dataclass(frozen=True)
class DeviceCheck:
    """The check that ships in a bundle and needs nothing of EdgeKit."""

    files: Mapping[str, str]
    """File name in the bundle -> its text."""
    command: str
    """How to run it in the folder that the files lie in. With ``{folder}`` in it, it is run in the bundle's folder, and
    that stands for the files' folder in it: empty, or the further build's with a slash at its end."""

    def command_in(self, folder: str) -> str:
        """How to run it in the bundle's folder: the files lie in ``folder`` there, empty for the bundle's own."""
        if "{folder}" in self.command:
            return self.command.replace("{folder}", f"{folder}/" if folder else "")
        return f"cd {folder} && {self.command}" if folder else self.command


class Target(ABC):
    """One package a target: knows its profiles, judges operators, builds, and executes what it built."""

    contract_version: ClassVar[int]
    """The version of this contract that it is written for: :data:`CONTRACT_VERSION` as its author found it."""
    name: ClassVar[str]
    options: ClassVar[Mapping[str, str]] = {}
    """Options of its own, each with what it does: what users set with ``--option NAME=VALUE``."""
    goes_by_examples: ClassVar[bool] = False
    """Whether :attr:`BuildOptions.examples` change what it builds, so that other examples may give a better build."""

    @property
    @abstractmethod
    def profiles(self) -> Sequence[Profile]:
        """The devices it builds for; the first is the one that the target's own name stands for."""

    @abstractmethod
    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """A verdict for every node of the model as it will be built, subgraphs' nodes too, in graph order."""

    def require_installed(self, profile: Profile) -> None:
        """Raise where what builds for a profile is not installed here; asked before the long work.

        Raises:
            edgekit.errors.InputError: It is not; the hint says how to install it.
        """
        del profile

    def require_options(self, options: BuildOptions, model: Model | None) -> None:
        """Raise where an option of the target's own cannot be used; asked before the long work.

        Args:
            options: What was asked for.
            model: The model, its shapes fixed; None before it is loaded, when values alone can be judged.

        Raises:
            edgekit.errors.RequestError: One cannot.
        """
        del options, model

    @abstractmethod
    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Write the artifact into ``folder``, which exists and is empty.

        Raises:
            edgekit.errors.UnsupportedOpsError: Operators that the target cannot take, all of them.
        """

    def on_this_machine(self, profile: Profile) -> Profile:
        """The profile with what only this machine can tell: whether it :attr:`~Profile.runs_here`.

        It may take seconds, such as those in which a driver starts. By default the profile is as it was.
        """
        return profile

    def simulator(self, profile: Profile) -> str | None:
        """The URL of the device on this machine that simulates the profile's device; None where there is none."""
        return None

    @abstractmethod
    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """Something that executes the artifact whose main file is ``main``, on this machine.

        Args:
            main: The file.
            profile: What it was built for.
            threads: How many the runtime may use, where it can be told. With more than one, other models run in turns
                with it, so none of them may wait in a loop.
        """

    @abstractmethod
    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """The check that goes into the bundle: compares the golden outputs on the device, with its runtime alone."""

    def app_package(self, name: str, builds: Mapping[str, str]) -> Mapping[str, str]:
        """What makes the bundle a package that an app's project takes in, beside the check; nothing by default.

        Args:
            name: The bundle's.
            builds: What devices load of this bundle, relative to it, the main build's first -> the profile's name.

        Returns:
            File name in the bundle -> its text.
        """
        return {}

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """Whether a model with :attr:`edgekit.model.Model.open_dims` can be built for the profile's device."""
        return False

    def takes_empty_dimensions(self, profile: Profile) -> bool:
        """Whether 0 may be one of an open dimension's sizes, as of a decoder's past that is empty at first."""
        return False

    def takes_free_dimensions(self, profile: Profile) -> bool:
        """Whether a model with dimensions of any size, which nobody fixed, can be built for the profile's device.

        Where it cannot, they get the sizes of the samples.
        """
        return False

    def takes_differing_branches(self, profile: Profile) -> bool:
        """Whether the branches of an If may give tensors of different shapes on the profile's device.

        Where they may not, and an input of the model chooses, the model that is built has one of them.
        """
        return False

    def takes_texts(self, profile: Profile) -> bool:
        """Whether tensors may hold texts on the profile's device.

        Where they may not, inputs whose texts the model only looks up in lists take the numbers of the words.
        """
        return True

    def takes_batches(self, profile: Profile) -> bool:
        """Whether the check in a bundle runs a model of fixed shapes on several samples at once (``--batch``)."""
        return False

    def takes_states(self, profile: Profile) -> bool:
        """Whether a model with :attr:`edgekit.model.Model.states` can be built for the profile's device.

        What :meth:`load` gives for one has to be :class:`edgekit.execution.recurrence.Restartable`.
        """
        return False

    def float_precisions(self, profile: Profile) -> Sequence[str]:
        """What :attr:`BuildOptions.precision` is to be, in turn, where a model with samples ships in float.

        The smallest comes first; each has to hold what is asked of it, and the last one is the original's.
        """
        return ("auto", "float32")

    def weight_schemes(self, profile: Profile) -> Sequence[str]:
        """Schemes of ``--quantize`` that the target applies itself when it builds: how it stores the weights."""
        return ()

    def held_to(self, instruction_set: str) -> Mapping[str, str] | None:
        """Environment variables that hold the runtime of a process that starts with them to an instruction set.

        Args:
            instruction_set: ``avx2``, ``avx512``, ``vnni`` or ``amx``; the processor has it, and something beyond it.

        Returns:
            None where the runtime has no such switch.
        """
        return None

    def canonical(self, file: Path) -> bytes | None:
        """What a file of an artifact holds, in the bytes that :meth:`build` writes for it.

        Other tools may write the same model in other bytes, by opening it alone; a bundle is not changed by that.

        Returns:
            None where the file cannot be read as one of the target's, or where other bytes are another model.
        """
        return None

    def placement(self, profile: Profile) -> Mapping[str, Any]:
        """What the target's runtime fuses and prefers: the settings that a quantizer goes by, plain data.

        They stand in ``placement.json`` beside the target's module, as
        ``{"format": 1, "default": {SETTINGS}, "profiles": {"<profile name>": {SETTINGS that differ}}}``; ``profiles``
        may be left out. Without the file there are none, and the quantizer takes what every runtime computes right.
        """
        file = Path(inspect.getfile(type(self))).with_name("placement.json")
        if not file.is_file():
            return {}
        data = json.loads(file.read_text(encoding="utf-8"))
        return {**data["default"], **data.get("profiles", {}).get(profile.name, {})}
