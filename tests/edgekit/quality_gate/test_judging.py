from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.comparison.decisions.label_accuracy import TaskAccuracy
from edgekit.config import Budget
from edgekit.config.values import parse_fraction
from edgekit.quality_gate.baseline import Figures
from edgekit.quality_gate.judging import judge_further_builds, judge_growth, judge_manifest


def manifest(**operators: Any) -> dict[str, Any]:
    return {
        "size": {"bytes": 1000},
        "accuracy": {"task": {"built": 0.9, "drop": 0.02}, "outputs": [{"worst_sample_db": 30.0}]},
        "stages": [{"name": "check operators", "record": operators}],
    }


@pytest.mark.parametrize(
    ("budget", "kept", "text"),
    [
        (Budget(size=1000), True, "size: 1 kB, at most 1 kB"),
        (Budget(size=999), False, "size: 1 kB, at most 999 B"),
        (Budget(accuracy=0.9), True, "accuracy: 90.00%, at least 90.00%"),
        (Budget(accuracy=0.91), False, "accuracy: 90.00%, at least 91.00%"),
        (Budget(accuracy_drop=0.02), True, "accuracy drop: 2.00%, at most 2.00%"),
        (Budget(accuracy_drop=0.01), False, "accuracy drop: 2.00%, at most 1.00%"),
        (Budget(sqnr_db=30), True, "worst output: 30.0 dB, at least 30.0 dB"),
        (Budget(sqnr_db=31), False, "worst output: 30.0 dB, at least 31.0 dB"),
        (
            Budget(accelerator_share=0.95),
            True,
            "on the accelerator: 95.00% on NPU (evidence: table), at least 95.00% of the nodes",
        ),
        (
            Budget(accelerator_share=0.96),
            False,
            "on the accelerator: 95.00% on NPU (evidence: table), at least 96.00% of the nodes",
        ),
        (Budget(partitions=3), True, "partitions: 3 (evidence: table), at most 3"),
        (Budget(partitions=2), False, "partitions: 3 (evidence: table), at most 2"),
    ],
)
def test_each_budget_by_itself(budget: Budget, kept: bool, text: str) -> None:
    told = manifest(accelerator="NPU", accelerator_share=0.95, partitions=3, unit_evidence="table")
    (verdict,) = judge_manifest(Bundle(Path("bundle"), told), budget)
    assert (verdict.outcome == "kept") is kept
    assert f"{verdict.budget}: {verdict.found}, {verdict.limit}" == text


@pytest.mark.parametrize(
    ("budget", "labelled", "kept", "texts"),
    [
        (Budget(), False, True, ["m:auc: 0.93, 0.95 of the original"]),
        (Budget(accuracy_drop=0.03), False, True, ["m:auc: 0.93, at most 3.00% of 0.95 lost"]),
        (Budget(accuracy_drop=0.02), False, False, ["m:auc: 0.93, at most 2.00% of 0.95 lost"]),
        (
            Budget(accuracy_drop=0.02),
            True,
            True,
            ["m:auc: 0.93, 0.95 of the original", "accuracy drop: 2.00%, at most 2.00%"],
        ),
    ],
)
def test_a_metric_of_the_project_is_told_and_judged_where_no_labels_are(
    budget: Budget, labelled: bool, kept: bool, texts: list[str]
) -> None:
    told = manifest()
    evaluation = {"metric": "m:auc", "reference": 0.95, "built": 0.93, "drop": 0.02 / 0.95}
    told["stages"].append({"name": "verify", "record": {"evaluation": evaluation}})
    told["accuracy"]["task"] = told["accuracy"]["task"] if labelled else None
    verdicts = list(judge_manifest(Bundle(Path("bundle"), told), budget))
    assert [f"{verdict.budget}: {verdict.found}, {verdict.limit}" for verdict in verdicts] == texts
    assert all(verdict.outcome == "kept" for verdict in verdicts) is kept


