from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from edgekit.quality_gate.clock import SCHEDULER_STATISTICS, waited_seconds

ALONE = """
import os, subprocess, sys, time
from edgekit.quality_gate.clock import waited_seconds

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
try:
    with waited_seconds() as waited:
        start, waited_before, own_before = time.perf_counter(), waited(), time.thread_time()
        while time.thread_time() - own_before < 0.2:
            pass
        own, waiting, wall = time.thread_time() - own_before, waited() - waited_before, time.perf_counter() - start
finally:
    for other in others:
        other.kill()
        other.wait()
print(own, waiting, wall)
"""


@pytest.mark.skipif(not SCHEDULER_STATISTICS.exists(), reason="the system does not say how long a thread waits")
def test_time_on_a_processor_and_time_of_waiting_for_one_are_all_the_time() -> None:
    """Two others want the same processor: what a thread that never sleeps does not compute, it waits."""
    told = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=True).stdout
    own, waiting, wall = map(float, told.split())
    assert wall > 1.5 * own
    assert own + waiting == pytest.approx(wall, rel=0.1)


def test_where_the_system_does_not_say_nothing_was_waited(tmp_path: Path) -> None:
    with waited_seconds(tmp_path / "none") as waited:
        assert waited() == 0.0
