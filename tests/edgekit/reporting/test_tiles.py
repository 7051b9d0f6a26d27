"""The four figures at the head of a report."""

from __future__ import annotations

from typing import Any

import pytest

from edgekit.reporting.tiles import tiles


def manifest_with(**accuracy: Any) -> dict[str, Any]:
    """A manifest of three samples without labels, whose time nothing measured."""
    return {
        "size": {"bytes": 1000, "source_bytes": 4000, "ratio": 0.25},
        "latency": {"of_device": False},
        "accuracy": {"task": None, "data": {"kind": "samples", "samples": 3}, **accuracy},
        "stages": [],
    }


def test_a_time_that_nothing_measured_names_what_measures_it() -> None:
    """A bundle's check times nothing by itself."""
    output = {"name": "y", "sqnr_db": 40.0, "worst_sample_db": 30.0, "worst_sample": 1, "exact": False}
    time = tiles(manifest_with(outputs=[output]))[1]
    assert (time.value, time.note) == (
        "not measured",
        "`edgekit bench BUNDLE --device DEVICE` measures it on the device",
    )


def test_an_unsteady_time_is_told_with_its_interval() -> None:
    manifest = manifest_with(
        outputs=[{"name": "y", "sqnr_db": 40.0, "worst_sample_db": 30.0, "worst_sample": 1, "exact": False}]
    )
    built, reference = {"p50_ms": 8.37}, {"p50_ms": 0.0937}
    latency = {"of_device": True, "ratio": 89.3, "built": built, "reference": reference, "ratio_interval": [3.0, 260.0]}
    time = tiles({**manifest, "latency": latency})[1]
    assert (time.value, time.note) == ("8.37 ms", "unsteady: 3.00 to 260.00 times the original's")


@pytest.mark.parametrize(
    ("others", "value", "note"),
    [
        ([{"name": "boxes", "worst_sample_db": 30.0, "mismatch": 0.9}], "30.0 dB", "SQNR of the worst of 3 samples"),
        (
            [{"name": "classes", "worst_sample_db": None, "mismatch": 0.25}],
            "75.00%",
            "of the worst output's elements equal on 3 samples",
        ),
        ([], "not compared", "scores: too small on these inputs to compare"),
    ],
)
def test_an_output_that_is_too_small_to_compare_is_no_figure(
    others: list[dict[str, Any]], value: str, note: str
) -> None:
    vanished = {"name": "scores", "worst_sample_db": "-inf", "mismatch": 1.0}
    manifest = manifest_with(outputs=[vanished, *others], vanished=["scores"])
    accuracy = tiles(manifest)[2]
    assert (accuracy.value, accuracy.note) == (value, note)
