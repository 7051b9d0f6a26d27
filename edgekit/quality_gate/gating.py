"""Judges bundles by the budgets of a project file: what ``edgekit gate`` and :func:`edgekit.gate` do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from edgekit.bundle import MANIFEST, read_bundle
from edgekit.config import Config, GateSettings, read_config
from edgekit.devices import LOCAL
from edgekit.devices.opening import FLAG
from edgekit.errors import EdgeKitError, InputError
from edgekit.progress import Progress
from edgekit.quality_gate.annotations import annotation_lines
from edgekit.quality_gate.baseline import Figures, read_baseline, require_baseline_writable, write_baseline
from edgekit.quality_gate.bundles import Candidate, Gate, Judged, candidates_of, folder_name, opened
from edgekit.quality_gate.declaration import DECLARATION
from edgekit.quality_gate.junit import junit_xml
from edgekit.quality_gate.machine import Machine, this_machine
from edgekit.quality_gate.markdown import markdown_summary
from edgekit.quality_gate.no_earlier import NO_EARLIER
from edgekit.units import bytes_texts


@dataclass(frozen=True)
class GateOrder:
    """Which bundles to judge, and what they are compared to."""

    bundles: tuple[Path, ...] = ()
    """The bundles to judge; empty for every bundle that the project declares."""
    config: Path | None = None
    """The project file; None if there is none."""
    baseline: Path | None = None
    """The baseline file with figures of an earlier build; None: the file that the project file names."""
    against: Path | None = None
    """An earlier bundle, or a folder that holds an earlier bundle for each, by the name of its folder."""
    update: bool = False
    """Write the bundles' figures to the baseline instead of comparing with it."""
    model: Path | None = None
    """The ONNX model that the bundle was made from, if ``bundles`` names a single one."""
    time_limit: float | None = None
    """Seconds that one measurement may take; None: as the project file says."""
    device: str | None = None
    """URL of the device that every bundle has to compute its golden outputs on, and where milliseconds and memory are
    measured; None: as the project file says, or this machine."""
    device_timeout: float | None = None
    """Seconds that the device may be silent; None: the device's default."""
    results: Path | None = None
    """The file of results that a device wrote about a single bundle, for a device that cannot be reached from here."""
    signers: Path | None = None
    """The file of those who may sign; None if no signature is asked for."""
    instruction_sets: tuple[str, ...] | None = None
    """The instruction sets with which bundles have to compute their golden outputs; None for no sets."""
    data: Path | None = None
    """Samples on which bundles are executed and judged; None for no samples."""
    output_dir: Path | None = None
    """The folder of the declared bundles, each under its name; None: where the project file puts them."""


@dataclass(frozen=True)
class GateResult:
    """The verdicts on all bundles."""

    machine: Machine
    bundles: tuple[Judged, ...]
    config: Path | None
    """The project file that holds the budgets."""
    baseline: Path | None
    """The baseline file that was compared with, or written."""
    updated: tuple[str, ...] = ()
    """The names of the bundles whose figures were written to the baseline."""
    declared_as: Mapping[str, str] = field(default_factory=dict)
    """The name in the project file by the bundle's name: bundles for several targets share one declaration."""
    changes: tuple[str, ...] = ()
    """How the figures that were written differ from those that they replace, a text for each bundle; and which
    bundles the file has that the project does not declare."""

    @property
    def passed(self) -> bool:
        """Whether all bundles may ship."""
        return all(judged.passed for judged in self.bundles)

    @property
    def failed(self) -> tuple[Judged, ...]:
        """The bundles that may not ship."""
        return tuple(judged for judged in self.bundles if not judged.passed)

    @property
    def exit_code(self) -> int:
        """The exit code of the command: the highest of all bundles' exit codes."""
        return max((judged.exit_code for judged in self.bundles), default=0)

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``."""
        return {
            "passed": self.passed,
            "machine": self.machine.as_record(),
            "bundles": [judged.as_record() for judged in self.bundles],
        }

    def junit(self) -> str:
        """The verdicts as JUnit XML."""
        return junit_xml(self.bundles)

    def markdown(self) -> str:
        """The verdicts as a table in Markdown."""
        return markdown_summary(self.bundles, self.machine)

    def annotations(self) -> list[str]:
        """The verdicts as GitHub's workflow commands, a line each."""
        return list(annotation_lines(self.bundles, self.config, self.declared_as))


