"""The home folder of users whom the system does not know, as in containers, and what is looked for in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from edgekit.devices.instruction_set import cannot_execute
from edgekit.devices.qemu import FOLDER_VARIABLE, QemuDevice, x86_emulator
from edgekit.errors import InputError
from edgekit.files.home import home_folder
from edgekit.registry import find_profile
from edgekit_onnxruntime.browser.device import VARIABLE as LIBRARY_VARIABLE
from edgekit_onnxruntime.browser.device import find_library

UNKNOWN_USER = 3_999_999_998


@pytest.fixture
def _no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HOME", "XDG_CACHE_HOME", FOLDER_VARIABLE, LIBRARY_VARIABLE):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", "/nothing")
    monkeypatch.setattr(os, "getuid", lambda: UNKNOWN_USER)


def test_a_home_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/of/a/user")
    assert home_folder() == Path("/of/a/user")


@pytest.mark.usefixtures("_no_home")
def test_a_user_without_a_home_has_no_emulator_and_no_library() -> None:
    """What is optional is not there; nothing fails because it was looked for."""
    assert home_folder() == Path("/")
    assert x86_emulator() is None
    assert not QemuDevice.is_installed()
    assert cannot_execute(*find_profile("intel-cpu"), "neon") is not None
    with pytest.raises(InputError) as caught:
        find_library()
    assert str(caught.value) == (
        "--device browser: there is no onnxruntime-web here\n"
        "expected: its package.json and dist in /.cache/edgekit/node_modules/onnxruntime-web\n"
        "hint: `npm install --prefix /.cache/edgekit onnxruntime-web` installs it; "
        f"{LIBRARY_VARIABLE} names another folder"
    )


def test_a_folder_that_the_system_refuses_to_look_into_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another user's home does; a name that is too long is refused to root as well."""
    refused = tmp_path / ("n" * 300)
    monkeypatch.setenv(FOLDER_VARIABLE, str(refused))
    monkeypatch.setenv(LIBRARY_VARIABLE, str(refused))
    monkeypatch.setenv("PATH", "/nothing")
    assert x86_emulator() is None
    assert not QemuDevice.is_installed()
    with pytest.raises(InputError, match="there is no onnxruntime-web here"):
        find_library()
