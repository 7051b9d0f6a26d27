"""Turns the folder that the artifact was built in into a bundle."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from edgekit import __version__
from edgekit.bundle import (
    GOLDEN,
    GRAPH,
    MANIFEST,
    REPORT,
    SCHEMA_VERSION,
    feature_record,
    file_record,
    file_records,
    validate_graph,
    validate_manifest,
)
from edgekit.comparison.decisions.classes import Classes
from edgekit.data.samples import Samples
from edgekit.data.table_rows import table_rows
from edgekit.device_check.golden import write_golden
from edgekit.features.dimensions import as_record
from edgekit.files.regular_file import real_path
from edgekit.fingerprint import model_files
from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.measurements import MEASUREMENTS, split
from edgekit.preprocessing import Preprocessing
from edgekit.progress import Step
from edgekit.reporting.graph_record import graph_record
from edgekit.reporting.markdown import markdown_report
from edgekit.reporting.summary import stage_record
from edgekit.stages import Stage, StageResult
from edgekit.stages.bench import Measured
from edgekit.stages.build import Build
from edgekit.stages.instruction_sets import VerifyInstructionSets
from edgekit.stages.verify import Verified
from edgekit.target import Artifact, Feature, Profile, Target


@dataclass(frozen=True)
class Facts:
    """What the manifest holds and the stages do not know."""

    name: str
    source: Path
    """The original's file."""
    fingerprint: str
    options: Mapping[str, Any]
    """What the user asked for, as the manifest's schema describes it."""
    preprocessing: Preprocessing | None
    class_names: tuple[str, ...]
    samples: Mapping[str, str | None]
    """The hash of the samples by the option that named them; see :mod:`edgekit.data.digest`."""
    candidates: Sequence[Mapping[str, Any]] = ()
    """What became of each form of the model that was tried; see :mod:`edgekit.packaging.candidates`."""
    classes: Classes | None = None
    """What tells the class; None if nothing does, or if it is not known that the model has classes."""


@dataclass(frozen=True)
class FurtherBuild:
    """The same model, built for another device, in the folder of its profile's name."""

    target: Target
    profile: Profile
    verified: Verified
    candidates: Sequence[Mapping[str, Any]]
    stages: Sequence[Mapping[str, Any]]
    witnessed: bool = False
    """Whether a witness executed the build as well."""


