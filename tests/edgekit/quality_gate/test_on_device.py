from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.config import Budget
from edgekit.device import Device, Session, Timing
from edgekit.devices.local import LocalDevice
from edgekit.devices.results import ResultsDevice
from edgekit.model import Arrays
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress
from edgekit.quality_gate.on_device import DeviceClock, judge_on_device, median_bounds


class ScriptedDevice(Device):
    """A device whose starts take as long as a list says."""

    def __init__(self, latencies: Iterator[float]) -> None:
        self._latencies = latencies

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        yield ScriptedSession(next(self._latencies))


class ScriptedSession(Session):
    def __init__(self, latency: float) -> None:
        self._latency = latency
        self._warm = False

    @property
    def executed_by(self) -> str:
        return "a script"

    def run(self, feeds: Mapping[str, np.ndarray]) -> Arrays:
        raise NotImplementedError

    def time(self, sample: Mapping[str, np.ndarray], runs: int, warm_up: int) -> Timing:
        slow = 1 if self._warm or warm_up else 10
        self._warm = True
        return Timing((self._latency * slow,) * runs, 50.0, None, {})


@pytest.mark.parametrize(
    ("count", "outside"),
    # The critical values of the two-sided sign test at 5 %: so many of the ordered values lie outside on each side.
    [(5, None), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (15, 3), (20, 5), (25, 7), (30, 9)],
)
def test_where_the_median_lies(count: int, outside: int | None) -> None:
    values = [float(value) for value in reversed(range(count))]
    expected = None if outside is None else (float(outside), float(count - 1 - outside))
    assert median_bounds(values) == expected


def judged(bundle: Path, device: Device, seconds: float = 60, **budget: float) -> dict[str, tuple[str, str]]:
    asked = Budget(**budget)  # type: ignore[arg-type]  # some are whole numbers
    verdicts = judge_on_device(read_bundle(bundle), asked, DeviceClock(device, "there", seconds))
    return {f"{verdict.budget} {verdict.limit}": (verdict.found, verdict.outcome) for verdict in verdicts}


def test_six_starts_settle_what_is_clear(packaged_digits: Path) -> None:
    device = ScriptedDevice(iter([4.0, 4.1, 4.2, 4.3, 4.4, 4.5]))
    assert judged(packaged_digits, device, latency_ms=5, first_run_ms=20, load_ms=50, memory=10**9) == {
        "latency on there at most 5 ms": ("4.25 ms (4 ms – 4.5 ms), 6 starts", "kept"),
        "first run on there at most 20 ms": ("42.5 ms (40 ms – 45 ms), 6 starts", "broken"),
        "load time on there at most 50 ms": ("50 ms (50 ms – 50 ms), 6 starts", "kept"),
        "memory on there at most 1 GB": ("not measured: the device does not report it", "broken"),
    }


def test_one_slow_start_asks_for_more(packaged_digits: Path) -> None:
    device = ScriptedDevice(iter([4.0, 9.0, *[4.0] * 10]))
    assert judged(packaged_digits, device, latency_ms=5) == {
        "latency on there at most 5 ms": ("4 ms (4 ms – 4 ms), 12 starts", "kept")
    }


def test_what_the_time_does_not_suffice_for_is_not_clear(packaged_digits: Path) -> None:
    device = ScriptedDevice(iter([4.0, 9.0, 4.0, 4.0, 4.0, 4.0]))
    assert judged(packaged_digits, device, seconds=1e-9, latency_ms=5) == {
        "latency on there at most 5 ms": ("4 ms (4 ms – 9 ms), 6 starts", "inconclusive")
    }


def test_a_budget_that_every_start_breaks_is_broken_however_slow_the_starts_are(packaged_digits: Path) -> None:
    """One start takes longer than the time limit."""
    assert judged(packaged_digits, ScriptedDevice(iter([7.0] * 6)), seconds=1e-9, latency_ms=5) == {
        "latency on there at most 5 ms": ("7 ms (7 ms – 7 ms), 6 starts", "broken")
    }


def test_this_machine(packaged_digits: Path) -> None:
    found = judged(packaged_digits, LocalDevice(), latency_ms=60_000, first_run_ms=1e-6, load_ms=60_000, memory=1000)
    assert [outcome for _, outcome in found.values()] == ["kept", "broken", "kept", "broken"]


def test_a_stand_in_does_not_count(tmp_path: Path, onnx_model: Callable[..., onnx.ModelProto]) -> None:
    onnx.save(onnx_model("g (float[1, 4] x) => (float[1, 4] y) { y = Exp(x) }"), tmp_path / "model.onnx")
    package(PackageRequest(tmp_path / "model.onnx", "ios18", tmp_path / "bundle"), Progress())
    bundle = tmp_path / "bundle"
    assert judged(bundle, LocalDevice(), latency_ms=1e6) == {
        "latency on there at most 1000000 ms": (
            "not measured: a stand-in for the device executes the bundle",
            "broken",
        )
    }
    golden = read_bundle(bundle).golden()
    samples = [
        {
            "milliseconds": milliseconds,
            "outputs": [{"name": "y", "values": base64.b64encode(outputs["y"].astype("<f8").tobytes()).decode()}],
        }
        for milliseconds, (_, outputs) in zip((1.5, 1.6, 9.0), golden, strict=True)
    ]
    manifest = (bundle / "manifest.json").read_text(encoding="utf-8")
    record = {"format": 1, "manifest": manifest, "executed_by": "iPhone", "load_ms": 20, "samples": samples}
    (tmp_path / "results.json").write_text(json.dumps(record))
    device = ResultsDevice(tmp_path / "results.json")
    assert judged(bundle, device, latency_ms=2, load_ms=10, first_run_ms=2) == {
        "latency on there at most 2 ms": ("1.6 ms, recorded", "kept"),
        "first run on there at most 2 ms": ("not measured: the device does not report it", "broken"),
        "load time on there at most 10 ms": ("20 ms, recorded", "broken"),
    }
