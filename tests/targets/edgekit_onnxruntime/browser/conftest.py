from __future__ import annotations

from pathlib import Path

import pytest

from edgekit.errors import InputError
from edgekit_onnxruntime.browser.chromium import find_chromium
from edgekit_onnxruntime.browser.device import VARIABLE as LIBRARY_VARIABLE


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
