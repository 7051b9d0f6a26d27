"""Builds the bundles of a project, except those that are up to date."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from edgekit.bundle import Bundle, check_integrity, read_bundle
from edgekit.config import Config, DeclaredBundle
from edgekit.data.samples import require_data_folder
from edgekit.errors import EdgeKitError, InputError
from edgekit.files.atomic import remove_abandoned
from edgekit.packaging.candidates import Choice
from edgekit.packaging.declared import request_for
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.processes.workers import Explain, Failure, run_jobs
from edgekit.progress import Progress
from edgekit.project.keys import KeysInWarnings, explained_with_keys
from edgekit.quality_gate.baseline import kept_bundle, read_baseline
from edgekit.quantizer import ChoiceError
from edgekit.registry import canonical_of, find_profile
from edgekit.reporting.summary import summary_record
from edgekit.stages.soundness import blamed_on_model
from edgekit.terminal.board import Board


@dataclass(frozen=True)
class ProjectBundle:
    """A bundle of the project after a build."""

    declared: DeclaredBundle
    bundle: Bundle | None
    """None if the build failed."""
    skipped: bool = False
    """Whether the bundle was up to date already."""
    failure: Failure | None = None
    seconds: float = 0.0
    """How long the bundle's process took; 0 if none was started, or if it was interrupted."""

    def as_record(self) -> dict[str, Any]:
        """Plain data for ``--json``: what was built, or the error."""
        record = {"bundle": str(self.declared.output), "skipped": self.skipped}
        if self.failure is not None:
            error = {"exit_code": self.failure.exit_code, **self.failure.record}
            return {**record, "name": self.declared.name, "target": self.declared.target, "error": error}
        return record | ({} if self.bundle is None else summary_record(self.bundle.manifest))


class InterruptedBuildError(KeyboardInterrupt):
    """A build was interrupted; the bundles that had been built before stay."""

    def __init__(self, message: str, results: list[ProjectBundle], ended: Collection[str]) -> None:
        super().__init__(message)
        self.results = results
        """One result for each declared bundle; a bundle whose build had not ended failed with the interruption."""
        self.ended = frozenset(ended)
        """The names of the bundles whose build had ended: built, up to date, or failed for another reason."""


def build_project(
    config: Config, board: Board, explain: Explain, *, jobs: int | None = None, force: bool = False
) -> list[ProjectBundle]:
    """Builds the declared bundles, each in its own process. A bundle that fails does not end the others.

    Which of several candidates is the fastest changes from run to run if they are nearly equally fast. Therefore an
    earlier bundle with the same fingerprint decides which candidate ships: the bundle that is replaced, or else that of
    the baseline.

    Args:
        config: The project.
        board: Receives the progress of the builds.
        explain: Turns whatever a build raised into an error that people can read; can be pickled.
        jobs: How many bundles are built at a time; by default one for every two processors.
        force: Build bundles that are up to date as well.

    Returns:
        One result for each bundle, in the order of their declarations.

    Raises:
        InputError: Nothing is declared, or a bundle names a device twice.
        InterruptedBuildError: Somebody pressed Ctrl-C or asked the process to end.
    """
    if not config.bundles:
        raise InputError(
            "declares no bundle",
            subject=config.path,
            expected="[[bundle]] with name, model and target",
            hint='for instance name = "digits-ios", model = "digits.onnx", target = "ios18"',
        )
    _require_each_device_once(config)
    explain = partial(explained_with_keys, explain)
    baseline = config.gate.baseline
    results = {declared.name: _unless_up_to_date(declared, baseline, explain, force) for declared in config.bundles}
    requests = {name: result for name, result in results.items() if isinstance(result, PackageRequest)}
    ended: dict[str, tuple[Failure | None, float]] = {}

    def all_results(otherwise: Failure | None = None) -> list[ProjectBundle]:
        """The results of all bundles; ``otherwise`` is the failure of those whose build has not ended."""
        return [
            result
            if isinstance(result, ProjectBundle)
            else _built(declared, *ended.get(declared.name, (otherwise, 0.0)))
            for declared in config.bundles
            for result in [results[declared.name]]
        ]

    try:
        with board:
            for name, result in results.items():
                if isinstance(result, ProjectBundle) and result.failure is not None:
                    board.started(name)
                    board.finished(name, 0.0, result.failure.text)
            work = [(name, partial(_package, request)) for name, request in requests.items()]
            run_jobs(
                work,
                jobs or default_jobs(),
                board,
                explain,
                ended=lambda name, failure, seconds: ended.update({name: (failure, seconds)}),
            )
    except KeyboardInterrupt as interrupt:
        message = str(interrupt) or "interrupted"
        unfinished = Failure.of(InputError("was not built", found=message, hint="run it again to go on"))
        names = {name for name in results if name in ended or name not in requests}
        raise InterruptedBuildError(message, all_results(unfinished), names) from interrupt
    finally:
        for folder in {request.output.parent for request in requests.values()}:
            remove_abandoned(folder)
    return all_results()


