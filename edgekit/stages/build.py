"""Builds what the device loads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from edgekit.bundle import RESERVED
from edgekit.comparison.floors import Kind
from edgekit.errors import InternalError
from edgekit.model import Model
from edgekit.stages import Stage, StageResult
from edgekit.target import Artifact, BuildOptions, Profile, Target

Extended = TypeVar("Extended", bound="Built")


@dataclass(frozen=True)
class Built(StageResult):
    """A model, and what a target built of it."""

    artifact: Artifact
    kind: Kind


def extend(kind: type[Extended], given: Built, **values: Any) -> Extended:
    """The result of a stage that adds to what it was given: a ``kind`` with the fields of ``given`` and ``values``."""
    return kind(**{field.name: getattr(given, field.name) for field in fields(given)} | values)


class Build(Stage[Model]):
    """Has the target write its format into a folder.

    Args:
        target: The target that builds.
        profile: The device to build for.
        options: What the user asked for.
        folder: Where to build; exists and is empty.
        quantized: Whether the model was quantized before.
    """

    name: ClassVar[str] = "build"

    def __init__(
        self, target: Target, profile: Profile, options: BuildOptions, folder: Path, *, quantized: bool
    ) -> None:
        self._target = target
        self._profile = profile
        self._options = options
        self._folder = folder
        self._quantized = quantized

    def run(self, given: Model) -> Built:
        """The artifact in the folder.

        Raises:
            edgekit.errors.UnsupportedOpsError: The target cannot take some operators.
        """
        artifact = self._target.build(given, self._profile, self._folder, self._options)
        if not isinstance(artifact, Artifact):
            raise self.broken(f"build gives {type(artifact).__name__}, not an edgekit.target.Artifact")
        kind = Kind.QUANTIZED if self._quantized else Kind(artifact.precision)
        return Built(given, artifact.record, artifact, kind)

    def ensures(self, given: Model, result: StageResult) -> None:
        """Checks that the artifact is complete in the folder, and has the model's inputs, outputs and states.

        Raises:
            edgekit.errors.InternalError: A file is missing or has a reserved name, or names or types differ.
        """
        if not isinstance(result, Built):
            raise self.broken("nothing was built")
        artifact = result.artifact
        taken = sorted(path.name for path in self._folder.iterdir() if path.name in RESERVED)
        if taken:
            raise self.broken(f"a bundle's own files go by the names of files that it wrote: {', '.join(taken)}")
        shipped = (artifact.main, *artifact.files)
        missing = [str(path) for path in shipped if not (path.exists() and path.is_relative_to(self._folder))]
        if missing:
            raise self.broken(f"files are not where they should be: {', '.join(missing)}")
        for what, values, features in (
            ("inputs", given.fed_inputs, artifact.inputs),
            ("outputs", given.returned_outputs, artifact.outputs),
            ("states", [spec for spec in given.inputs if spec.name in given.states], artifact.states),
        ):
            wanted, got = [value.name for value in values], [feature.name for feature in features]
            if wanted != got:
                raise self.broken(
                    f"the {what} should be {', '.join(wanted) or 'none'}, and are {', '.join(got) or 'none'}"
                )
            types = [
                f"{feature.name} is {feature.dtype}, not {value.dtype}"
                for value, feature in zip(values, features, strict=True)
                if feature.dtype != value.dtype
            ]
            if types:
                raise self.broken(f"the types of {what}: {', '.join(types)}")

    def broken(self, what: str) -> InternalError:
        """The error for a contract that the target does not keep."""
        return InternalError(
            f"the target broke its contract: {what}",
            subject=f"target {self._target.name!r} ({type(self._target).__module__})",
        )
