from __future__ import annotations

import math
from pathlib import Path

import pytest

from edgekit.bundle import read_bundle
from edgekit.config import Budget
from edgekit.quality_gate.latency import (
    NO_ORIGINAL,
    EarlierBuild,
    LatencyReferences,
    Stopwatch,
    judge_latency,
    ratio_text,
)
from edgekit.quality_gate.measuring import Ratio


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(0.7, 0.695, 0.7071, 14, 14, 0.54), "0.700 (0.695 – 0.707), 14 pairs in 0.5 s"),
        (
            Ratio(0.7, 0.0, math.inf, 3, 3, 60.0),
            "0.700, from too few or too uneven measurements for bounds, 3 pairs in 60.0 s",
        ),
        (Ratio(0.7, 0.6, math.inf, 9, 9, 60.0), "0.700 (0.600 – ∞), 9 pairs in 60.0 s"),
        (Ratio(0.7, 0.8, 0.6, 90, 30, 9.0), "0.700, changing while it was measured, 90 pairs in 9.0 s"),
    ],
)
def test_ratios_in_words(ratio: Ratio, text: str) -> None:
    assert ratio_text(ratio) == text


def test_the_original_and_the_earlier_build_are_both_compared_with(packaged_digits: Path, digits: Path) -> None:
    bundle = read_bundle(packaged_digits)
    rivals = LatencyReferences(digits, EarlierBuild("main's", bundle))
    verdicts, ratios = judge_latency(bundle, Budget(latency_ratio=100, latency_growth=0.05), rivals, Stopwatch(60))
    assert [(verdict.budget, verdict.limit, verdict.outcome) for verdict in verdicts] == [
        ("latency", "at most 100.00 times the float model's", "kept"),
        ("latency growth", "at most 5.0% above main's", "kept"),
    ]
    (ratio,) = ratios
    assert ratio.as_record()["budget"] == "latency_ratio"
    record = verdicts[0].as_record()["figure"]
    assert (record["key"], record["unit"], record["limit"]) == ("latency_ratio", "ratio", 100)
    assert (record["lower"], record["value"], record["upper"]) == (ratio.lower, ratio.median, ratio.upper)
    assert [verdict.found for verdict in verdicts] == [ratio_text(ratio), "the same model files"]


@pytest.mark.parametrize("asked", [Budget(), Budget(latency_growth=0.05)])
def test_a_baseline_without_its_bundle_stays_a_check(packaged_digits: Path, asked: Budget) -> None:
    rivals = LatencyReferences(earlier=EarlierBuild("the baseline's", "is not at hand"))
    verdicts, ratios = judge_latency(read_bundle(packaged_digits), asked, rivals, Stopwatch(1))
    assert [(verdict.limit, verdict.found, verdict.outcome) for verdict in verdicts] == [
        (
            "at most 5.0% above the baseline's",
            "is not at hand",
            "inconclusive",
        )
    ]
    assert ratios == []


def test_a_limit_without_the_original_does_not_pass(packaged_digits: Path) -> None:
    verdicts, ratios = judge_latency(
        read_bundle(packaged_digits), Budget(latency_ratio=100), LatencyReferences(), Stopwatch(1)
    )
    assert [(verdict.found, verdict.outcome) for verdict in verdicts] == [(NO_ORIGINAL, "broken")]
    assert ratios == []


def test_nothing_is_measured_that_nobody_asks_for(packaged_digits: Path, digits: Path) -> None:
    assert judge_latency(read_bundle(packaged_digits), Budget(), LatencyReferences(digits), Stopwatch(1)) == ([], [])