def _require_each_device_once(config: Config) -> None:
    """Refuses two names of one device in a bundle's ``targets``: both would be the same bundle.

    Raises:
        InputError: A bundle names a device twice.
    """
    named: dict[tuple[str, str], str] = {}
    for declared in config.bundles:
        try:
            _, profile = find_profile(declared.target)
        except EdgeKitError:  # reported later, as the failure of this bundle
            continue
        first = named.setdefault((declared.declared_as, profile.name), declared.target)
        if first != declared.target:
            raise InputError(
                "names a device twice",
                subject=f"{config.path} bundle {declared.declared_as}",
                expected="each device once in targets",
                found=f"{first!r} and {declared.target!r}, which are both {profile.name}",
            )


def default_jobs() -> int:
    """One job for every two processors, since a runtime uses more than one processor at times."""
    return max(1, (os.cpu_count() or 1) // 2)


def _unless_up_to_date(
    declared: DeclaredBundle, baseline: Path | None, explain: Explain, force: bool
) -> ProjectBundle | PackageRequest:
    """The request to package a bundle; or the result, if the bundle is up to date or cannot be built."""
    try:
        for key, name in (("target", declared.target), *(("also", other) for other in declared.also)):
            find_profile(name, f"{declared.file} bundle {declared.name} {key}")
        request = request_for(declared)
        for data in (request.data, request.verify_data):
            if data is not None and not data.is_file():
                require_data_folder(data)
        fingerprint = request.fingerprint()
        existing = None if force else _up_to_date(request, fingerprint)
        if existing is None:
            request = replace(request, like=_earlier_choice(request, fingerprint, baseline))
    except Exception as error:  # a project's own metric may raise anything; the other bundles are still built
        return ProjectBundle(declared, None, failure=Failure.of(explain(error)))
    return request if existing is None else ProjectBundle(declared, existing, skipped=True)


def _package(request: PackageRequest, progress: Progress) -> None:
    """Packages one bundle; the job of one process."""
    progress = KeysInWarnings(progress)
    with blamed_on_model(request.model):
        try:
            package(request, progress)
        except ChoiceError as error:
            if request.like is None:
                raise
            # The candidates tried depend on times, and on the instruction sets that the machine executes.
            progress.warn(
                f"{error.expected!r}, which shipped before, does not hold the budget now: another candidate is chosen"
            )
            package(replace(request, like=None), progress)


def _earlier_choice(request: PackageRequest, fingerprint: str, baseline: Path | None) -> Choice | None:
    """The choice recorded in an earlier bundle with the same fingerprint; None if there is no such bundle."""
    for bundle in _earlier_bundles(request, baseline):
        if bundle.manifest["fingerprint"] == fingerprint:
            return Choice.of(bundle)
    return None


def _earlier_bundles(request: PackageRequest, baseline: Path | None) -> Iterator[Bundle]:
    """The bundle that is replaced and the one that the baseline keeps, as far as they can be read."""
    with suppress(EdgeKitError):
        yield read_bundle(request.output)
    if baseline is not None:
        with suppress(EdgeKitError, KeyError):
            yield read_bundle(kept_bundle(baseline, read_baseline(baseline)[str(request.name)]))


def _built(declared: DeclaredBundle, failure: Failure | None, seconds: float) -> ProjectBundle:
    bundle = None if failure else read_bundle(declared.output)
    return ProjectBundle(declared, bundle, failure=failure, seconds=seconds)


def _up_to_date(request: PackageRequest, fingerprint: str) -> Bundle | None:
    """The existing bundle if it is intact and has this fingerprint; else None."""
    try:
        bundle = read_bundle(request.output)
        check_integrity(bundle, canonical_of(bundle.profile_name))
    except EdgeKitError:  # missing, damaged or of another version: it is built again, which shows what is wrong
        return None
    return bundle if bundle.manifest["fingerprint"] == fingerprint else None
