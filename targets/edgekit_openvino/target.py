"""OpenVINO as a target of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, DeviceCheck, NodeVerdict, Profile, Runner, Target
from edgekit_openvino.profiles import PROFILES

ONEDNN_NAMES = {"avx2": "AVX2", "avx512": "AVX512_CORE", "vnni": "AVX512_CORE_VNNI", "amx": "AVX512_CORE_AMX"}
"""What oneDNN calls instruction sets (its documentation, "CPU Dispatcher Control")."""


class OpenVINOTarget(Target):
    """Builds OpenVINO IR, and executes it with the CPU plugin."""

    contract_version = 1
    name: ClassVar[str] = "openvino"

    @property
    def profiles(self) -> Sequence[Profile]:
        """Intel's CPU, GPU and NPU."""
        return PROFILES

    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """A verdict for every node, subgraphs' nodes included."""
        from edgekit_openvino.check import verdicts

        return verdicts(model, profile)

    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Write ``model.xml`` and ``model.bin``."""
        from edgekit_openvino.build import build

        return build(model, profile, folder, options)

    def takes_texts(self, profile: Profile) -> bool:
        """OpenVINO has such tensors, and no conversion of an operator that looks a text up."""
        return False

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """The plugins for CPU and GPU do; the NPU's compiles for fixed shapes."""
        return profile.options["device"] != "NPU"

    def takes_empty_dimensions(self, profile: Profile) -> bool:
        """The CPU's plugin does; the GPU's was not tried here."""
        return bool(profile.options["device"] == "CPU")

    def takes_free_dimensions(self, profile: Profile) -> bool:
        """Whether the plugin takes open dimensions."""
        return self.takes_open_dimensions(profile)

    def takes_batches(self, profile: Profile) -> bool:
        """OpenVINO gives a model other shapes before it is compiled."""
        return True

    def float_precisions(self, profile: Profile) -> Sequence[str]:
        """Weights in half precision take half the space, and few models are slower with them.

        The CPU plugin widens them once, but at every step in a loop (which an LSTM with peepholes is converted to).
        """
        return ("float16", "float32")

    def held_to(self, instruction_set: str) -> Mapping[str, str] | None:
        """OneDNN's own switch, which decides about the CPU plugin's kernels; None for an unknown instruction set."""
        name = ONEDNN_NAMES.get(instruction_set)
        return None if name is None else {"ONEDNN_MAX_CPU_ISA": name}

    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """Returns a runner of the IR on this machine's CPU plugin in float32, whatever the profile."""
        from edgekit_openvino.runner import CompiledRunner

        return CompiledRunner(main, threads=threads)

    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """A Python program that needs NumPy and OpenVINO only."""
        from edgekit_openvino.device_check import device_check

        return device_check()
