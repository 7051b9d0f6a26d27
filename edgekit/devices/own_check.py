"""EdgeKit's own check in place of the check in a bundle: code from a bundle is never run.

A bundle is data that somebody sent. The check in it is for people who run it by hand on a device. When EdgeKit opens a
bundle, on this machine or on a device that it connects to, it writes the check anew beside the bundle's model.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from edgekit.bundle import MANIFEST, Bundle, feature_record
from edgekit.errors import RequirementError
from edgekit.files.atomic import temporary_folder
from edgekit.registry import find_profile
from edgekit.target import Artifact, Profile

_CODE = frozenset({".py", ".pyc", ".pyo", ".pyw", ".pyd", ".so", ".dylib", ".dll"})
"""Suffixes of files that Python would import from the folder of the program that it runs."""

_BUILD = "build"
"""The name of the stage that writes the artifact."""


@contextmanager
def with_own_check(bundle: Bundle) -> Iterator[Bundle]:
    """A copy of the bundle in a temporary folder: links to its files except code, and the installed target's check.

    The copy of a build of several is that of a bundle with this build alone.

    Raises:
        InputError: The target that built the bundle is not installed.
        RequirementError: The model that the device would load is code.
    """
    _require_no_code(bundle)
    target, profile = find_profile(bundle.profile_name)
    artifact = Artifact(
        bundle.main, (bundle.main,), bundle.inputs, bundle.outputs, dimensions=bundle.open_dims, record=_built(bundle)
    )
    check = target.device_check(profile, artifact)
    with temporary_folder() as folder:
        for file in sorted(bundle.path.rglob("*")):
            if file.is_file() and file.suffix.lower() not in _CODE:
                _link(file, folder / file.relative_to(bundle.path))
        for name, text in {**check.files, MANIFEST: json.dumps(dict(bundle.manifest))}.items():
            place = folder / name
            place.unlink(missing_ok=True)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(text, encoding="utf-8", newline="\n")
        yield replace(bundle, path=folder)


def draft_bundle(artifact: Artifact, profile: Profile, folder: Path) -> Bundle:
    """Returns an artifact as a bundle that devices can open before one is written: in memory, without golden data.

    Args:
        artifact: The artifact.
        profile: The device that the artifact was built for.
        folder: The folder that the artifact was built in.
    """
    manifest = {
        "name": profile.name,
        "target": {"profile": profile.name},
        "model": {"main": artifact.main.relative_to(folder).as_posix()},
        "inputs": [feature_record(feature) for feature in artifact.inputs],
        "outputs": [feature_record(feature) for feature in artifact.outputs],
    }
    return Bundle(folder, manifest)


def _require_no_code(bundle: Bundle) -> None:
    """Raises a RequirementError if the model itself is a program, which would be left out of the copy."""
    model = bundle.manifest["model"]
    code = [name for name in model.get("files", [model["main"]]) if PurePosixPath(name).suffix.lower() in _CODE]
    if code:
        raise RequirementError(
            "what the device would load is code, and code of a bundle is not run",
            subject=bundle.path,
            found=", ".join(code),
            hint="the check in the bundle does that by hand, on a device of your own",
        )


def _built(bundle: Bundle) -> Mapping[str, Any]:
    """The manifest's record of the build that ships; empty for a bundle that is not written yet."""
    records = [stage["record"] for stage in bundle.manifest.get("stages", ()) if stage["name"] == _BUILD]
    return records[-1] if records else {}


def _link(file: Path, place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        place.symlink_to(file.resolve())
    except OSError:  # Windows lets few users make links
        shutil.copyfile(file, place)
