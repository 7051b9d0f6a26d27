from collections.abc import Callable
from pathlib import Path

import openvino
import pytest

from edgekit.bundle import read_bundle
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.timing import latency

DigitsBundle = Callable[[str, str], Path]


def test_a_runtime_that_would_choose_another_precision_is_measured_in_that_too(digits_bundle: DigitsBundle) -> None:
    own = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
    if own == "f32":
        pytest.skip("this CPU computes in float32 by default")
    pinned, chosen = bench_bundle(read_bundle(digits_bundle("digits-intel-cpu", "none")))
    assert pinned.settings["precision"] == "f32"
    assert chosen.settings["precision"] == own
    assert chosen.name == f"{pinned.name} in {own}"
    assert f", CPU, {own}, 1 thread" in chosen.executed_by


def test_medians_lie_in_their_intervals(digits_bundle: DigitsBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "ENOUGH_SECONDS", 0.5)
    first, second = (read_bundle(digits_bundle("digits-onnxruntime", quantize)) for quantize in ("none", "int8"))
    one, other = bench_bundle(first, second)
    for candidate in (one, other):
        assert candidate.interval is not None
        assert candidate.interval[0] <= candidate.latency.percentile(50) <= candidate.interval[1]
    interval = other.ratio_interval_to(one)
    assert interval is not None
    assert interval[0] <= other.ratio_to(one) <= interval[1]


def test_a_stand_in_is_measured_in_this_process_and_called_so(digits_bundle: DigitsBundle) -> None:
    (candidate,) = bench_bundle(read_bundle(digits_bundle("digits-ios18", "none")))
    assert not candidate.of_device
    assert candidate.peak_memory is None
    assert candidate.executed_by.startswith("EdgeKit reference runtime for Core ML")
