"""Builds the bundles of a project; those that are up to date stay as they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import partial

from edgekit.bundle import Bundle, check_integrity, read_bundle
from edgekit.comparison.custom_metric import Evaluation
from edgekit.config import Config, DeclaredBundle
from edgekit.errors import EdgeKitError, InputError
from edgekit.files.atomic import remove_abandoned
from edgekit.packaging.pipeline import PackageRequest, package
from edgekit.processes.workers import Explain, Failure, run_jobs
from edgekit.progress import Progress
from edgekit.registry import canonical_of
from edgekit.stages.soundness import blamed_on_model
from edgekit.terminal.board import Board


@dataclass(frozen=True)
class ProjectBundle:
    """A bundle of the project after a build."""

    declared: DeclaredBundle
    bundle: Bundle | None
    """None where the build failed."""
    skipped: bool = False
    """Whether it was up to date already."""
    failure: Failure | None = None


def build_project(
    config: Config, board: Board, explain: Explain, *, jobs: int | None = None, force: bool = False
) -> list[ProjectBundle]:
    """Builds what is declared, each bundle in a process of its own. One that fails does not end the others.

    Args:
        config: The project.
        board: Told how it goes.
        explain: Makes an error that people can read of whatever a build raised; can be pickled.
        jobs: How many are built at a time; by default one for every two processors.
        force: Build what is up to date as well.

    Returns:
        One for each, in the order of their declarations.

    Raises:
        InputError: Nothing is declared.
    """
    if not config.bundles:
        raise InputError(
            "declares no bundle",
            subject=config.path,
            expected="[[bundle]] with name, model and target",
            hint='for instance name = "digits-ios", model = "digits.onnx", target = "ios18"',
        )
    results = {declared.name: _unless_up_to_date(declared, explain, force) for declared in config.bundles}
    requests = {name: result for name, result in results.items() if isinstance(result, PackageRequest)}
    try:
        with board:
            work = [(name, partial(_package, request)) for name, request in requests.items()]
            failures = run_jobs(work, jobs or default_jobs(), board, explain)
    finally:
        for folder in {request.output.parent for request in requests.values()}:
            remove_abandoned(folder)
    return [
        result if isinstance(result, ProjectBundle) else _built(declared, failures[declared.name])
        for declared in config.bundles
        for result in [results[declared.name]]
    ]


def default_jobs() -> int:
    """One for every two processors: the runtimes take more than one each now and then."""
    return max(1, (os.cpu_count() or 1) // 2)


def request_for(declared: DeclaredBundle) -> PackageRequest:
    """What to package for a declared bundle.

    Raises:
        InputError: Its metric cannot be found.
    """
    return PackageRequest(
        model=declared.model,
        target=declared.target,
        output=declared.output,
        name=declared.name,
        data=declared.data,
        verify_data=declared.verify_data,
        quantize=declared.quantize,
        quantizer=declared.quantizer,
        max_drop=declared.max_drop,
        floor_db=declared.floor,
        accept=declared.accept,
        evaluation=None if declared.metric is None else Evaluation(declared.metric, declared.folder),
        precision=declared.precision,
        shapes=declared.shapes,
        labels=declared.labels,
        preprocessing=declared.preprocessing,
        shares_preprocessing=declared.shares_preprocessing,
        outputs=declared.outputs,
        states=declared.states,
        target_options=declared.options,
        also=declared.also,
        witness=declared.witness,
    )


def _unless_up_to_date(declared: DeclaredBundle, explain: Explain, force: bool) -> ProjectBundle | PackageRequest:
    """The request that is to be packaged, or what came of a bundle that needs no building or cannot be built."""
    try:
        request = request_for(declared)
        existing = None if force else _up_to_date(request)
    except Exception as error:  # a project's own metric is foreign code; the other bundles are built all the same
        return ProjectBundle(declared, None, failure=Failure.of(explain(error)))
    return request if existing is None else ProjectBundle(declared, existing, skipped=True)


def _package(request: PackageRequest, progress: Progress) -> None:
    """The job of one process."""
    with blamed_on_model(request.model):
        package(request, progress)


def _built(declared: DeclaredBundle, failure: Failure | None) -> ProjectBundle:
    return ProjectBundle(declared, None if failure else read_bundle(declared.output), failure=failure)


def _up_to_date(request: PackageRequest) -> Bundle | None:
    """The bundle that is there, if it is whole and was made from the same."""
    try:
        bundle = read_bundle(request.output)
        check_integrity(bundle, canonical_of(bundle.profile_name))
    except EdgeKitError:  # missing, damaged or of another version: it is built anew, and what is wrong shows there
        return None
    return bundle if bundle.manifest["fingerprint"] == request.fingerprint() else None
