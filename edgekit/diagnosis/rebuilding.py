"""Values inside a model on a device whose runtime does not show them: the model is built again with them as outputs.

The graph is cut behind the requested values, which become its outputs, and the target builds it as it built the bundle.
That takes a build and a transfer to the device, and works wherever bundles do.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgekit.bundle import MANIFEST, Bundle, feature_record
from edgekit.comparison.layers import with_outputs
from edgekit.device import Device
from edgekit.errors import UnsupportedOpsError
from edgekit.files.atomic import temporary_folder
from edgekit.model import Arrays, Model
from edgekit.registry import find_profile
from edgekit.target import Artifact, BuildOptions, Profile, Target


def shown_by_rebuilding(
    device: Device, bundle: Bundle, graph: Model, feeds: Mapping[str, np.ndarray], names: Sequence[str]
) -> Arrays:
    """Returns values inside the graph by name, executed by the device, without those that the target cannot return.

    Args:
        device: The device that executes the graph.
        bundle: The bundle, which determines the target, the profile and the precision.
        graph: The graph to build.
        feeds: One sample.
        names: Values that nodes of the main graph compute.

    Raises:
        UnsupportedOpsError: The target cannot build the graph.
        RequirementError: The device fails, or cannot run what was built.
        InputError: The target is not installed, or the device cannot be reached.
    """
    target, profile = find_profile(bundle.profile_name)
    wanted = list(names)
    while wanted:
        with temporary_folder() as folder:
            try:
                built = _build(target, profile, bundle, with_outputs(graph, wanted), folder)
            except UnsupportedOpsError as error:
                refused = {gap.node for gap in error.gaps}
                if refused.isdisjoint(wanted):
                    raise
                wanted = [name for name in wanted if name not in refused]
                continue
            with device.open(built) as session:
                needed = {feature.name for feature in built.inputs}
                return dict(session.run({name: array for name, array in feeds.items() if name in needed}))
    return {}


def _build(target: Target, profile: Profile, bundle: Bundle, graph: Model, folder: Path) -> Bundle:
    """A bundle without golden data, for the device to run."""
    artifact = target.build(graph, profile, folder, BuildOptions(precision=bundle.manifest["model"]["precision"]))
    for name, text in target.device_check(profile, artifact).files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8", newline="\n")
    manifest = {**bundle.manifest, **_described(artifact, bundle, folder)}
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    return Bundle(folder, manifest)


def _described(artifact: Artifact, bundle: Bundle, folder: Path) -> dict[str, Any]:
    return {
        "model": {**bundle.manifest["model"], "main": artifact.main.relative_to(folder).as_posix()},
        "inputs": [feature_record(feature) for feature in artifact.inputs],
        "outputs": [feature_record(feature) for feature in artifact.outputs],
    }
