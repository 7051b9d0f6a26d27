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
        """This computer, Android and the web."""
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
        """The CPU's kernels do; other providers leave an If to them."""
        return True

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """Where the kernels are the CPU provider's, or the device's file says that its provider takes them."""
        from edgekit_onnxruntime.check import SHARES_CPU_KERNELS

        device = device_of(profile)
        return profile.options["provider"] in SHARES_CPU_KERNELS or (device is not None and device.open_dimensions)

    def takes_empty_dimensions(self, profile: Profile) -> bool:
        """Where the kernels are the CPU provider's."""
        from edgekit_onnxruntime.check import SHARES_CPU_KERNELS

        return profile.options["provider"] in SHARES_CPU_KERNELS

    def takes_free_dimensions(self, profile: Profile) -> bool:
        """As open ones."""
        return self.takes_open_dimensions(profile)

    def on_this_machine(self, profile: Profile) -> Profile:
        """A device whose provider this machine's ONNX Runtime starts is here; why one does not start is an option."""
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
            f"this ONNX Runtime has {device.provider}, which does not start: {failure}; the CPU provider executes here"
        )
        return replace(profile, options={**profile.options, NOT_STARTED: text})

    def simulator(self, profile: Profile) -> str | None:
        """Qualcomm's, where the profile's device has one and it is installed."""
        device = device_of(profile)
        return qnn.SIMULATOR if device is not None and device.simulator is not None and qnn.is_installed() else None

    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """What executes the file: the profile's provider where it :attr:`~Profile.runs_here`, else the CPU's."""
        from edgekit_onnxruntime.provider_runner import ProviderRunner
        from edgekit_onnxruntime.runner import SessionRunner

        device = device_of(profile)
        if device is not None and profile.runs_here:
            return ProviderRunner(main, device, threads=threads, takes_turns=threads > 1)
        return SessionRunner(main, threads=threads, takes_turns=threads > 1)

    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """A page for browsers, a Python program for everything else, and how apps open the session there."""
        from edgekit_onnxruntime.device_check import device_check

        return device_check(profile, artifact)
