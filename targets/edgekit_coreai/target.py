"""Core AI as a target of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from edgekit.model import Model
from edgekit.target import Artifact, BuildOptions, DeviceCheck, NodeVerdict, Profile, Runner, Target
from edgekit_coreai.availability import require_core_ai
from edgekit_coreai.options import OPTIONS
from edgekit_coreai.profiles import PROFILES
from edgekit_mil.deployment import compression_schemes


class CoreAITarget(Target):
    """Builds Core AI models via ML Programs, and executes them with Apple's runtime."""

    contract_version = 1
    name: ClassVar[str] = "coreai"
    options: ClassVar[Mapping[str, str]] = OPTIONS

    @property
    def profiles(self) -> Sequence[Profile]:
        """The profiles for iOS and macOS from version 27 on."""
        return PROFILES

    def require_installed(self, profile: Profile) -> None:
        """Raise an error if ``coreai-core``, an optional dependency, is not installed."""
        require_core_ai()

    def check(self, model: Model, profile: Profile) -> list[NodeVerdict]:
        """A verdict for every node, by a trial of the conversion."""
        from edgekit_coreai.check import verdicts

        return verdicts(model, profile)

    def require_options(self, options: BuildOptions, model: Model | None) -> None:
        """Raise an error if the option ``image`` is neither yes nor no, or does not fit the model."""
        from edgekit_mlprogram.options import require_usable

        require_usable(options, model, ("image",))

    def build(self, model: Model, profile: Profile, folder: Path, options: BuildOptions) -> Artifact:
        """Write ``model.aimodel``."""
        from edgekit_coreai.build import build

        return build(model, profile, folder, options)

    def weight_schemes(self, profile: Profile) -> Sequence[str]:
        """The names of the weight compressions: integers in blocks, and palettes."""
        from edgekit_coreai.conversion import PROGRAM_TARGET

        return compression_schemes(PROGRAM_TARGET)

    def takes_states(self, profile: Profile) -> bool:
        """True: Core AI models keep states in handles."""
        return True

    def takes_texts(self, profile: Profile) -> bool:
        """False: Core AI has no tensors of texts."""
        return False

    def takes_open_dimensions(self, profile: Profile) -> bool:
        """True: Core AI models may have sizes that are known only at run time."""
        return True

    def load(self, main: Path, profile: Profile, *, threads: int = 1) -> Runner:
        """Returns a runner that executes the model with Apple's runtime, in a separate process."""
        from edgekit_coreai.runner import load
        from edgekit_mlprogram.sequence import SequenceRunner

        runner = load(main)
        return SequenceRunner(runner) if runner.has_states else runner

    def device_check(self, profile: Profile, artifact: Artifact) -> DeviceCheck:
        """A Python program that runs the model in Core AI and needs only NumPy and coreai-core."""
        from edgekit.device_check.python_check import python_check

        return python_check("edgekit_coreai")

    def app_package(self, name: str, builds: Mapping[str, str]) -> Mapping[str, str]:
        """A Swift package for Xcode."""
        from edgekit_mlprogram.app_package import app_package

        return app_package(name, builds)
