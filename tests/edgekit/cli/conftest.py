from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

WriteProject = Callable[[str], None]


@pytest.fixture(autouse=True)
def no_actions(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests themselves may run in GitHub Actions."""
    for name in ("GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteProject:
    """Writes the project file that the commands find."""
    monkeypatch.chdir(tmp_path)

    def write(text: str) -> None:
        (tmp_path / "edgekit.toml").write_text(text)

    return write


@pytest.fixture(scope="session")
def exp_bundles(tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., Any]) -> Path:
    """The bundle `npu`, whose device is not here, and `exp`, much faster than the sample model."""
    import onnx

    from edgekit.cli import main

    folder = tmp_path_factory.mktemp("exp")
    onnx.save(onnx_model("f (float[1, 3] x) => (float[1, 3] y) { y = Exp(x) }"), folder / "model.onnx")
    for target, name in (("intel-npu", "npu"), ("onnxruntime", "exp")):
        assert main(["package", str(folder / "model.onnx"), "--target", target, "-o", str(folder / name), "-q"]) == 0
    return folder