def test_a_budget_in_numbers() -> None:
    def figure(budget: Budget) -> dict[str, Any]:
        (verdict,) = judge_manifest(Bundle(Path("bundle"), manifest()), budget)
        return verdict.as_record()["figure"]

    bounds = {"lower": None, "upper": None}
    assert figure(Budget(size=999)) == {"key": "size", "unit": "bytes", "limit": 999, "value": 1000, **bounds}
    assert figure(Budget(accuracy_drop=0.01)) == {
        "key": "accuracy_drop",
        "unit": "share",
        "limit": 0.01,
        "value": 0.02,
        **bounds,
    }
    assert figure(Budget(partitions=2)) == {"key": "partitions", "unit": "pieces", "limit": 2, "value": None, **bounds}


def test_what_was_not_measured_does_not_pass() -> None:
    unmeasured = manifest()
    unmeasured["accuracy"] = {"task": None, "outputs": [{"worst_sample_db": None}]}
    budget = Budget(accuracy=0.0, accuracy_drop=1.0, sqnr_db=0, accelerator_share=0.0, partitions=1000)
    assert {
        verdict.found: verdict.outcome for verdict in judge_manifest(Bundle(Path("bundle"), unmeasured), budget)
    } == {
        "not measured: the samples had no labels": "broken",
        "no floating-point output": "broken",
        "not known: the bundle's check of operators does not record where nodes run": "broken",
    }


@pytest.mark.parametrize(("db", "told", "outcome"), [("inf", "exact", "kept"), ("-inf", "nothing right", "broken")])
def test_no_text_has_infinite_decibels(db: str, told: str, outcome: str) -> None:
    built = manifest()
    built["accuracy"]["outputs"] = [{"name": "y", "worst_sample_db": db}]
    (verdict,) = judge_manifest(Bundle(Path("bundle"), built), Budget(sqnr_db=30))
    assert (verdict.found, verdict.outcome) == (told, outcome)


def test_an_output_that_is_too_small_to_compare_breaks_no_budget() -> None:
    told = manifest()
    scores = {"name": "scores", "worst_sample_db": "-inf"}
    told["accuracy"] |= {"outputs": [{"name": "boxes", "worst_sample_db": 30.0}, scores], "vanished": ["scores"]}
    (verdict,) = judge_manifest(Bundle(Path("bundle"), told), Budget(sqnr_db=30))
    assert (verdict.outcome, verdict.found) == ("kept", "30.0 dB")
    told["accuracy"]["outputs"] = [scores]
    (verdict,) = judge_manifest(Bundle(Path("bundle"), told), Budget(sqnr_db=30))
    assert (verdict.outcome, verdict.found) == ("broken", "scores: too small on these inputs to compare")


