from __future__ import annotations

from edgekit.comparison.acceptance.trade_off import curve_lines, loss_text

POINT = {
    "candidate": "integers",
    "metric": "accuracy",
    "value": 0.9802,
    "float_value": 0.99,
    "drop": 0.0098,
    "sqnr_db": 31.26,
    "latency_ms": 2.0,
    "float_latency_ms": 3.0,
    "weight_bytes": 72_210,
}


def test_candidates_stand_below_one_another() -> None:
    other = {
        "candidate": "weights only",
        "metric": "scores:map",
        "value": 41.25,
        "float_value": 41.0,
        "drop": -0.0061,
        "sqnr_db": "inf",
        "latency_ms": None,
        "float_latency_ms": None,
        "weight_bytes": 2_815_000,
    }
    assert curve_lines([POINT, other]) == [
        "candidate     metric       value   float    lost     SQNR  times as fast  weights",
        "integers      accuracy    98.02%  99.00%   0.98%  31.3 dB           1.50  72.2 kB",
        "weights only  scores:map   41.25      41  -0.61%    exact              -   2.8 MB",
    ]


def test_the_head_that_loses_the_most_is_named() -> None:
    heads = {"root": {"kept": 0.9902, "decisions": 500}, "bass": {"kept": 1.0, "decisions": 500}}
    (_, line) = curve_lines([{**POINT, "heads": heads, "head": "root"}])
    assert "0.98% of root" in line


def test_a_small_loss_is_not_hidden() -> None:
    assert [loss_text(drop) for drop in (0.0, 0.0123, 0.0000468, -0.0000468)] == [
        "0.00%",
        "1.23%",
        "0.0047%",
        "-0.0047%",
    ]
