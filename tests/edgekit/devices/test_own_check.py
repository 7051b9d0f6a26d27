from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.devices.own_check import with_own_check
from edgekit.errors import RequirementError

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
    """A command has one folder for its temporary files, which is swept; a program that imports EdgeKit had none."""
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


def test_the_check_that_a_bundle_brings_is_not_the_one_that_runs(bundle: Path) -> None:
    for name in ("check.py", "golden_check.py"):
        (bundle / name).write_text("raise SystemExit('owned')")
    (bundle / "numpy.py").write_text("raise SystemExit('owned')")
    with with_own_check(read_bundle(bundle)) as ours:
        assert not any("owned" in file.read_text() for file in ours.path.rglob("*.py"))
        assert not (ours.path / "numpy.py").exists()
        assert ours.main.read_bytes() == (bundle / "model.onnx").read_bytes()


@pytest.mark.parametrize("name", ["model.py", "folder/model.SO"])
def test_a_model_that_is_code_is_refused_by_name(bundle: Path, name: str) -> None:
    """It was left out, and the check of the device ended with a file that is not there."""
    manifest = dict(read_bundle(bundle).manifest)
    manifest["model"] = {**manifest["model"], "main": name, "files": ["weights.bin", name]}
    with pytest.raises(RequirementError) as refused, with_own_check(Bundle(bundle, manifest)):
        pass
    assert str(refused.value) == (
        f"{bundle}: what the device would load is code, and code of a bundle is not run\n"
        f"found: {name}\n"
        "hint: the check in the bundle does that by hand, on a device of your own"
    )
