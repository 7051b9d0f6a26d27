"""Makes a bundle of the folder that the artifact was built in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from edgekit.data.samples import Samples
from edgekit.device_check.golden import write_golden
from edgekit.dimensions import as_record
from edgekit.fingerprint import model_files
from edgekit.graph.shapes import infer_shapes
from edgekit.measurements import MEASUREMENTS, split
from edgekit.preprocessing import Preprocessing
from edgekit.reporting.graph_record import graph_record
from edgekit.reporting.markdown import markdown_report
from edgekit.reporting.summary import stage_record
from edgekit.stages import Stage, StageResult
from edgekit.stages.bench import Measured
from edgekit.stages.instruction_sets import VerifyInstructionSets
from edgekit.target import Artifact, Profile, Target


@dataclass(frozen=True)
class Facts:
    """What the manifest says and the stages do not know."""

    name: str
    source: Path
    """The original's file."""
    fingerprint: str
    options: Mapping[str, Any]
    """What the user asked for, as the manifest's schema describes it."""
    preprocessing: Preprocessing | None
    class_names: tuple[str, ...]
    candidates: Sequence[Mapping[str, Any]] = ()
    """What became of each form of the model that was tried; see :mod:`edgekit.candidates`."""


class WriteBundle(Stage[Measured]):
    """Adds golden data, the check, the graph, the report and the manifest to what was built.

    Args:
        folder: Where it was built.
        target: Who built it.
        profile: The device that it was built for.
        facts: What else the manifest says.
        samples: The golden ones are the first of them.
        stages: The records of the stages before: ``name``, ``seconds`` and ``record`` each.
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
    ) -> None:
        self._folder = folder
        self._target = target
        self._profile = profile
        self._facts = facts
        self._samples = samples
        self._stages = stages

    def run(self, given: Measured) -> StageResult:
        """Writes the files; the manifest comes last."""
        artifact = given.artifact
        golden = write_golden(
            self._folder / GOLDEN,
            self._samples,
            given.reference,
            given.runner,
            artifact.inputs,
            artifact.outputs,
            given.kind,
            given.accuracy,
        )
        check = self._target.device_check(self._profile, artifact)
        for name, text in check.files.items():
            place = self._folder / name
            if place.exists() or not place.resolve().is_relative_to(self._folder.resolve()):
                raise self.broken(f"the check's file {name!r} cannot be written beside the model")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8", newline="\n")
        graph = graph_record(infer_shapes(given.model, strict=False))
        validate_graph(graph)
        (self._folder / GRAPH).write_text(
            json.dumps(graph, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n",
            encoding="utf-8",
            newline="\n",
        )
        manifest = self._manifest(given) | {
            **self._instruction_sets(),
            "golden": golden,
            "check": {"command": check.command, "files": sorted(check.files)},
        }
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

    def _manifest(self, given: Measured) -> dict[str, Any]:
        artifact, facts = given.artifact, self._facts
        source_files = [file_record(file, facts.source.parent) for file in model_files(facts.source)]
        size, source_size = loaded_bytes(artifact), sum(file["bytes"] for file in source_files)
        return {
            "schema_version": SCHEMA_VERSION,
            "edgekit": __version__,
            "fingerprint": facts.fingerprint,
            "name": facts.name,
            "source": {"files": source_files},
            "target": {
                "name": self._target.name,
                "profile": self._profile.name,
                "description": self._profile.description,
                "runs_here": self._profile.runs_here,
            },
            "options": dict(facts.options),
            "model": {
                "main": self._relative(artifact.main),
                "files": sorted(map(self._relative, artifact.files)),
                "alternatives": sorted(map(self._relative, artifact.alternatives)),
                "kind": given.kind,
                "precision": artifact.precision,
            },
            "inputs": [feature_record(feature) for feature in artifact.inputs],
            "outputs": [feature_record(feature) for feature in artifact.outputs],
            "states": [
                {**feature_record(feature), "replaced_by": given.model.states[feature.name]}
                for feature in artifact.states
            ],
            "dimensions": {name: as_record(sizes) for name, sizes in given.model.open_dims.items()},
            "preprocessing": None if facts.preprocessing is None else facts.preprocessing.as_record(),
            "labels": list(facts.class_names) or None,
            "stages": list(self._stages),
            "candidates": list(facts.candidates),
            "accuracy": given.accuracy.as_record(),
            "size": {"bytes": size, "source_bytes": source_size, "ratio": size / source_size},
            "latency": given.latency,
        }

    def _instruction_sets(self) -> dict[str, Any]:
        """What became of the instruction sets that the devices have; nothing where they make no difference."""
        found = stage_record({"stages": self._stages}, VerifyInstructionSets.name)
        kept = ("verified", "not_executed")
        return {"instruction_sets": {key: found[key] for key in kept}} if found else {}

    def _relative(self, path: Path) -> str:
        return path.relative_to(self._folder).as_posix()


def loaded_bytes(artifact: Artifact) -> int:
    """Bytes of what a device needs to load the model once."""
    paths = set(artifact.files) - set(artifact.alternatives)
    files = {file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))}
    return sum(file.stat().st_size for file in files if file.is_file())
