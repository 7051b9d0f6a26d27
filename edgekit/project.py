"""Builds the bundles of a project; those that are up to date stay as they are."""

from __future__ import annotations

from dataclasses import dataclass

from edgekit.bundle import Bundle, check_integrity, read_bundle
from edgekit.config import Config, DeclaredBundle
from edgekit.errors import EdgeKitError, InputError
from edgekit.evaluation import Evaluation
from edgekit.pipeline import PackageRequest, package
from edgekit.progress import Progress


@dataclass(frozen=True)
class ProjectBundle:
    """A bundle of the project after a build."""

    bundle: Bundle
    skipped: bool
    """Whether it was up to date already."""


def build_project(config: Config, progress: Progress, *, force: bool = False) -> list[ProjectBundle]:
    """Builds what is declared, in order.

    Args:
        config: The project.
        progress: Told of the stages.
        force: Build what is up to date as well.

    Raises:
        InputError: Nothing is declared, or a bundle's model or data do not fit.
        RequirementError: A model does not meet what was asked; the bundles before it are built.
    """
    if not config.bundles:
        raise InputError(
            "declares no bundle",
            subject=config.path,
            expected="[[bundle]] with name, model and target",
            hint='for instance name = "digits-ios", model = "digits.onnx", target = "ios18"',
        )
    return [_built(declared, progress, force) for declared in config.bundles]


def request_for(declared: DeclaredBundle) -> PackageRequest:
    """What to package for a declared bundle."""
    return PackageRequest(
        model=declared.model,
        target=declared.target,
        output=declared.output,
        name=declared.name,
        data=declared.data,
        verify_data=declared.verify_data,
        quantize=declared.quantize,
        max_drop=declared.max_drop,
        evaluation=None if declared.metric is None else Evaluation(declared.metric, declared.folder),
        precision=declared.precision,
        shapes=declared.shapes,
        labels=declared.labels,
        preprocessing=declared.preprocessing,
        target_options=declared.options,
    )


def _built(declared: DeclaredBundle, progress: Progress, force: bool) -> ProjectBundle:
    request = request_for(declared)
    existing = None if force else _up_to_date(request)
    if existing is not None:
        return ProjectBundle(existing, skipped=True)
    return ProjectBundle(package(request, progress), skipped=False)


def _up_to_date(request: PackageRequest) -> Bundle | None:
    """The bundle that is there, if it is whole and was made from the same."""
    try:
        bundle = read_bundle(request.output)
        check_integrity(bundle)
    except EdgeKitError:  # missing, damaged or of another version: it is built anew, and what is wrong shows there
        return None
    return bundle if bundle.manifest["fingerprint"] == request.fingerprint() else None
