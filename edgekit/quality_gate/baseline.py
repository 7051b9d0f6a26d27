"""The baseline: an earlier build that later ones are compared with, in the project's repository.

It is a file of figures, ``baseline.json``, and next to it the folder ``baseline-bundles`` with the bundles themselves,
named by their fingerprints. A later build and the kept one are measured alternately on the same machine.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote

from edgekit.bundle import Bundle, is_bundle
from edgekit.errors import InputError
from edgekit.files.atomic import atomic_directory, atomic_file, locked, require_writable
from edgekit.files.copying import copy_folder
from edgekit.files.regular_file import read_json, real_path
from edgekit.schema import find_flaw

BASELINE_VERSION = 3
SCHEMA_FILE = "baseline.schema.json"
_CHOSEN_WITH = "--baseline"
_SHOWN_OF_FINGERPRINT = 16
_KEPT_NAME = re.compile(rf"[0-9a-f]{{{_SHOWN_OF_FINGERPRINT}}}")


@dataclass(frozen=True)
class Figures:
    """The figures of a bundle when the baseline was written."""

    fingerprint: str
    """The bundle's fingerprint."""
    size: int
    accuracy: float | None
    """Share of labels that the bundle finds; None without labels."""

    @classmethod
    def of(cls, bundle: Bundle) -> Figures:
        """The figures in a bundle's manifest; its latency is measured elsewhere."""
        task = bundle.manifest["accuracy"]["task"]
        return cls(
            bundle.manifest["fingerprint"],
            bundle.manifest["size"]["bytes"],
            None if task is None else task["built"],
        )


def kept_bundle(file: Path, figures: Figures) -> Path:
    """Where the baseline at ``file`` keeps the bundle of these figures."""
    return _kept_bundles(file) / figures.fingerprint[:_SHOWN_OF_FINGERPRINT]


def read_baseline(path: Path) -> dict[str, Figures]:
    """The figures that :func:`write_baseline` wrote, by the bundle's name.

    Raises:
        InputError: The file is missing or is no baseline.
    """
    if not os.path.lexists(path):
        raise InputError(
            "there is no baseline",
            subject=path,
            hint=f"`edgekit gate --baseline {quote(str(path))} --update` writes one",
        )
    document = read_json(path)
    flaw = find_flaw(document, SCHEMA_FILE)
    if flaw is not None:
        raise InputError(
            "is not a baseline",
            subject=path,
            expected=f"what schema version {BASELINE_VERSION} describes",
            found=flaw,
            hint="if another version of EdgeKit wrote it, remove it and write it anew with --update",
        )
    return {name: Figures(**record) for name, record in document["bundles"].items()}


def require_baseline_writable(path: Path) -> None:
    """Checks, before bundles are judged, that the baseline can be written.

    Raises:
        InputError: The file exists and is no baseline, or cannot be written.
    """
    if os.path.lexists(path):
        read_baseline(path)
    require_writable(path, chosen_with=_CHOSEN_WITH)
    require_writable(_kept_bundles(path) / "bundle", chosen_with=_CHOSEN_WITH)


def write_baseline(path: Path, bundles: Mapping[str, Bundle]) -> None:
    """Puts bundles and their figures into a baseline, by the bundle's name; entries of other bundles stay.

    Commands that write at the same time wait for each other, so that none deletes what another one wrote.

    Raises:
        InputError: The file exists and is no baseline, or cannot be written.
    """
    with locked(path):
        _write_baseline(path, bundles)


def _write_baseline(path: Path, bundles: Mapping[str, Bundle]) -> None:
    figures = {
        **(read_baseline(path) if os.path.lexists(path) else {}),
        **{name: Figures.of(bundle) for name, bundle in bundles.items()},
    }
    for bundle in bundles.values():
        place = kept_bundle(path, Figures.of(bundle))
        if real_path(bundle.path) != real_path(place):
            with atomic_directory(place, what="bundle", may_replace=_is_own, chosen_with=_CHOSEN_WITH) as folder:
                copy_folder(bundle.path, folder)
    document = {
        "schema_version": BASELINE_VERSION,
        "bundles": {name: asdict(figures[name]) for name in sorted(figures)},
    }
    with atomic_file(path, chosen_with=_CHOSEN_WITH) as place:
        place.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    _remove_replaced(path, figures)


def _is_own(place: Path) -> bool:
    """Whether a folder among the kept bundles is a bundle: by its manifest, or by its name if that is damaged."""
    return is_bundle(place) or _KEPT_NAME.fullmatch(place.name) is not None


def _kept_bundles(file: Path) -> Path:
    return file.with_name(f"{file.stem}-bundles")


def _remove_replaced(file: Path, figures: Mapping[str, Figures]) -> None:
    """Removes the kept bundles that the baseline no longer names."""
    named = {kept_bundle(file, known).name for known in figures.values()}
    for place in _kept_bundles(file).iterdir():
        if place.name not in named and place.is_dir() and _is_own(place):
            shutil.rmtree(place)
