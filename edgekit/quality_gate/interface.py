"""Compares what apps rely on with an earlier build: inputs, outputs, sizes, states, classes and preprocessing.

A change of these does not show in any figure: a model whose labels were swapped, or whose output has another name, is
as accurate, small and fast as before, but every app that loads it gives wrong results or fails.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from edgekit.bundle import Bundle
from edgekit.features.dimensions import shape_text, written
from edgekit.quality_gate.latency import EarlierBuild
from edgekit.quality_gate.verdict import Outcome, Verdict
from edgekit.target import Feature

INTERFACE = "interface"
_SHOWN = 3
"""Most differences that are listed one by one."""


def judge_interface(bundle: Bundle, earlier: EarlierBuild) -> Iterator[Verdict]:
    """A broken verdict if the interface for apps differs from that of the earlier build; none if it is the same.

    Args:
        bundle: The bundle to judge.
        earlier: The earlier build; if its bundle is missing, the verdict is inconclusive and says why.
    """
    limit = f"that of {earlier.whose} bundle"
    if isinstance(earlier.bundle, str):
        yield Verdict(INTERFACE, limit, earlier.bundle, Outcome.INCONCLUSIVE)
        return
    differences = list(_differences(bundle, earlier.bundle))
    if differences:
        more = [f"{len(differences) - _SHOWN} more"] if len(differences) > _SHOWN else []
        text = "; ".join([*differences[:_SHOWN], *more])
        found = f"{text} ({earlier.accepting})" if earlier.accepting else text
        yield Verdict(INTERFACE, limit, found, Outcome.BROKEN)


def _differences(now: Bundle, before: Bundle) -> Iterator[str]:
    for what, features, others in (
        ("input", now.inputs, before.inputs),
        ("output", now.outputs, before.outputs),
    ):
        yield from _of_features(what, features, others)
    if now.states != before.states:
        yield f"states were {json.dumps(dict(before.states))} and are {json.dumps(dict(now.states))}"
    if now.open_dims != before.open_dims:
        yield f"open sizes were {_sizes_text(before)} and are {_sizes_text(now)}"
    yield from _of_labels(now.manifest["labels"], before.manifest["labels"])
    earlier, later = before.manifest.get("classes"), now.manifest.get("classes")
    if earlier is not None and later is not None and any(earlier[key] != later[key] for key in earlier.keys() & later):
        yield f"classes were read from {_classes_text(earlier)} and are from {_classes_text(later)}"
    yield from _of_preprocessing(now.manifest["preprocessing"], before.manifest["preprocessing"])


def _of_features(what: str, now: Sequence[Feature], before: Sequence[Feature]) -> Iterator[str]:
    """The features that changed, at each position: in the model's names and types, or in those of the build."""
    for one, other in zip_longest(now, before):
        if one != other:
            yield f"{what} {_feature_text(other)} is {_feature_text(one)}"


def _feature_text(feature: Feature | None) -> str:
    if feature is None:
        return "none"
    text = f"{feature.name}: {feature.dtype} {shape_text(feature.shape)}"
    own = (feature.native_name, feature.native_dtype, feature.native_shape)
    if own == (feature.name, feature.dtype, feature.shape):
        return text
    return f"{text} (built as {own[0]}: {own[1]} {shape_text(own[2])})"


def _of_labels(now: Sequence[str] | None, before: Sequence[str] | None) -> Iterator[str]:
    if (now or []) == (before or []):
        return
    if now and before and len(now) == len(before):
        places = [place for place, (one, other) in enumerate(zip(now, before, strict=True)) if one != other]
        first = places[0]
        yield f"{len(places)} of {len(now)} labels differ, the first is {first}: {before[first]!r} is {now[first]!r}"
    else:
        yield f"there were {len(before or [])} labels and are {len(now or [])}"


def _classes_text(classes: Mapping[str, Any]) -> str:
    """The output that tells the class, and what its numbers mean if that is known."""
    scores = classes["scores"]
    kind = "class numbers" if scores is None else str(scores)
    if "scale" in classes:
        kind += f", scale {classes['scale']}, zero point {classes['zero_point']}"
    if "numbers" in classes:
        kind += f" {', '.join(map(str, classes['numbers']))}"
    return f"output {classes['output']!r} ({kind})"


def _of_preprocessing(now: dict[str, Any] | None, before: dict[str, Any] | None) -> Iterator[str]:
    if now == before:
        return
    if now is None or before is None:
        yield "there was no preprocessing" if before is None else "there is no preprocessing any more"
        return
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    texts = [f"{key} was {json.dumps(before.get(key))} and is {json.dumps(now.get(key))}" for key in keys]
    yield f"preprocessing: {', '.join(texts)}"


def _sizes_text(bundle: Bundle) -> str:
    return ", ".join(f"{dim}={written(sizes)}" for dim, sizes in bundle.open_dims.items()) or "none"
