from __future__ import annotations

import math
from pathlib import Path

import pytest

from edgekit.bundle import read_bundle
from edgekit.config import Budget
from edgekit.quality_gate.baseline import MachineRatio
from edgekit.quality_gate.latency import (
    NO_ORIGINAL,
    EarlierRatios,
    Rivals,
    Stopwatch,
    judge_latency,
    precise_enough,
    ratio_text,
)
from edgekit.quality_gate.machine import Machine
from edgekit.quality_gate.measuring import Ratio

HERE, THERE = Machine("A", 2, "Linux x86_64"), Machine("B", 8, "Darwin arm64")
GROWTH = Budget(latency_growth=0.05)


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (Ratio(0.7, 0.695, 0.7071, 14, 0.54), "0.700 (0.695 – 0.707), 14 pairs in 0.5 s"),
        (Ratio(0.7, 0.0, math.inf, 3, 60.0), "0.700 (0.000 – ∞), 3 pairs in 60.0 s"),
        (Ratio(0.7, 0.8, 0.6, 90, 9.0), "0.700, changing while it was measured, 90 pairs in 9.0 s"),
    ],
)
def test_ratios_in_words(ratio: Ratio, text: str) -> None:
    assert ratio_text(ratio) == text


def test_how_exact_a_baseline_is() -> None:
    assert precise_enough(Ratio(1.0, 0.991, 1.009, 50, 1.0))
    assert not precise_enough(Ratio(1.0, 0.98, 1.009, 50, 1.0))
    assert not precise_enough(Ratio(1.0, 1.001, 0.999, 50, 1.0))


def test_one_measurement_settles_all_limits_of_the_original(packaged_digits: Path, digits: Path) -> None:
    known = EarlierRatios(HERE, MachineRatio(HERE, 0.01, 0.01, 0.01), (HERE,))
    budget = Budget(latency_ratio=100, latency_growth=0.05)
    verdicts, ratios = judge_latency(
        read_bundle(packaged_digits), budget, False, Rivals(digits, baseline=known), Stopwatch(60)
    )
    assert [(verdict.budget, verdict.limit, verdict.outcome) for verdict in verdicts] == [
        ("latency", "at most 100.00 of the float model's", "kept"),
        ("latency growth", "at most 5.0% above 0.010 (0.010 – 0.010)", "broken"),
    ]
    (ratio,) = ratios
    assert {verdict.found for verdict in verdicts} == {ratio_text(ratio)}


@pytest.mark.parametrize(
    ("asked", "elsewhere", "found"),
    [
        (False, (), []),
        (True, (), ["the baseline was measured on no machine, not on A, 2 processors, Linux x86_64"]),
        (
            False,
            (THERE,),
            ["the baseline was measured on B, 8 processors, Darwin arm64, not on A, 2 processors, Linux x86_64"],
        ),
    ],
)
def test_a_baseline_that_knows_no_such_machine(
    packaged_digits: Path, asked: bool, elsewhere: tuple[Machine, ...], found: list[str]
) -> None:
    rivals = Rivals(baseline=EarlierRatios(HERE, None, elsewhere))
    verdicts, ratios = judge_latency(read_bundle(packaged_digits), GROWTH, asked, rivals, Stopwatch(1))
    assert [(verdict.found, verdict.outcome) for verdict in verdicts] == [(text, "inconclusive") for text in found]
    assert ratios == []


def test_a_limit_without_the_original_does_not_pass(packaged_digits: Path) -> None:
    verdicts, ratios = judge_latency(
        read_bundle(packaged_digits), Budget(latency_ratio=100), False, Rivals(), Stopwatch(1)
    )
    assert [(verdict.found, verdict.outcome) for verdict in verdicts] == [(NO_ORIGINAL, "broken")]
    assert ratios == []


def test_nothing_is_measured_that_nobody_asks_for(packaged_digits: Path, digits: Path) -> None:
    assert judge_latency(read_bundle(packaged_digits), Budget(), False, Rivals(digits), Stopwatch(1)) == ([], [])
