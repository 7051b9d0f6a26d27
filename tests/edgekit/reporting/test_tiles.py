"""The four figures at the head of a report."""

from __future__ import annotations

from edgekit.reporting.tiles import tiles


def test_a_time_that_nothing_measured_names_what_measures_it() -> None:
    """A bundle's check times nothing by itself."""
    manifest = {
        "size": {"bytes": 1000, "source_bytes": 4000, "ratio": 0.25},
        "latency": {"of_device": False},
        "accuracy": {
            "task": None,
            "data": {"kind": "samples", "samples": 3},
            "outputs": [{"name": "y", "sqnr_db": 40.0, "worst_sample_db": 30.0, "worst_sample": 1, "exact": False}],
        },
        "stages": [],
    }
    time = tiles(manifest)[1]
    assert (time.value, time.note) == (
        "not measured",
        "`edgekit bench BUNDLE --device DEVICE` measures it on the device",
    )
