from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import onnx
import pytest

from edgekit.bundle import Bundle
from edgekit.devices.browser import VARIABLE as LIBRARY_VARIABLE
from edgekit.devices.browser_process import find_chromium
from edgekit.errors import InputError


@pytest.fixture
def bare_bundle(tmp_path: Path) -> Callable[[onnx.ModelProto], Bundle]:
    """Makes a bundle that holds an ONNX model, and nothing to check it with."""

    def make(model: onnx.ModelProto) -> Bundle:
        onnx.save(model, tmp_path / "model.onnx")
        return Bundle(tmp_path, {"model": {"main": "model.onnx"}, "target": {"profile": "web"}})

    return make


@pytest.fixture
def temporary(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder that temporary files go to, empty. Its name is short, as those of temporary folders are."""
    tmp_path_factory.getbasetemp()  # which is made in the folder that is the temporary one when it is first asked for
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


@pytest.fixture
def chromium_program() -> Path:
    """Chromium's program."""
    try:
        return find_chromium()
    except InputError:
        pytest.skip("Chromium is not installed (`make tools` installs what the tests need)")


@pytest.fixture
def web_library(node_modules: Path, chromium_program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the browser device needs."""
    monkeypatch.setenv(LIBRARY_VARIABLE, str(node_modules / "onnxruntime-web"))