def test_each_further_build_is_judged(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    """A budget that the first build alone kept was kept."""
    import edgekit

    text = "f (float[1, 4] x) => (float[1, 4] y) { y = Relu (x) }"
    bundle = edgekit.package(onnx_file(text), "ios18", tmp_path / "b", also=["onnxruntime"])
    sizes = [build.manifest["size"]["bytes"] for build in bundle.builds]
    assert sizes[0] > sizes[1]
    asked = Budget(size=sizes[1] - 1, sqnr_db=20, accelerator_share=0.5)  # where nodes run is known of no further build
    verdicts = list(judge_further_builds(bundle, asked))
    assert [(each.budget, str(each.outcome)) for each in verdicts] == [
        ("size for onnxruntime", "broken"), ("worst output for onnxruntime", "kept"),
    ]  # fmt: skip


def test_nothing_is_judged_that_is_not_asked() -> None:
    assert list(judge_manifest(Bundle(Path("bundle"), manifest()), Budget())) == []


def test_the_download_is_what_the_device_loads_compressed(packaged_digits: Path, tmp_path: Path) -> None:
    bundle = read_bundle(packaged_digits)
    with zipfile.ZipFile(tmp_path / "app.zip", "w", zipfile.ZIP_DEFLATED) as app:
        app.write(bundle.main)
        zipped = sum(member.compress_size for member in app.infolist())
    assert zipped < bundle.manifest["size"]["bytes"]
    kept, broken = (next(judge_manifest(bundle, Budget(download=round(zipped * share)))) for share in (1.01, 0.99))
    assert (kept.budget, kept.outcome, broken.outcome) == ("download", "kept", "broken")
    assert kept.found == f"{zipped / 1000:.4g} kB compressed"


def test_a_size_that_is_a_few_bytes_over_its_budget_does_not_read_as_kept() -> None:
    told = {**manifest(), "size": {"bytes": 4_521_300, "source_bytes": 9_000_000, "ratio": 0.5}}
    (verdict,) = judge_manifest(Bundle(Path("bundle"), told), Budget(size=4_521_004))
    assert (verdict.outcome, verdict.found, verdict.limit) == ("broken", "4,521,300 B", "at most 4,521,004 B")


def test_growth_over_an_earlier_build() -> None:
    earlier = Figures("a" * 64, 1000, 0.9)

    def outcomes(size: int, accuracy: float | None) -> dict[str, str]:
        figures = Figures("b" * 64, size, accuracy)
        return {verdict.budget: verdict.outcome for verdict in judge_growth(figures, Budget(), earlier)}

    assert outcomes(1010, 0.895) == {"size growth": "kept", "accuracy fall": "kept"}
    assert outcomes(1011, 0.894) == {"size growth": "broken", "accuracy fall": "broken"}
    assert outcomes(500, None) == {"size growth": "kept", "accuracy fall": "broken"}
    without = Figures("a" * 64, 1000, None)
    silent = [(verdict.budget, verdict.found, verdict.outcome) for verdict in judge_growth(without, Budget(), without)]
    assert silent[1:] == [("accuracy fall", "the samples of neither build had labels", "not compared")]
    asked = judge_growth(earlier, Budget(accuracy_fall=0.01), without)  # stays a check, and says what it lacks
    assert [(verdict.budget, verdict.found, verdict.outcome) for verdict in asked][1:] == [
        ("accuracy fall", "the earlier build has no accuracy: its samples had no labels", "inconclusive")
    ]


@pytest.mark.parametrize("found", range(1, 101))
def test_a_loss_of_exactly_the_limit_keeps_the_budget(found: int) -> None:
    """One of 100 labels is 1%, whatever floating point makes of the difference of two shares."""
    task = TaskAccuracy("y", found / 100, (found - 1) / 100)
    earlier, now = Figures("a" * 64, 1000, found / 100), Figures("b" * 64, 1000, (found - 1) / 100)
    for limit, kept in (("1%", True), ("0.99%", False)):
        share = parse_fraction(limit)
        built = manifest()
        for drop in (task.drop, task.reference - task.built):  # as recorded now, and by older versions
            built["accuracy"]["task"] = {"built": task.built, "drop": drop}
            (verdict,) = judge_manifest(Bundle(Path("bundle"), built), Budget(accuracy_drop=share))
            assert (verdict.outcome == "kept") is kept
        _, fall = judge_growth(now, Budget(accuracy_fall=share), earlier)
        assert (fall.outcome == "kept") is kept


@pytest.mark.parametrize("found", range(126, 251))
def test_an_accuracy_of_exactly_the_limit_keeps_the_budget(found: int) -> None:
    built = manifest()
    built["accuracy"]["task"] = {"built": found / 250, "drop": 0.0}
    for tenths, kept in ((4 * found, True), (4 * found + 1, False))[: 1 if found == 250 else 2]:
        least = parse_fraction(f"{tenths // 10}.{tenths % 10}%")
        (verdict,) = judge_manifest(Bundle(Path("bundle"), built), Budget(accuracy=least))
        assert (verdict.outcome == "kept") is kept


@pytest.mark.parametrize(
    ("budget", "text"),
    [
        (Budget(sqnr_db=30.04), "30.02 dB, at least 30.04 dB"),
        (Budget(accuracy=0.90003), "90.002%, at least 90.003%"),
        (Budget(accuracy_drop=0.0), "0.004%, at most 0.00%"),
    ],
)
def test_a_figure_that_misses_its_limit_by_little_does_not_read_as_the_limit(budget: Budget, text: str) -> None:
    built = manifest()
    built["accuracy"] = {"task": {"built": 0.90002, "drop": 4e-5}, "outputs": [{"worst_sample_db": 30.02}]}
    (verdict,) = judge_manifest(Bundle(Path("bundle"), built), budget)
    assert (f"{verdict.found}, {verdict.limit}", verdict.outcome) == (text, "broken")
