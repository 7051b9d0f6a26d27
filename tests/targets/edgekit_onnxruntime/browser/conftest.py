from __future__ import annotations

from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit_onnxruntime.browser.chromium import find_chromium
from edgekit_onnxruntime.browser.device import VARIABLE as LIBRARY_VARIABLE


@pytest.fixture(scope="session")
def chromium_program() -> Path:
    """Chromium's program."""
    try:
        return find_chromium()
    except InputError:
        pytest.skip("Chromium is not installed (`make tools` installs what the tests need)")


@pytest.fixture(scope="session")
def web_library_folder(node_modules: Path, chromium_program: Path) -> Path:
    """The folder of onnxruntime-web, on a machine that has everything that the browser device needs."""
    return node_modules / "onnxruntime-web"


@pytest.fixture
def web_library(web_library_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the browser device needs."""
    monkeypatch.setenv(LIBRARY_VARIABLE, str(web_library_folder))
