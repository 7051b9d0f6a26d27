"""Measurements are short in the tests' process and in those that it starts, as long as EdgeKit's elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys

from edgekit.timing import latency

SECONDS = "from edgekit.timing import latency; print(latency.ENOUGH_SECONDS)"


def told(**environment: str) -> float:
    command = [sys.executable, "-c", SECONDS]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def test_here_and_in_processes_that_tests_start() -> None:
    assert latency.ENOUGH_SECONDS < 0.1
    assert told() == 0.25
    assert told(EDGEKIT_TESTS_ENOUGH_SECONDS="") == 1.5
