"""Compares a bundle with its declaration in the project file: the bundle that is judged may be an older one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

from edgekit.bundle import Bundle
from edgekit.config import DeclaredBundle
from edgekit.data.digest import samples_digest
from edgekit.data.labels import read_class_names
from edgekit.errors import InputError
from edgekit.features.dimensions import defaults
from edgekit.graph.sizes.shape_request import at_sizes
from edgekit.packaging.declared import request_for
from edgekit.preprocessing import resolve_preprocessing
from edgekit.quality_gate.source import source_files
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.registry import find_profile

DECLARATION = "declaration"
"""The name of the verdicts here, in place of a budget: they are on the bundle itself."""
_LIMIT = "as the project file declares the bundle"
_OF = {"model": "from it", "labels": "with its names"}


def require_declared_target(bundle: Bundle, declared: DeclaredBundle) -> None:
    """Checks that a bundle was built for the device that is declared.

    Raises:
        InputError: The bundle was built for another device, or there is no device of the declared name.
    """
    _, profile = find_profile(declared.target, f"{declared.file} bundle {declared.name} target")
    if profile.name != bundle.profile_name:
        raise InputError(
            "was built for another target",
            subject=bundle.path,
            expected=f"{profile.name}, as the project file declares it",
            found=bundle.profile_name,
            hint="`edgekit build` builds it again",
        )


def judge_declaration(bundle: Bundle, declared: DeclaredBundle) -> Iterator[Verdict]:
    """Verdicts if the bundle is not, or may not be, what the project file declares; none if it is.

    Raises:
        InputError: The file of class names cannot be read.
    """
    models = [("model", file) for file, _ in source_files(bundle, declared.model)]
    for what, file in (*(models if declared.model.is_file() else models[:1]), ("labels", declared.labels)):
        if file is not None and not file.is_file():
            found = f"{file} is not there, so it cannot be checked whether the bundle is made {_OF[what]}"
            yield Verdict(DECLARATION, _LIMIT, found, Outcome.NOT_COMPARED)
    others = [
        *_other_options(bundle, declared),
        *_other_samples(bundle, declared),
        *_other_names(bundle, declared),
        *_other_input(bundle, declared),
    ]
    if others:
        found = f"{'; '.join(others)}: `edgekit build` builds it again"
        yield Verdict(DECLARATION, _LIMIT, found, Outcome.INCONCLUSIVE)


def _other_options(bundle: Bundle, declared: DeclaredBundle) -> Iterator[str]:
    recorded = bundle.manifest["options"]
    # The metric's module is the project's own code, which the gate does not execute.
    asked = {**request_for(replace(declared, metric=None)).options(), "metric": declared.metric}
    plain = json.loads(json.dumps(asked))
    for key in dict.fromkeys((*plain, *recorded)):  # a manifest leaves some options out that were not given
        was, now = recorded.get(key), plain.get(key)
        if was != now and not (_is_unset(was) and _is_unset(now)):
            yield _other(key, was, now)


def _is_unset(value: object) -> bool:
    """Whether an option was not given: null, false, or an empty list or object."""
    return value is None or value is False or value in ([], {})


def _other_samples(bundle: Bundle, declared: DeclaredBundle) -> Iterator[str]:
    """The samples that differ from the declared ones, if the bundle records samples and the declared ones exist here.

    Samples that are not declared are not compared: the bundle's may come from a command line.
    """
    recorded = bundle.manifest.get("samples")
    if recorded is None:
        return
    for key, place in (("data", declared.data), ("verify_data", declared.verify_data)):
        if place is None:
            continue
        try:
            new = samples_digest(place)
        except InputError as error:
            yield f"{place} ({key}) cannot be read: {error.message}"
            continue
        if new not in (None, recorded.get(key)):
            yield f"{place} ({key}) does not hold the samples that the bundle was made with"


def _other_names(bundle: Bundle, declared: DeclaredBundle) -> Iterator[str]:
    """The first difference from a declared file of class names; without one, names may come from the model's file."""
    if declared.labels is None or not declared.labels.is_file():
        return
    recorded, names = bundle.manifest["labels"] or (), read_class_names(declared.labels)
    if len(recorded) != len(names):
        yield f"labels were {len(recorded)} names, and {declared.labels} has {len(names)}"
        return
    for number, (old, new) in enumerate(zip(recorded, names, strict=True)):
        if old != new:
            yield _other(f"the name of class {number}", old, new)
            return


def _other_input(bundle: Bundle, declared: DeclaredBundle) -> Iterator[str]:
    """The differences from a declared preprocessing; without one, it may come from the model's file."""
    preprocessing = declared.preprocessing
    if preprocessing is None:
        return
    inputs = at_sizes([feature.spec for feature in bundle.inputs], defaults(bundle.open_dims))
    try:
        resolve_preprocessing(preprocessing, inputs)
    except InputError as error:
        if not declared.shares_preprocessing:  # a declaration for all bundles is ignored if it does not fit
            yield f"preprocessing does not fit the bundle: {error.message}"
        return
    recorded = bundle.manifest["preprocessing"] or {}
    asked = preprocessing.as_record()
    if recorded.get("kind") != asked["kind"]:
        yield _other("preprocessing", recorded.get("kind"), asked["kind"])
        return
    for key, value in asked.items():  # settings that are omitted follow from the model's input
        if recorded.get(key) != value:
            yield _other(f"preprocessing {key}", recorded.get(key), value)


def _other(what: str, recorded: object, declared: object) -> str:
    was, asked = (json.dumps(value, ensure_ascii=False) for value in (recorded, declared))
    return f"{what} was {was}, and {asked} is declared"