class InterruptedGateError(KeyboardInterrupt):
    """The gate was interrupted; the verdicts until then are kept."""

    def __init__(self, message: str, result: GateResult, judged: int) -> None:
        super().__init__(message)
        self.result = result
        """The result for all bundles; a bundle that was not judged has an error that says so."""
        self.judged = judged
        """How many bundles were judged, from the first on."""


def judge_bundles(order: GateOrder, progress: Progress) -> GateResult:
    """Judges bundles by their budgets, and writes the baseline if that is asked for.

    Args:
        order: The bundles to judge, and what they are compared with.
        progress: Reports the bundles, and the turns of measurements.

    Raises:
        InputError: There is nothing to judge, or nothing to judge by; or options contradict each other.
        InterruptedGateError: Somebody pressed Ctrl-C or asked the process to end. No baseline is written.
    """
    limit = order.time_limit
    if limit is not None and not limit > 0:
        raise InputError("is not a time", subject="--time-limit", expected="seconds, more than 0", found=limit)
    project = _project_of(order)
    settings = GateSettings() if project is None else project.gate
    file = _baseline_file(order, settings)
    _require_bundles(order, project)
    if order.against is not None:
        _require_earlier(order.against)
    candidates = candidates_of(project, order.bundles, order.model)
    if file is not None:
        _require_names_of_their_own(candidates)
        if order.update:
            require_baseline_writable(file)
    gate = _gate(order, settings, file, FLAG if project is None else f"{project.path} [gate] device", progress)
    declared_as = {} if project is None else {one.name: one.declared_as for one in project.bundles}
    judged: list[Judged] = []
    try:
        for candidate in candidates:
            judged.append(gate.judge(candidate))  # noqa: PERF401 - what is judged counts after an interruption too
    except KeyboardInterrupt as interrupt:
        message = str(interrupt) or "interrupted"
        every = (*judged, *(_not_judged(candidate, message) for candidate in candidates[len(judged) :]))
        result = GateResult(gate.machine, every, order.config, file, declared_as=declared_as)
        raise InterruptedGateError(message, result, len(judged)) from interrupt
    result = GateResult(gate.machine, tuple(judged), order.config, file, declared_as=declared_as)
    if order.update and file is not None:
        return _with_baseline_written(result, file, candidates, whole_project=not order.bundles)
    _require_verdicts(judged, order)
    return result


def _gate(
    order: GateOrder, settings: GateSettings, baseline: Path | None, usual_named_by: str, progress: Progress
) -> Gate:
    return Gate(
        this_machine(),
        settings.time_limit if order.time_limit is None else order.time_limit,
        settings.inconclusive,
        baseline=None if order.update else baseline,
        figures={} if baseline is None or order.update else read_baseline(baseline),
        against=order.against,
        device=order.device,
        usual_device=settings.device or LOCAL,
        device_timeout=order.device_timeout,
        results=order.results,
        signers=order.signers,
        progress=progress,
        instruction_sets=order.instruction_sets or (),
        data=order.data,
        updating=order.update,
        usual_named_by=usual_named_by,
    )


def _with_baseline_written(
    result: GateResult, file: Path, candidates: Sequence[Candidate], *, whole_project: bool
) -> GateResult:
    """Writes the bundles' figures to the baseline; the result tells which figures changed.

    Args:
        result: The verdicts on the bundles.
        file: The baseline.
        candidates: The bundles.
        whole_project: Whether these are all bundles of the project, so that figures of other bundles are told.
    """
    before = read_baseline(file) if file.exists() else {}
    updated = _updated(file, candidates, result.bundles)
    after = read_baseline(file) if updated else {}
    changes = [_change(name, before[name], after[name]) for name in updated if name in before]
    if whole_project:
        changes += [_left(name, file) for name in after if name not in result.declared_as]
    return replace(result, updated=updated, changes=tuple(changes))


def _project_of(order: GateOrder) -> Config | None:
    """The project file, with its bundles in the order's output folder; None if there is no project file.

    Raises:
        InputError: There is an output folder, but no project file.
    """
    project = None if order.config is None else read_config(order.config)
    if order.output_dir is None:
        return project
    if project is None:
        raise InputError(
            "is of use with a project file only",
            subject="--output-dir",
            hint="give --config FILE, or the bundles alone",
        )
    return project.in_folder(order.output_dir)


def _not_judged(candidate: Candidate, message: str) -> Judged:
    """The result for a bundle that was not judged to the end when the gate was interrupted."""
    name = candidate.name or folder_name(candidate.path)
    return Judged(candidate.path, name, error=InputError("was not judged", subject=candidate.path, found=message))


