"""Scripts that start processes without a guard around what they do."""

import subprocess
import sys
from pathlib import Path

import pytest

_BUILD = """
from edgekit import api
failure = api.build({config!r})[0].failure
print("failure:", failure and failure.text)
"""
_POOL = """
from edgekit.processes.executors import open_executor
with open_executor(2) as executor:
    print("found:", executor.submit(abs, -7).result())
"""
_MESSAGE = "a process that was started runs the script once more"


@pytest.mark.parametrize("kind", ["build", "pool"])
def test_a_script_without_a_guard(kind: str, tmp_path: Path, digits: Path) -> None:
    config = tmp_path / "edgekit.toml"
    config.write_text(
        f'[[bundle]]\nname = "b"\nmodel = "{digits.as_posix()}"\ntarget = "ort"\ndims = {{ batch = 1 }}\n'
    )
    script = tmp_path / "script.py"
    body = _BUILD.format(config=str(config)) if kind == "build" else _POOL
    script.write_text(body)
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    told = found.stdout if kind == "build" else found.stderr
    assert f'{script}: {_MESSAGE}\nhint: put what it does under `if __name__ == "__main__":`' in told
    assert "memory" not in told
    script.write_text('if __name__ == "__main__":\n' + body.replace("\n", "\n    "))
    found = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert ("failure: None" if kind == "build" else "found: 7") in found.stdout
