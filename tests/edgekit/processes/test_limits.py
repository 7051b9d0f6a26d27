"""What a command may take follows from the model's size and from the samples'."""

from pathlib import Path

import numpy as np
import pytest

from edgekit.data.samples import open_samples
from edgekit.model import ValueSpec
from edgekit.processes import limits, supervision
from edgekit.processes.limits import Limits, Watch

GIB = 2**30


@pytest.fixture(autouse=True)
def _of_a_large_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_machine_bytes", lambda: 64 * GIB)
    monkeypatch.setattr(supervision, "_worked_on", (0, 0))


@pytest.mark.parametrize(
    ("model", "sample", "expected"),
    [
        (0, 0, 2 * GIB),
        (10_000_000, 0, 2 * GIB + 2_560_000_000),
        (1_000_000, 1_024_000, 2 * GIB + 256_000_000 + 524_288_000),
        (0, 100_000_000, 6 * GIB),
    ],
)
def test_memory(model: int, sample: int, expected: int) -> None:
    assert Limits.for_model(model, None, None, sample).memory == expected
    assert Limits.for_model(model, 5, None, sample).memory == 5


def test_samples_get_a_quarter_of_a_small_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_machine_bytes", lambda: 4 * GIB)
    assert Limits.for_model(0, None, None, 100_000_000).memory == 3 * GIB


def test_a_data_folder_tells_how_large_its_samples_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    monkeypatch.setattr(supervision, "_listener", told.append)
    monkeypatch.setattr(supervision, "limit_allocations", lambda limits: None)
    np.savez(tmp_path / "0.npz", x=np.zeros((1, 3, 400, 640), np.uint8))
    supervision.tell_model_bytes(1_000_000)

    open_samples(tmp_path, [ValueSpec("x", "uint8", (1, 3, 400, 640))])

    assert [each["limits"]["memory"] for each in told] == [
        2 * GIB + 256_000_000,
        2 * GIB + 256_000_000 + 512 * 4 * 3 * 400 * 640,
    ]


@pytest.mark.parametrize(("in_line", "is_stuck"), [(4_000_000_000, False), (0, True)])
def test_a_stage_that_waits_for_its_turn_on_a_processor_is_not_stuck(
    in_line: int, is_stuck: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine a process of a low priority gets less than a fiftieth of a processor."""

    def system_tells(waited: int) -> None:
        (tmp_path / "task" / "7").mkdir(parents=True, exist_ok=True)
        (tmp_path / "task" / "7" / "schedstat").write_text(f"1000000 {waited} 5\n")
        (tmp_path / "stat").write_text("7 (python) R 1 7 7 0 -1 0 0 0 0 0 1 0 0 0 30 12 1 0\n")
        (tmp_path / "statm").write_text("100 100 50 0 0 0 0\n")

    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    system_tells(1_000_000_000)
    watch = Watch(7)
    watch._folder = tmp_path
    watch.progressed()
    for _ in range(59):
        now[0] += 1.0
        assert watch.broken(Limits(seconds=30.0)) is None
    now[0] += 1.0
    system_tells(1_000_000_000 + in_line)
    found = watch.broken(Limits(seconds=20.0))
    assert (found is not None) == is_stuck
    assert found is None or "makes no progress" in str(found)


def test_what_passes_while_nobody_looks_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is stopped with Ctrl-Z stands still as a whole, and so does one whose virtual machine pauses."""
    now = [100.0]
    monkeypatch.setattr(limits.time, "monotonic", lambda: now[0])
    watch = Watch(7)
    watch._folder = tmp_path  # a process that uses no processor time
    (tmp_path / "stat").write_text("7 (python) T 1 7 7 0 -1 0 0 0 0 0 1 0 0 0 30 12 1 0\n")
    watch.progressed()
    now[0] += 3600.0
    assert watch.broken(Limits(seconds=20.0)) is None
    looks = 0
    while watch.broken(Limits(seconds=20.0)) is None:
        now[0] += 1.0
        looks += 1
    assert looks == 48 - 1  # 2.4 times the limit, one second of it while nobody looked