def _require_names_of_their_own(candidates: Sequence[Candidate]) -> None:
    """Checks that no two bundles have the same name, by which a baseline finds them.

    A path that is no bundle is skipped: judging it reports the error.

    Raises:
        InputError: Two bundles have the same name.
    """
    named: dict[str, Path] = {}
    for candidate in candidates:
        try:
            name = candidate.name or read_bundle(candidate.path).name
        except EdgeKitError:
            continue
        if name in named:
            raise InputError(
                f"two bundles are called {name!r}",
                subject=candidate.path,
                expected="a name of its own for each, by which the baseline knows it",
                found=f"{named[name]} is called so too",
                hint="package one of them again with --name, or judge each with a baseline of its own",
            )
        named[name] = candidate.path


def _require_earlier(against: Path) -> None:
    """Raises InputError if ``--against`` is not a bundle, and not a folder with bundles."""
    if not against.exists():
        flaw = "is not there"
    elif any(
        os.path.lexists(place / MANIFEST) for place in (against, *(against.iterdir() if against.is_dir() else ()))
    ):
        return
    else:
        flaw = "holds no bundle"
    raise InputError(flaw, subject="--against", expected="a bundle, or a folder with bundles", found=against)


def _baseline_file(order: GateOrder, settings: GateSettings) -> Path | None:
    """The baseline file to compare with, or to write; None if there is none."""
    if order.against is not None and order.baseline is not None:
        raise InputError("are two things to compare with", subject="--against and --baseline", hint="give one of them")
    file = order.baseline or (settings.baseline if order.against is None or order.update else None)
    if order.update and file is None:
        raise InputError("needs a file to write", subject="--update", hint="give --baseline FILE")
    return file


def _require_bundles(order: GateOrder, project: Config | None) -> None:
    count = len(order.bundles) or (0 if project is None else len(project.bundles))
    if not count:
        raise InputError(
            "there is nothing to judge",
            subject=None if project is None else project.path,
            expected="a BUNDLE, or a project file that declares some",
            found="no project file" if project is None else "no [[bundle]]",
        )
    for given, flag, what in (
        (order.model, "--model", "names the original of one bundle"),
        (order.results, "--results", "tell of one bundle"),
    ):
        if given is not None and count != 1:
            raise InputError(what, subject=flag, expected="one BUNDLE", found=str(count))


def _require_verdicts(judged: Sequence[Judged], order: GateOrder) -> None:
    """Raises InputError if nothing was judged: no bundle has an error, and no limit was checked."""
    asked = [each for one in judged for each in one.verdicts if each.budget != DECLARATION]
    if all(one.error is None for one in judged) and all(each.found.startswith(NO_EARLIER) for each in asked):
        alone = len(order.bundles) == 1
        found = "no project file" if order.config is None else f"no budget in {order.config}"
        if asked and order.against is None:
            found = f"only budgets that need an earlier build in {order.config}"
        elif asked:
            found = f"no bundle of that name in {order.against}"
        raise InputError(
            "there is nothing to judge the bundle by" if alone else "there is nothing to judge by",
            subject=order.bundles[0] if alone else order.config,
            expected="a table [budget] in the project file, --baseline FILE, --against PATH, --device DEVICE, "
            "--isa NAMES or --data DIR",
            found=found,
        )


def _change(name: str, before: Figures, after: Figures) -> str:
    """In words, how a bundle's figures changed."""
    if before.fingerprint == after.fingerprint and before == after:
        return f"{name}: as before"
    accuracy = ["no labels" if one.accuracy is None else f"{one.accuracy:.2%}" for one in (before, after)]
    sizes = bytes_texts(before.size, after.size)
    return f"{name}: size {' → '.join(sizes)}, accuracy {' → '.join(accuracy)}"


def _left(name: str, file: Path) -> str:
    """A hint for a bundle that the baseline has and the project does not declare."""
    return f"{name}: kept, but the project declares no such bundle: delete its entry in {file.name} if it is gone"


def _updated(file: Path, candidates: Sequence[Candidate], judged: Sequence[Judged]) -> tuple[str, ...]:
    """Writes the bundles that pass to the baseline, and returns their names."""
    passing = {one.name: opened(candidate) for candidate, one in zip(candidates, judged, strict=True) if one.passed}
    if passing:
        write_baseline(file, passing)
    return tuple(passing)
