from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

OPEN = """
import sys
from pathlib import Path
from edgekit.bundle import read_bundle
from edgekit.devices.own_check import with_own_check
with with_own_check(read_bundle(Path(sys.argv[1]))) as ours:
    print(ours.path, flush=True)
    sys.stdin.read()
"""


def test_what_a_program_that_was_killed_left_is_removed_by_the_next(packaged_digits: Path, tmp_path: Path) -> None:
    """A command has one folder for all its temporary files; a program that imports EdgeKit had none that is swept."""
    command = [sys.executable, "-c", OPEN, str(packaged_digits)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        folder = Path(killed.stdout.readline().strip())
        killed.kill()
    assert (folder / "check.py").exists()
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=True)
    assert done.stdout.strip() != str(folder)
    assert list(tmp_path.iterdir()) == []
