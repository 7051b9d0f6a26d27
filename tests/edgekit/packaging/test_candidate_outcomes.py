"""What is told of candidates that did not ship."""

from __future__ import annotations

import pytest

from edgekit.packaging.candidates import CandidateOutcome, CandidateOutcomes


def test_a_trial_over_the_budget_is_told_with_both_figures() -> None:
    told = CandidateOutcomes()
    trial = {"metric": "accuracy", "value": 0.9, "float_value": 0.95, "drop": 0.05, "sqnr_db": 20.0, "weight_bytes": 10}
    slow = {**trial, "drop": 0.0, "latency_ms": 2.0, "float_latency_ms": 1.0}
    curve = [{"candidate": "a", **trial}, {"candidate": "b", **slow}, {"candidate": "c", **trial, "drop": 0}]
    curve.append({"candidate": "in doubt", **slow, "is_slower": False})
    heads = {"root": {"kept": 0.95, "decisions": 100}, "age": {"kept": 0.95, "decisions": None}}
    curve.append({"candidate": "of heads", **trial, "heads": heads, "head": "root"})
    curve.append({"candidate": "of quantities", **trial, "heads": heads, "head": "age"})
    decoder = {"a": {"kept": 0.95, "decisions": 16, "inside": True}}
    curve.append({"candidate": "of a decoder", **trial, "heads": decoder, "head": "a"})
    curve.append({"candidate": "of trees", **slow, "weight_bytes": 0, "float_weight_bytes": 0})
    lost = "class 3 is kept at 0 of its 40 places (overlap 0.00, at least 0.5)"
    curve.append({"candidate": "of classes", **trial, "value": 0.0, "drop": 0.95, "count": 60, "lost_class": lost})
    curve.append({"candidate": "of a signal", **trial, "metric": "explained"})
    few = {**trial, "metric": "agreement", "value": 0.984, "drop": 0.016, "count": 32}
    curve += [{"candidate": "of few", **few}, {"candidate": "counted", **few, "drop": 0.0625}]
    told.measured({"max_drop": 0.01, "curve": curve})
    told.record("c", CandidateOutcome.SHIPS)
    rows = told.as_record()
    another_path = "take another path, since the model continues with"
    assert [(row["candidate"], row["fate"], row["reason"]) for row in rows] == [
        ("a", "refused", "5.00% of accuracy lost, 1.00% is allowed"),
        ("b", "refused", "slower than the float model"),
        ("c", "ships", ""),
        ("in doubt", "not needed", ""),
        ("of heads", "refused", "5.00% of the decisions of output 'root' lost, 1.00% is allowed"),
        ("of quantities", "refused", "5.00% of the signal of output 'age' lost, 1.00% is allowed"),
        ("of a decoder", "refused", f"5.00% of the runs {another_path} its own choice 'a'; 1.00% is allowed"),
        ("of trees", "refused", "no weights that could be stored in fewer bits"),
        ("of classes", "refused", lost),
        ("of a signal", "refused", "5.00% of the signal lost, 1.00% is allowed"),
        ("of few", "refused", "1.60% of 32 decisions lost, 1.00% is allowed"),
        ("counted", "refused", "2 of 32 decisions lost (the budget 1 % allows 0)"),
    ]
    assert rows[0]["sqnr_db"] == 20.0


@pytest.mark.parametrize(
    ("size", "of_float", "told"),
    [
        (4_521_300, 4_521_004, "4,521,300 B in place of 4,521,004 B"),  # a few bytes apart: in bytes
        (396, 396, "396 B each"),
    ],
)
def test_why_a_candidate_is_no_smaller_is_told_in_sizes(size: int, of_float: int, told: str) -> None:
    outcomes = CandidateOutcomes("the model as it came")
    trial = {"candidate": "a", "metric": "accuracy", "value": 1.0, "float_value": 1.0, "drop": 0.0, "sqnr_db": 20.0}
    outcomes.measured({"curve": [{**trial, "weight_bytes": size, "float_weight_bytes": of_float}]})
    (row,) = outcomes.as_record()
    assert row["reason"] == f"no smaller than the model as it came: {told}"
