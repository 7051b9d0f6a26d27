"""ONNX Runtime as a target of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, DeviceCheck, NodeVerdict, Profile, Runner, Target
from edgekit_onnxruntime import qnn
from edgekit_onnxruntime.devices import NOT_STARTED, device_of, devices
from edgekit_onnxruntime.profiles import PROFILES


class ONNXRuntimeTarget(Target):
    """Builds ``.onnx`` and ``.ort`` files, and executes them with the CPU provider."""

    contract_version = 1
    name: ClassVar[str] = "onnxruntime"

    @property
    def profiles(self) -> Sequence[Profile]:
        """The profiles for this computer, Android and the web, and one for each device file."""
        return PROFILES

    def require_installed(self, profile: Profile) -> None:
        """Raises an InputError if the profile's device file has an error."""
        device_of(profile)

    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """A verdict for every node, subgraphs' nodes included."""
        from edgekit_onnxruntime.check import verdicts

        self.require_installed(profile)
        return verdicts(model, profile)

    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Write ``model.onnx`` and ``model.ort``."""
        from edgekit_onnxruntime.build import build

        return build(model, profile, folder, options)

    def takes_differing_branches(self, profile: Profile) -> bool:
        """Always True: the CPU's kernels support them, and other providers leave an If to these."""
        return True

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """Whether the kernels are the CPU provider's, or the device's file says that its provider supports them."""
        from edgekit_onnxruntime.check import SHARES_CPU_KERNELS

        device = device_of(profile)
        return profile.options["provider"] in SHARES_CPU_KERNELS or (device is not None and device.open_dimensions)

    def takes_empty_dimensions(self, profile: Profile) -> bool:
        """Whether the kernels are the CPU provider's."""
        from edgekit_onnxruntime.check import SHARES_CPU_KERNELS

        return profile.options["provider"] in SHARES_CPU_KERNELS

    def takes_free_dimensions(self, profile: Profile) -> bool:
        """The result of :meth:`takes_open_dimensions`."""
        return self.takes_open_dimensions(profile)

    def on_this_machine(self, profile: Profile) -> Profile:
        """The profile, with ``runs_here`` set if this machine's ONNX Runtime starts the device's provider.

        If ONNX Runtime has the provider but cannot start it, the reason becomes the option :data:`NOT_STARTED`.
        """
        device = devices().get(profile.options.get("device", ""))  # none if the file has an error
        if device is None or not device.this_machine:
            return profile
        from edgekit_onnxruntime.assignment import is_available
        from edgekit_onnxruntime.on_this_machine import failure_to_start

        if not is_available(device.provider):
            return profile
        failure = failure_to_start(device.provider)
        if not failure:
            return replace(profile, runs_here=True)
        text = (
            f"this ONNX Runtime has {device.provider}, which does not start: {failure}; the CPU provider executes "
            "the model here"
        )
        return replace(profile, options={**profile.options, NOT_STARTED: text})

    def simulator(self, profile: Profile) -> str | None:
        """The scheme of Qualcomm's simulator if it is installed and simulates the profile's device; else None."""
        device = device_of(profile)
        return qnn.SIMULATOR if device is not None and device.simulator is not None and qnn.is_installed() else None

    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """A runner of the file: with the profile's provider if it :attr:`~Profile.runs_here`, else with the CPU's."""
        from edgekit_onnxruntime.provider_runner import ProviderRunner
        from edgekit_onnxruntime.runner import SessionRunner

        device = device_of(profile)
        if device is not None and profile.runs_here:
            return ProviderRunner(main, device, threads=threads, takes_turns=threads > 1)
        return SessionRunner(main, threads=threads, takes_turns=threads > 1)

    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """A page for browsers; otherwise a Python program, and code with which apps open the session."""
        from edgekit_onnxruntime.device_check import device_check

        return device_check(profile, artifact)
