"""Judges bundles one after another; one that cannot be judged does not keep the others from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgekit.bundle import Bundle, check_integrity, is_bundle, read_bundle
from edgekit.config import Budget, Config, Inconclusive
from edgekit.errors import EdgeKitError, InputError, RequirementError
from edgekit.graph.onnx_file import sha256
from edgekit.progress import Progress
from edgekit.quality_gate.baseline import Figures
from edgekit.quality_gate.judging import GROWTH, judge_growth, judge_manifest
from edgekit.quality_gate.latency import (
    EarlierRatios,
    Rivals,
    Stopwatch,
    counts_here,
    judge_latency,
    precise_enough,
    ratio_to_original,
)
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.measuring import Ratio
from edgekit.quality_gate.verdict import Outcome, Verdict


@dataclass(frozen=True)
class Candidate:
    """A bundle that is to be judged."""

    path: Path
    name: str | None
    """As the project declares it; None for a bundle that it does not know."""
    budget: Budget
    model: Path | None = None
    """The original, where it is at hand."""


@dataclass(frozen=True)
class Judged:
    """A bundle with the verdicts on it, or with the error that kept it from being judged."""

    path: Path
    name: str
    verdicts: tuple[Verdict, ...] = ()
    ratios: tuple[Ratio, ...] = ()
    error: EdgeKitError | None = None
    inconclusive: Inconclusive = Inconclusive.WARN
    """What becomes of a verdict that is not clear."""

    @property
    def failed(self) -> tuple[Verdict, ...]:
        """The verdicts that the bundle does not pass with."""
        return tuple(verdict for verdict in self.verdicts if self.fails(verdict))

    @property
    def doubtful(self) -> tuple[Verdict, ...]:
        """The verdicts that people have to be told of although the bundle passes with them."""
        return tuple(verdict for verdict in self.verdicts if self.warns(verdict))

    @property
    def passed(self) -> bool:
        """Whether the bundle may ship."""
        return self.error is None and not self.failed

    @property
    def exit_code(self) -> int:
        """What the command line ends with on account of this bundle."""
        if self.error is not None:
            return self.error.exit_code
        return RequirementError.exit_code if self.failed else 0

    def fails(self, verdict: Verdict) -> bool:
        """Whether the bundle does not pass with this verdict."""
        return verdict.outcome is Outcome.BROKEN or (
            verdict.outcome is Outcome.INCONCLUSIVE and self.inconclusive is Inconclusive.FAIL
        )

    def warns(self, verdict: Verdict) -> bool:
        """Whether people have to be told of this verdict although the bundle passes with it."""
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
    """That one measurement may take."""
    inconclusive: Inconclusive = Inconclusive.WARN
    baseline: dict[str, Figures] | None = None
    """Figures of earlier builds by name; None where nothing is compared with them."""
    against: Path | None = None
    """An earlier bundle, or a folder with earlier bundles under the names of their folders."""
    progress: Progress = field(default_factory=Progress)

    def judge_all(self, candidates: Iterable[Candidate]) -> list[Judged]:
        """Judges each of them."""
        return [self._judged(candidate) for candidate in candidates]

    def figures(self, candidate: Candidate, before: Figures | None) -> Figures:
        """The figures that a baseline gets, with the latency where it can be measured.

        Raises:
            EdgeKitError: The bundle, or its original, cannot be used.
        """
        bundle = _opened(candidate)
        figures = Figures.of(bundle)
        ratio = None
        if candidate.model is not None and counts_here(bundle):
            with self.progress.stage(f"measure {bundle.name}"):
                ratio = ratio_to_original(bundle, candidate.model, self._stopwatch(), precise_enough)
            if not ratio.known:
                self.progress.warn(f"{bundle.name}: its latency is not clear after {ratio.seconds:.0f} s: left out")
                ratio = None
        return figures.with_ratio(self.machine, ratio, before)

    def _judged(self, candidate: Candidate) -> Judged:
        name = candidate.name or candidate.path.name
        try:
            bundle = _opened(candidate)
            name = candidate.name or bundle.name
            with self.progress.stage(f"judge {name}"):
                verdicts, ratios = self._verdicts(bundle, candidate)
        except EdgeKitError as error:
            return Judged(candidate.path, name, error=error)
        return Judged(candidate.path, name, tuple(verdicts), tuple(ratios), inconclusive=self.inconclusive)

    def _verdicts(self, bundle: Bundle, candidate: Candidate) -> tuple[list[Verdict], list[Ratio]]:
        asked = candidate.budget
        budget = asked.over(GROWTH)
        verdicts = list(judge_manifest(bundle.manifest, asked))
        rival, known = self._earlier_bundle(bundle), self._earlier_figures(bundle)
        earlier = known if rival is None else Figures.of(rival)
        if earlier is not None:
            verdicts += judge_growth(Figures.of(bundle), budget, earlier)
        ratios = None
        if known is not None:
            machines = tuple(measured.machine for measured in known.latency)
            ratios = EarlierRatios(self.machine, known.on(self.machine), machines)
        rivals = Rivals(candidate.model, rival, ratios)
        timed, measured = judge_latency(bundle, budget, asked.latency_growth is not None, rivals, self._stopwatch())
        return verdicts + timed, measured

    def _earlier_bundle(self, bundle: Bundle) -> Bundle | None:
        """The bundle of ``against`` that this one is compared with."""
        if self.against is None:
            return None
        place = self.against if is_bundle(self.against) else self.against / bundle.path.name
        if place.resolve() == bundle.path.resolve():
            raise InputError("is the bundle itself", subject="--against", found=place)
        return _whole(place)

    def _earlier_figures(self, bundle: Bundle) -> Figures | None:
        """What the baseline file knows of the bundle."""
        if self.baseline is None or self.against is not None:
            return None
        if bundle.name not in self.baseline:
            raise InputError(
                "the baseline does not know the bundle",
                subject=bundle.name,
                expected=", ".join(self.baseline) or "a bundle's name",
                hint="--update adds it",
            )
        return self.baseline[bundle.name]

    def _stopwatch(self) -> Stopwatch:
        return Stopwatch(self.seconds, self.progress.step)


def candidates_of(config: Config | None, paths: Iterable[Path], model: Path | None) -> list[Candidate]:
    """What is to be judged: the bundles at ``paths``, or every bundle of the project where there are none.

    Args:
        config: The project.
        paths: Bundles.
        model: The original of the only bundle.
    """
    places = list(paths)
    if not places and config is not None:
        return [Candidate(one.output, one.name, one.budget, one.model) for one in config.bundles]
    return [_candidate(config, path, model) for path in places]


def _candidate(config: Config | None, path: Path, model: Path | None) -> Candidate:
    declared = None if config is None else config.declared(path, _name(path))
    if declared is None:
        return Candidate(path, None, Budget() if config is None else config.budget, model)
    return Candidate(path, declared.name, declared.budget, model or declared.model)


def _name(path: Path) -> str:
    """What the bundle calls itself; its folder's name where it cannot be read, which is told when it is judged."""
    try:
        return read_bundle(path).name
    except EdgeKitError:
        return path.name


def _opened(candidate: Candidate) -> Bundle:
    """The bundle, if it is whole and of the model that is at hand."""
    if candidate.name is not None and not candidate.path.exists():
        raise InputError("has not been built", subject=candidate.path, hint="`edgekit build` builds it")
    bundle = _whole(candidate.path)
    source = bundle.manifest["source"]["files"][0]
    model = candidate.model
    if model is not None and model.is_file() and sha256(model) != source["sha256"]:
        raise InputError(
            "was made from another model",
            subject=candidate.path,
            expected=model,
            found=f"{source['path']} with SHA-256 {source['sha256']}",
            hint="build it again, or name its own model",
        )
    return bundle


def _whole(path: Path) -> Bundle:
    bundle = read_bundle(path)
    check_integrity(bundle)
    return bundle
