"""Judges bundles one after another; if one cannot be judged, the others still are."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgekit.bundle import MANIFEST, Bundle, check_integrity, is_bundle, read_bundle
from edgekit.config import Budget, Config, DeclaredBundle, Inconclusive, declared_for
from edgekit.devices import LOCAL
from edgekit.devices.opening import FLAG, open_device
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.faults import as_edgekit_error
from edgekit.files.regular_file import real_path
from edgekit.preprocessing import Preprocessing
from edgekit.processes.crashes import CrashError, guarded
from edgekit.progress import Progress
from edgekit.quality_gate.agreement import judge_agreement
from edgekit.quality_gate.baseline import Figures, kept_bundle
from edgekit.quality_gate.declaration import judge_declaration, require_declared_target
from edgekit.quality_gate.device_outputs import judge_device_outputs
from edgekit.quality_gate.instruction_sets import judge_instruction_sets
from edgekit.quality_gate.interface import judge_interface
from edgekit.quality_gate.judging import judge_further_builds, judge_growth, judge_manifest
from edgekit.quality_gate.kept import Unusable, judge_kept, read_kept
from edgekit.quality_gate.latency import EarlierBuild, LatencyReferences, Stopwatch, judge_latency
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.measuring import Ratio
from edgekit.quality_gate.no_earlier import judge_without_earlier
from edgekit.quality_gate.on_device import DeviceClock, judge_on_device
from edgekit.quality_gate.samples import judge_on_samples, on_the_same_samples
from edgekit.quality_gate.source import require_same_source
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.registry import canonical_of, find_profile
from edgekit.signature import check_signature
from edgekit.suggestions import near_names


@dataclass(frozen=True)
class Candidate:
    """A bundle that is to be judged."""

    path: Path
    name: str | None
    """The name that the project declares; None for a bundle that the project does not declare."""
    budget: Budget
    model: Path | None = None
    """The original model's file; None if it is not known."""
    declared: DeclaredBundle | None = field(default=None, compare=False)
    """The project's declaration of the bundle; None if there is none."""
    project: Config | None = field(default=None, compare=False)
    """The project, for a bundle that it does not declare."""
    names: tuple[str, ...] = field(default=(), compare=False)
    """The names that the project declares, for the error if ``path`` is none of them and no bundle."""