class WriteBundle(Stage[Measured]):
    """Adds golden data, the check, the graph, the report and the manifest to what was built.

    Args:
        folder: Where the model was built.
        target: The target that built it.
        profile: The device that it was built for.
        facts: What else the manifest holds.
        samples: The first samples become golden data.
        stages: The records of the stages before: ``name``, ``seconds`` and ``record`` each.
        further: The builds for other devices.
        progress: Told of the golden samples.
    """

    name: ClassVar[str] = "bundle"

    def __init__(
        self,
        folder: Path,
        target: Target,
        profile: Profile,
        facts: Facts,
        samples: Samples,
        stages: Sequence[Mapping[str, Any]],
        further: Sequence[FurtherBuild] = (),
        progress: Step | None = None,
    ) -> None:
        self._folder = folder
        self._target = target
        self._profile = profile
        self._facts = facts
        self._samples = samples
        self._stages = stages
        self._further = further
        self._progress = progress

    def run(self, given: Measured) -> StageResult:
        """Writes the files; the manifest comes last."""
        golden = self._golden(given, given.artifact.outputs)
        check = self._target.device_check(self._profile, given.artifact)
        self._write(check.files, self._folder)
        package = self._app_package(given.artifact)
        self._write(package, self._folder)
        graph = graph_record(infer_shapes(given.model, strict=False))
        validate_graph(graph)
        (self._folder / GRAPH).write_text(
            json.dumps(graph, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n",
            encoding="utf-8",
            newline="\n",
        )
        manifest = self._manifest(given) | {
            "golden": golden,
            "check": {"command": check.command_in(""), "files": sorted([*check.files, *package])},
        }
        if self._further:
            manifest["also"] = [self._further_record(build, given) for build in self._further]
        manifest["files"] = file_records(self._folder)
        report = self._folder / REPORT
        report.write_text(markdown_report(manifest), encoding="utf-8", newline="\n")
        manifest["files"] = sorted(
            [*manifest["files"], file_record(report, self._folder)], key=lambda file: file["path"]
        )
        validate_manifest(manifest)
        for name, document in zip((MANIFEST, MEASUREMENTS), split(manifest), strict=True):
            text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
            (self._folder / name).write_text(text + "\n", encoding="utf-8", newline="\n")
        return StageResult(given.model, {"files": len(manifest["files"])})

    def _golden(self, given: Verified, outputs: tuple[Feature, ...], further: str | None = None) -> dict[str, Any]:
        return write_golden(
            self._folder / GOLDEN,
            self._samples,
            given.reference,
            given.runner,
            given.artifact.inputs,
            outputs,
            given.kind,
            given.accuracy,
            further,
            given.lengths,
            self._progress,
        )

    def _write(self, files: Mapping[str, str], folder: Path) -> None:
        for name, text in files.items():
            place = folder / name
            if place.is_file() and place.read_text(encoding="utf-8") == text:
                continue  # the build wrote it too
            if place.exists() or not real_path(place).is_relative_to(real_path(folder)):
                raise self.broken(f"the check's file {name!r} cannot be written beside the model")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8", newline="\n")

    def _app_package(self, artifact: Artifact) -> Mapping[str, str]:
        """The files that turn the bundle into a package for apps, from the first target that has some; else none."""
        builds = {self._relative(artifact.main): self._profile.name}
        builds |= {self._relative(one.verified.artifact.main): one.profile.name for one in self._further}
        targets = (self._target, *(one.target for one in self._further))
        packages = (target.app_package(self._facts.name, builds) for target in targets)
        return next((files for files in packages if files), {})

    def _manifest(self, given: Measured) -> dict[str, Any]:
        facts = self._facts
        return {
            "schema_version": SCHEMA_VERSION,
            "edgekit": __version__,
            "fingerprint": facts.fingerprint,
            "name": facts.name,
            "source": {"files": self._source_files()},
            **self._build_record(self._target, self._profile, given, self._stages),
            "options": dict(facts.options),
            "samples": dict(facts.samples),
            "dimensions": {name: as_record(sizes) for name, sizes in given.model.open_dims.items()},
            "preprocessing": None if facts.preprocessing is None else facts.preprocessing.as_record(),
            "labels": list(facts.class_names) or None,
            "classes": None if facts.classes is None else facts.classes.as_record(),
            "stages": list(self._stages),
            "candidates": list(facts.candidates),
            "latency": given.latency,
        }

    def _further_record(self, build: FurtherBuild, main: Measured) -> dict[str, Any]:
        """The manifest's record of a further build; its check is written into its own folder."""
        folder = self._folder / build.profile.name
        check = build.target.device_check(build.profile, build.verified.artifact)
        self._write(check.files, folder)
        golden = self._golden(build.verified, main.artifact.outputs, build.profile.name)
        return {
            **self._build_record(build.target, build.profile, build.verified, build.stages),
            "stages": list(build.stages),
            "candidates": list(build.candidates),
            "golden": {"outputs": golden["outputs"]},
            "check": {
                "command": check.command_in(folder.name),
                "files": sorted(f"{folder.name}/{name}" for name in check.files),
            },
        }

    def _build_record(
        self, target: Target, profile: Profile, given: Verified, stages: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        """The manifest's record of a build for one device, with its accuracy and size."""
        artifact, rows = given.artifact, table_rows(given.model.graph)
        size, source_size = loaded_bytes(artifact), sum(file["bytes"] for file in self._source_files())
        return {
            "target": {
                "name": target.name,
                "profile": profile.name,
                "description": profile.description,
                "runs_here": profile.runs_here,
            },
            "model": {
                "main": self._relative(artifact.main),
                "files": sorted(map(self._relative, artifact.files)),
                "alternatives": sorted(map(self._relative, artifact.alternatives)),
                "kind": given.kind,
                "precision": artifact.precision,
                **({"app_settings": dict(artifact.settings)} if artifact.settings else {}),
            },
            "inputs": [
                feature_record(
                    replace(
                        feature,
                        takes_nan=feature.name in given.model.nan_inputs,
                        drawn=given.model.drawn.get(feature.name),
                        vocabulary=given.model.vocabularies.get(feature.name),
                        tokens=given.model.tokens.get(feature.name, ()),
                        rows=None if feature.name in given.model.vocabularies else rows.get(feature.name),
                    )
                )
                for feature in artifact.inputs
            ],
            "outputs": [feature_record(feature) for feature in artifact.outputs],
            "states": [
                {**feature_record(feature), "replaced_by": given.model.states[feature.name]}
                for feature in artifact.states
            ],
            "accuracy": given.accuracy.as_record(),
            **instruction_sets_record(stages),
            "size": {"bytes": size, "source_bytes": source_size, "ratio": size / source_size},
        }

    def _source_files(self) -> list[dict[str, Any]]:
        source = self._facts.source
        return [file_record(file, source.parent) for file in model_files(source)]

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()


def instruction_sets_record(stages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The results with the devices' instruction sets; empty if these make no difference to what ships.

    What ships was built last. The results of forms before it, which an instruction set may have refused, are left out.

    Args:
        stages: The records of all stages, in their order.
    """
    builds = [place for place, stage in enumerate(stages) if stage["name"] == Build.name]
    found = stage_record({"stages": stages[builds[-1] :] if builds else stages}, VerifyInstructionSets.name)
    kept = ("verified", "not_executed")
    return {"instruction_sets": {key: found[key] for key in kept}} if found else {}


def loaded_bytes(artifact: Artifact) -> int:
    """Bytes of what a device needs to load the model once."""
    paths = set(artifact.files) - set(artifact.alternatives)
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))}
    return sum(file.stat().st_size for file in files if file.is_file())
