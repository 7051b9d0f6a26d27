"""The bundles of a project file: each completed by the defaults, one for each of its targets."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from edgekit.errors import InputError
from edgekit.suggestions import did_you_mean

BUNDLES_FOLDER = "bundles"
"""The folder beside ``edgekit.toml`` for bundles whose ``output`` is not declared."""

_TARGETS = {"target", "targets"}
_OWN_KEYS = {"name", "output", "preprocessing", "outputs", "budget"}
"""Keys that ``[defaults]`` may not hold."""
_SHARED_KEYS = {"name", *_TARGETS, "overrides"}
"""Keys that overrides for a target may not hold."""
_OVERRIDES = (0, 2)
"""Which of a bundle's layers are overrides for one target, whose `output` is that target's alone."""


def completed_bundles(document: Mapping[str, Any], path: Path) -> Iterator[dict[str, Any]]:
    """The tables of the bundles, completed by ``[defaults]``, one for each of their targets.

    The first table that has a key gives its value: the bundle's overrides for the target, the bundle, the overrides of
    the defaults for the target, the defaults. ``budgets`` holds the ``budget`` tables of all these in this order.

    Raises:
        InputError: A bundle has no model or no target, or has both ``target`` and ``targets``; the defaults hold a key
            that they may not hold; or overrides are for a target without a bundle, or hold a key that all targets
            share.
    """
    defaults = dict(document.get("defaults", {}))
    own = sorted(_OWN_KEYS & defaults.keys())
    if own:
        raise InputError("belongs to a bundle or to the whole file", subject=f"{path} [defaults]", found=", ".join(own))
    defaults_for = defaults.pop("overrides", {})
    used: set[str] = set()
    for bundle in document.get("bundle", ()):
        own_for = bundle.get("overrides", {})
        subject = f"{path} bundle {bundle['name']}"
        targets = _targets(bundle if _TARGETS & bundle.keys() else defaults, subject)
        _require_made_for(own_for, targets, f"{subject} overrides")
        used.update(targets)
        for target in targets:
            layers = [own_for.get(target, {}), bundle, defaults_for.get(target, {}), defaults]
            yield _completed(layers, target, subject)
    if used:
        _require_made_for(defaults_for, used, f"{path} [defaults] overrides")


def _targets(table: Mapping[str, Any], subject: str) -> Sequence[str]:
    """The targets of a bundle.

    Raises:
        InputError: The table has neither ``target`` nor ``targets``, or both.
    """
    given = _TARGETS & table.keys()
    if len(given) != 1:
        what = "has target and targets" if given else "has no target"
        expected = "one of them" if given else "target or targets, in the bundle or in [defaults]"
        raise InputError(what, subject=subject, expected=expected)
    targets: Sequence[str] = [table["target"]] if "target" in table else table["targets"]
    return targets


def _require_made_for(overrides: Mapping[str, Any], targets: Collection[str], subject: str) -> None:
    """Refuses overrides for a target that is not among ``targets``, and overrides of keys that all targets share.

    Raises:
        InputError: There are such overrides.
    """
    for target, override in overrides.items():
        shared = sorted(_SHARED_KEYS & override.keys())
        if shared:
            raise InputError("is the same for all targets", subject=f"{subject}.{target}", found=", ".join(shared))
        if target not in targets:
            raise InputError(
                "there is no bundle for this target",
                subject=subject,
                expected=", ".join(sorted(targets)),
                found=target,
                hint=did_you_mean(target, targets),
            )


def _completed(layers: Sequence[Mapping[str, Any]], target: str, subject: str) -> dict[str, Any]:
    """One bundle's table, combined from several tables of which the first takes precedence.

    Raises:
        InputError: No table names a model.
    """
    table: dict[str, Any] = {}
    for layer in reversed(layers):
        table |= layer
    if "model" not in table:
        raise InputError("has no model", subject=subject, expected="model, in the bundle or in [defaults]")
    several = "targets" in table and "target" not in layers[1]
    name = table["name"]
    declares_output = next((place for place, layer in enumerate(layers) if "output" in layer), None)
    if several and declares_output not in _OVERRIDES:
        table["output"] = f"{table.get('output', f'{BUNDLES_FOLDER}/{name}')}-{target}"
    return {
        **{key: value for key, value in table.items() if key not in {"targets", "overrides", "budget"}},
        "name": f"{name}-{target}" if several else name,
        "target": target,
        "declared_as": name,
        "budgets": [layer["budget"] for layer in layers if "budget" in layer],
    }
