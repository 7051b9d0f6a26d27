"""What apps rely on is held against an earlier build, whatever the figures say."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.quality_gate.interface import judge_interface
from edgekit.quality_gate.latency import EarlierBuild
from edgekit.quality_gate.verdict import Outcome

Change = Callable[[dict[str, Any]], object]


def changed(bundle: Bundle, change: Change) -> Bundle:
    manifest = copy.deepcopy(dict(bundle.manifest))
    change(manifest)
    return replace(bundle, manifest=manifest)


def test_the_same_interface_has_no_row(packaged_digits: Path) -> None:
    bundle = read_bundle(packaged_digits)
    assert not list(judge_interface(bundle, EarlierBuild("the baseline's", bundle)))
    smaller = changed(bundle, lambda manifest: manifest["size"].update(bytes=1))
    assert not list(judge_interface(smaller, EarlierBuild("the baseline's", bundle)))


def test_an_interface_that_nothing_tells_is_not_clear(packaged_digits: Path) -> None:
    (verdict,) = judge_interface(read_bundle(packaged_digits), EarlierBuild("the baseline's", "it is not kept"))
    assert (verdict.budget, verdict.found, verdict.outcome) == ("interface", "it is not kept", Outcome.INCONCLUSIVE)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (
            lambda manifest: manifest["outputs"][0].update(name="proba"),
            "output logits: float32 1×10 is proba: float32 1×10 (built as logits: float32 1×10)",
        ),
        (
            lambda manifest: manifest["outputs"][0].update(native_dtype="float16"),
            "output logits: float32 1×10 is logits: float32 1×10 (built as logits: float16 1×10)",
        ),
        (
            lambda manifest: manifest["outputs"].append({**manifest["outputs"][0], "name": "more"}),
            "output none is more: float32 1×10 (built as logits: float32 1×10)",
        ),
        (
            lambda manifest: manifest.update(labels=["1", "0", *map(str, range(2, 10))]),
            "2 of 10 labels differ, the first is 0: '0' is '1'",
        ),
        (lambda manifest: manifest.update(labels=["a"]), "there were 10 labels and are 1"),
        (lambda manifest: manifest.update(labels=None), "there were 10 labels and are 0"),
        (
            lambda manifest: manifest["preprocessing"].update(mean=[0.5]),
            "preprocessing: mean was [0.1307] and is [0.5]",
        ),
        (lambda manifest: manifest.update(preprocessing=None), "there is no preprocessing any more"),
        (
            lambda manifest: manifest["classes"].update(scores="probabilities"),
            "classes were read from output 'logits' (logits) and are from output 'logits' (probabilities)",
        ),
        (
            lambda manifest: manifest["classes"].update(output="label", scores=None),
            "classes were read from output 'logits' (logits) and are from output 'label' (class numbers)",
        ),
    ],
)
def test_what_an_app_would_find_otherwise_breaks(packaged_digits: Path, change: Change, found: str) -> None:
    bundle = changed(read_bundle(packaged_digits), lambda manifest: manifest.update(labels=[*map(str, range(10))]))
    (verdict,) = judge_interface(changed(bundle, change), EarlierBuild("the baseline's", bundle))
    assert (verdict.budget, verdict.limit, verdict.outcome) == (
        "interface",
        "that of the baseline's bundle",
        Outcome.BROKEN,
    )
    assert found in verdict.found
    assert verdict.found.endswith("(--update takes it over)")


def test_another_bundle_is_no_baseline_that_takes_anything_over(packaged_digits: Path) -> None:
    bundle = read_bundle(packaged_digits)
    other = changed(bundle, lambda manifest: manifest.update(preprocessing=None))
    (verdict,) = judge_interface(other, EarlierBuild("other", bundle, accepting=""))
    assert verdict.found == "there is no preprocessing any more"
