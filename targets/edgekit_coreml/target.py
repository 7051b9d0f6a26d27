"""Core ML as a target of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from edgekit.device_check.python_check import python_check
from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, DeviceCheck, NodeVerdict, Profile, Runner, Target
from edgekit_coreml.profiles import PROFILES
from edgekit_mil.deployment import compression_schemes, has_states
from edgekit_mlprogram.options import OPTIONS


class CoreMLTarget(Target):
    """Builds ML Programs and executes them, on other systems than macOS in EdgeKit's reference runtime."""

    contract_version = 1
    name: ClassVar[str] = "coreml"
    options: ClassVar[Mapping[str, str]] = OPTIONS
    goes_by_examples: ClassVar[bool] = True

    @property
    def profiles(self) -> Sequence[Profile]:
        """System versions from iOS 16 on."""
        return PROFILES

    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """Returns a verdict for every node, by a trial of the conversion."""
        from edgekit_coreml.check import verdicts

        return verdicts(model, profile)

    def require_options(self, options: BuildOptions, model: Model | None) -> None:
        """Checks that ``image`` and ``classifier`` are ``yes`` or ``no``, and that they fit the model."""
        from edgekit_mlprogram.options import require_usable

        require_usable(options, model)

    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Write ``model.mlpackage``."""
        from edgekit_coreml.build import build

        return build(model, profile, folder, options)

    def weight_schemes(self, profile: Profile) -> Sequence[str]:
        """Palettes, and from iOS 18 on 4-bit integers in blocks."""
        return compression_schemes(profile.options["deployment_target"])

    def takes_states(self, profile: Profile) -> bool:
        """Whether programs can have states: from iOS 18 on."""
        return has_states(profile.options["deployment_target"])

    def takes_texts(self, profile: Profile) -> bool:
        """Always False: ML Programs have no tensors of texts."""
        return False

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """Always True: Core ML declares open dimensions as ranges or as lists of shapes."""
        return True

    def canonical(self, file: Path) -> bytes | None:
        """A package's model or manifest with its entries in a fixed order; coremltools writes them in any."""
        from edgekit_mlprogram.package_writer import canonical

        return canonical(file)

    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """Returns a runner of the reference runtime, which rounds to float16 where the program does."""
        from edgekit_mlprogram.sequence import SequenceRunner
        from edgekit_mlruntime.runner import load

        runner = load(main)
        return SequenceRunner(runner) if runner.has_states else runner

    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """Returns a Python program that runs the samples in Core ML on a Mac; it needs NumPy and coremltools only."""
        return python_check("edgekit_coreml")

    def app_package(self, name: str, builds: Mapping[str, str]) -> Mapping[str, str]:
        """A Swift package for Xcode."""
        from edgekit_mlprogram.app_package import app_package

        return app_package(name, builds)
