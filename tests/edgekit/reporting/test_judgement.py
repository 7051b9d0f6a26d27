import json
from pathlib import Path
from typing import Any

import pytest

from edgekit.bundle import read_bundle
from edgekit.reporting.comparison import comparison_rows
from edgekit.reporting.judgement import Weight, judge


@pytest.fixture
def manifest(bundle: Path) -> dict[str, Any]:
    """The manifest of a bundle without problems."""
    found: dict[str, Any] = dict(read_bundle(bundle).manifest)
    found["latency"].update(ratio=0.5, ratio_interval=[0.49, 0.51])
    for stage in found["stages"]:
        stage["record"].pop("warnings", None)
    return found


def verdicts(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = next(
        stage["record"]["verdicts"] for stage in manifest["stages"] if stage["name"] == "check operators"
    )
    return groups


def reasons(manifest: dict[str, Any], weight: Weight) -> list[str]:
    return [finding.text for finding in judge(manifest)[1] if finding.weight is weight]


def test_nothing_speaks_against_it(manifest: dict[str, Any]) -> None:
    weight, findings = judge(manifest)
    assert weight is Weight.GOOD
    assert {finding.weight for finding in findings} == {Weight.GOOD}
    assert any(text.startswith("It takes 0.50 times as long") for text in reasons(manifest, Weight.GOOD))
    assert any("takes all" in text for text in reasons(manifest, Weight.GOOD))


def test_what_a_converter_takes_is_not_what_the_device_runs(manifest: dict[str, Any]) -> None:
    first, *others = verdicts(manifest)
    total = sum(len(group["nodes"]) for group in (first, *others))
    assert f"Operators: the target's compiler takes all {total} nodes." in reasons(manifest, Weight.GOOD)
    for group in others:
        group["evidence"] = "registry"
    assert (
        f"Operators: all {total} nodes are taken: {total - len(first['nodes'])} by the converter, "
        f"{len(first['nodes'])} by the target's compiler; the device decides on which unit they run."
    ) in reasons(manifest, Weight.GOOD)
    first["evidence"] = "registry"
    assert (f"Operators: the converter takes all {total} nodes; the device decides on which unit they run.") in reasons(
        manifest, Weight.GOOD
    )


def test_reservations(manifest: dict[str, Any]) -> None:
    manifest["latency"]["ratio"] = 2.0
    manifest["accuracy"]["data"]["kind"] = "seeded"
    manifest["stages"][0]["record"]["warnings"] = ["mind the gap"]
    verdicts(manifest)[0]["support"] = "falls back"
    assert judge(manifest)[0] is Weight.CAUTION
    texts = " ".join(reasons(manifest, Weight.CAUTION))
    assert "2.00 times as long" in texts
    assert "random inputs" in texts
    assert "Mind the gap" in texts
    assert "fall back" in texts
    manifest["target"]["runs_here"] = False
    assert manifest["check"]["command"] in " ".join(reasons(manifest, Weight.CAUTION))


def test_an_unsteady_latency_is_a_reservation_whatever_its_ratio_is(manifest: dict[str, Any]) -> None:
    manifest["latency"]["ratio_interval"] = [0.4, 4.0]
    text = "Its latency was unsteady, 0.40 to 4.00 times the original's, as when other programs run."
    assert f"{text} `edgekit bench` measures it again." in reasons(manifest, Weight.CAUTION)
    assert not any("time" in reason for reason in reasons(manifest, Weight.GOOD))


def test_what_is_not_supported_does_not_ship(manifest: dict[str, Any]) -> None:
    group = verdicts(manifest)[0]
    group["support"] = "unsupported"
    weight, findings = judge(manifest)
    assert weight is findings[0].weight is Weight.BAD
    assert f"{len(group['nodes'])} of " in findings[0].text


def test_comparison(manifest: dict[str, Any]) -> None:
    other = json.loads(json.dumps(manifest))
    other["size"]["bytes"] = manifest["size"]["bytes"] * 2
    other["latency"]["ratio"] = 0.25
    other["accuracy"]["task"] = {**manifest["accuracy"]["task"], "built": 0.5}
    manifest["accuracy"]["task"]["built"] = 0.75
    rows = {row[0]: row[1:] for row in comparison_rows(manifest, other)}
    assert rows["size"][-1] == "×0.50"
    assert rows["P50 latency, times the original's"][-1] == "×2.00"
    assert rows["labels found"] == ("75.00%", "50.00%", "+25.00 points")
    other["latency"]["executed_by"] = "something else"
    rows = {row[0]: row[1:] for row in comparison_rows(manifest, other)}
    assert rows["P50 latency, times the original's"][-1] == "", "times of different runtimes do not relate"