@dataclass(frozen=True)
class Judged:
    """A bundle with the verdicts on it, or with the error that kept it from being judged."""

    path: Path
    name: str
    verdicts: tuple[Verdict, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    error: EdgeKitError | None = None
    inconclusive: Inconclusive = Inconclusive.WARN
    """What an inconclusive verdict leads to."""

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The verdicts that make the bundle fail."""
        return tuple(verdict for verdict in self.verdicts if self.fails(verdict))

    @property
    def doubtful(self) -> tuple[Verdict, ...]:
        """The verdicts that lead to a warning, although the bundle passes with them."""
        return tuple(verdict for verdict in self.verdicts if self.warns(verdict))

    @property
    def passed(self) -> bool:
        """Whether the bundle may ship."""
        return self.error is None and not self.failed

    @property
    def exit_code(self) -> int:
        """The exit code of the command for this bundle alone."""
        if self.error is not None:
            return self.error.exit_code
        return RequirementError.exit_code if self.failed else 0

    def fails(self, verdict: Verdict) -> bool:
        """Whether this verdict makes the bundle fail."""
        return verdict.outcome is Outcome.BROKEN or (
            verdict.outcome is Outcome.INCONCLUSIVE and self.inconclusive is Inconclusive.FAIL
        )

    def warns(self, verdict: Verdict) -> bool:
        """Whether this verdict leads to a warning, although the bundle passes with it."""
        return verdict.outcome is Outcome.INCONCLUSIVE and self.inconclusive is Inconclusive.WARN

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "bundle": str(self.path),
            "name": self.name,
            "passed": self.passed,
            "verdicts": [{**verdict.as_record(), "passed": not self.fails(verdict)} for verdict in self.verdicts],
            "ratios": [ratio.as_record() for ratio in self.ratios],
            "error": None if self.error is None else self.error.as_record(),
        }


@dataclass(frozen=True)
class Gate:
    """How bundles are judged, and what they are compared to."""

    machine: Machine
    seconds: float
    """Seconds that one measurement may take."""
    inconclusive: Inconclusive = Inconclusive.WARN
    baseline: Path | None = None
    """The baseline file with the figures of earlier builds; None if nothing is compared with a baseline."""
    figures: Mapping[str, Figures] = field(default_factory=dict)
    """The figures in the baseline, by the bundles' names."""
    against: Path | None = None
    """An earlier bundle, or a folder with earlier bundles under the names of their folders."""
    device: str | None = None
    """URL of the device that every bundle has to compute its golden outputs on, and where milliseconds and memory are
    measured; None: the one that each bundle is declared with."""
    usual_device: str = LOCAL
    """URL of the device where milliseconds and memory are measured for bundles that are declared without a device."""
    device_timeout: float | None = None
    """Seconds that the device may be silent; None: the device's default."""
    results: Path | None = None
    """The file of results that a device wrote, for a device that cannot be reached from here."""
    signers: Path | None = None
    """The file of those who may sign; None if no signature is asked for."""
    progress: Progress = field(default_factory=Progress)
    instruction_sets: tuple[str, ...] = ()
    """The instruction sets with which bundles have to compute their golden outputs."""
    data: Path | None = None
    """Samples on which bundles are executed and judged; None for no samples."""
    updating: bool = False
    """Whether the bundles become the baseline, so that there is no baseline to compare with."""
    usual_named_by: str = FLAG
    """The place in a project file that holds ``usual_device``."""

    def judge(self, candidate: Candidate) -> Judged:
        """The verdicts on the bundle, or the error that keeps it from being judged."""
        name = candidate.name or folder_name(candidate.path)
        try:
            bundle = opened(candidate)
            name = candidate.name or bundle.name
            if self.signers is not None:
                check_signature(bundle, self.signers)
            with self.progress.stage(f"judge {name}"), guarded(f"judge {candidate.path}", may_stall=True):
                verdicts, ratios = self._verdicts(bundle, candidate)
        except CrashError as crash:
            error = RequirementError(
                "cannot be judged: the process that judged it was ended",
                subject=candidate.path,
                found=crash.found,
                hint="`--max-seconds` and `--max-memory` allow more",
            )
            return Judged(candidate.path, name, error=error)
        except Exception as failure:  # a runtime may raise anything; the other bundles are still judged
            return Judged(candidate.path, name, error=as_edgekit_error(failure))
        return Judged(candidate.path, name, tuple(verdicts), tuple(ratios), inconclusive=self.inconclusive)

    def _verdicts(self, bundle: Bundle, candidate: Candidate) -> tuple[list[Verdict], list[Ratio]]:
        asked = candidate.budget
        named = self._named_device(candidate)
        clock = self._clock(candidate)
        verdicts = [*judge_manifest(bundle, asked), *judge_further_builds(bundle, asked)]
        if named or self.results is not None:
            verdicts.append(judge_device_outputs(bundle, clock.device, clock.called, self.progress.step))
        verdicts += judge_instruction_sets(bundle, self.instruction_sets, self.progress.step)
        if self.data is not None:
            model = candidate.model if candidate.model is not None and candidate.model.is_file() else None
            where = clock.device if named and self.results is None else None
            label = None if candidate.declared is None else candidate.declared.label
            step = self.progress.step
            declared = self._preprocessing(candidate, self.data)
            verdicts.append(judge_on_samples(bundle, self.data, model, asked.accuracy, where, step, label, declared))
        earlier = figures = None
        folder = None
        if self.against is not None:
            other = self._of_against(bundle, self.against)
            if other is None:
                folder = self.against
            else:
                earlier, figures = EarlierBuild(str(other.path), other, accepting=""), Figures.of(other)
        elif self.baseline is not None:
            figures = self._of_baseline(bundle, candidate.name or bundle.name, self.baseline)
            kept = read_kept(self.baseline, figures)
            verdicts += judge_kept(self.baseline, self.figures, figures, kept)
            earlier = EarlierBuild("the baseline's", kept.why if isinstance(kept, Unusable) else kept)
        if figures is not None and earlier is not None:
            grown = judge_growth(Figures.of(bundle), asked, figures)
            verdicts += [on_the_same_samples(verdict, bundle, earlier) for verdict in grown]
            verdicts += judge_interface(bundle, earlier)
            verdicts += judge_agreement(bundle, asked, earlier, figures)
        else:
            verdicts += judge_without_earlier(asked, updating=self.updating, folder=folder)
        timed, measured = judge_latency(bundle, asked, LatencyReferences(candidate.model, earlier), self._stopwatch())
        timed += judge_on_device(bundle, asked, clock)
        stale = [] if candidate.declared is None else list(judge_declaration(bundle, candidate.declared))
        return verdicts + timed + stale, measured

    def _of_against(self, bundle: Bundle, against: Path) -> Bundle | None:
        """The bundle that this one is compared with, or None if the folder holds no bundle of this name."""
        place = against if os.path.lexists(against / MANIFEST) else against / folder_name(bundle.path)
        if not os.path.lexists(place):
            return None
        if real_path(place) == real_path(bundle.path):
            raise InputError("is the bundle itself", subject="--against", found=place)
        return _whole(place)

    def _of_baseline(self, bundle: Bundle, name: str, file: Path) -> Figures:
        """The baseline's figures of the bundle: by its name, or those of the only kept bundle that was made alike.

        Args:
            bundle: The bundle.
            name: The name under which ``--update`` writes the bundle: the declared one, which the bundle's own may
                differ from if it was packaged by hand.
            file: The baseline.

        Raises:
            InputError: The baseline has no such figures.
        """
        for known in (name, bundle.name):
            if known in self.figures:
                return self.figures[known]
        alike = [known for known in self.figures.values() if _is_made_alike(kept_bundle(file, known), bundle)]
        if len(alike) == 1:
            return alike[0]
        raise InputError(
            "the baseline does not know the bundle",
            subject=name,
            expected=", ".join(self.figures) or "a bundle's name",
            hint="--update adds it",
        )

    @staticmethod
    def _preprocessing(candidate: Candidate, data: Path) -> Preprocessing | None:
        """How samples become the input of a bundle that does not state it: as the project file says.

        If no project file declares it, the one that is nearest to the samples does. A bundle that the project declares
        is read as it is packaged.
        """
        if candidate.declared is not None:
            return candidate.declared.preprocessing
        project = None if candidate.project is None else candidate.project.preprocessing_of(candidate.model)
        return project or declared_for(candidate.model, data, None).preprocessing

    def _named_device(self, candidate: Candidate) -> str | None:
        """The device that the flag or the bundle's table in the project file names; None if neither does."""
        return self.device or (None if candidate.declared is None else candidate.declared.device)

    def _named_by(self, candidate: Candidate) -> str:
        """The flag or the place in the project file that names the bundle's device."""
        if self.device:
            return FLAG
        declared = candidate.declared
        if declared is not None and declared.device:
            return f"{declared.file} bundle {declared.name} device"
        return self.usual_named_by

    def _clock(self, candidate: Candidate) -> DeviceClock:
        """Where milliseconds and memory are measured: the device, or the file of results in place of a declared one."""
        url = self.device or (LOCAL if self.results is not None else self._named_device(candidate) or self.usual_device)
        device = open_device(url, self.device_timeout, self.progress.step, self.results, self._named_by(candidate))
        called = url.partition("?")[0] if self.results is None else str(self.results)
        return DeviceClock(device, called, self.seconds, self.progress.step)

    def _stopwatch(self) -> Stopwatch:
        return Stopwatch(self.seconds, self.progress.step)


def candidates_of(config: Config | None, paths: Iterable[Path], model: Path | None) -> list[Candidate]:
    """The bundles to judge, each once: those at ``paths``, or every bundle of the project if ``paths`` is empty.

    Args:
        config: The project.
        paths: Bundles, by their folders or by the names that the project declares.
        model: The original model's file, if there is a single bundle.
    """
    places = list(paths)
    if not places and config is not None:
        return [_declared_candidate(one, model=model) for one in config.bundles]
    found = [candidate for path in places for candidate in _candidates(config, path, model)]
    once: dict[Path, Candidate] = {}
    for candidate in found:
        once.setdefault(real_path(candidate.path), candidate)
    return list(once.values())


def _declared_candidate(declared: DeclaredBundle, path: Path | None = None, model: Path | None = None) -> Candidate:
    return Candidate(path or declared.output, declared.name, declared.budget, model or declared.model, declared)


def _candidates(config: Config | None, path: Path, model: Path | None) -> list[Candidate]:
    """The bundle at the path; or all bundles that are declared under this name, one for each target."""
    if config is None:
        return [Candidate(path, None, Budget(), model)]
    if not is_bundle(path) and all(real_path(one.output) != real_path(path) for one in config.bundles):
        named = [one for one in config.bundles if str(path) == one.name]
        named = named or [one for one in config.bundles if str(path) == one.declared_as]
        if named:
            return [_declared_candidate(one, model=model) for one in named]
    declared = config.declared(path, _name(path))
    if declared is None:
        names = sorted({name for one in config.bundles for name in (one.name, one.declared_as)})
        return [Candidate(path, None, config.budget, model, project=config, names=tuple(names))]
    return [_declared_candidate(declared, path, model)]


def _name(path: Path) -> str:
    """The bundle's name; its folder's name if it cannot be read, an error that is reported when it is judged."""
    try:
        return read_bundle(path).name
    except EdgeKitError:
        return folder_name(path)


def folder_name(path: Path) -> str:
    """The name of a bundle's folder, also if the path is ``.`` or ends with ``..``."""
    return path.name if path.name not in ("", "..") else real_path(path).name


def opened(candidate: Candidate) -> Bundle:
    """Opens a bundle, and checks that it is complete and made from the candidate's model, if its files exist.

    Raises:
        InputError: The bundle is missing, the project declares no such name, its target is unknown or another one than
            declared, or its model is another one or a Git LFS pointer.
        RequirementError: The bundle's files are changed.
    """
    declared = candidate.declared
    if declared is not None and not candidate.path.exists() and declared.output.exists():
        raise InputError(
            "is not there",
            subject=candidate.path,
            expected=f"the bundle's folder, {declared.output}",
            hint=f"its name alone, `edgekit gate {declared.name}`, does in every folder of the project",
        )
    if candidate.name is not None and not candidate.path.exists():
        if declared is not None:
            find_profile(declared.target, f"{declared.file} bundle {declared.name} target")
        raise InputError("has not been built", subject=candidate.path, hint="`edgekit build` builds it")
    if candidate.names and not candidate.path.exists():
        raise InputError(
            "is neither a bundle nor the name of one that the project declares",
            subject=candidate.path,
            expected=f"a bundle's folder, or {near_names(str(candidate.path), candidate.names)}",
            found="nothing",
        )
    bundle = _whole(candidate.path)
    if candidate.declared is not None:
        require_declared_target(bundle, candidate.declared)
    if candidate.model is not None:
        require_same_source(bundle, candidate.model)
    return bundle


def _is_made_alike(place: Path, bundle: Bundle) -> bool:
    """Whether a kept bundle is for the same target and made from a model file of the same name.

    A bundle in another folder may have another name, so names alone do not decide.
    """
    try:
        kept = read_bundle(place)
    except EdgeKitError:
        return False
    files = [each.manifest["source"]["files"][0]["path"] for each in (kept, bundle)]
    return kept.profile_name == bundle.profile_name and files[0] == files[1]


def _whole(path: Path) -> Bundle:
    bundle = read_bundle(path)
    check_integrity(bundle, canonical_of(bundle.profile_name))
    return bundle
