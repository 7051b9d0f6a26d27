"""Bundles on a device that answers to adb: Debian's build of Android's own daemon, on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.opening import open_device
from edgekit.errors import EdgeKitError, InputError, RequirementError

pytestmark = pytest.mark.xdist_group("adb-device")

DAEMON_VARIABLE = "EDGEKIT_TEST_ADBD"
"""Names a program that runs ``adbd``, where it is not in the PATH: Debian has had it since its release 13."""


@pytest.fixture
def bundle(digits_bundle: Callable[[str, str], Path]) -> Bundle:
    return read_bundle(digits_bundle("digits-onnxruntime", "int8"))


@pytest.fixture
def _adb(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A server of adb's own for the tests, on a port of their own."""
    if shutil.which("adb") is None:
        pytest.skip("adb is not installed (`make tools` installs what the tests need)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        monkeypatch.setenv("ANDROID_ADB_SERVER_PORT", str(probe.getsockname()[1]))
    yield
    subprocess.run(["adb", "kill-server"], capture_output=True, check=False)


@pytest.fixture
def network(_adb: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A network with nothing in it but the daemon, which lets everybody in; returns the folder for what is copied."""
    daemon = os.environ.get(DAEMON_VARIABLE) or shutil.which("adbd")
    if daemon is None:
        pytest.skip(f"Android's daemon is not installed (the package adbd of Debian 13, or {DAEMON_VARIABLE})")
    if os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
        pytest.skip("a network of the daemon's own needs root, unshare, nsenter and ip")
    adb = shutil.which("adb")
    inside = tmp_path / "bin" / "adb"
    inside.parent.mkdir()
    command = ["unshare", "--net", "sh", "-c", f"ip link set lo up && exec {daemon}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        inside.write_text(f'#!/bin/sh\nexec nsenter --net=/proc/{process.pid}/ns/net {adb} "$@"\n')
        inside.chmod(0o755)
        monkeypatch.setenv("PATH", f"{inside.parent}:{os.environ['PATH']}")
        subprocess.run(["adb", "start-server"], capture_output=True, check=True)
        for _ in range(50):
            connected = subprocess.run(["adb", "connect", SERIAL], capture_output=True, text=True, check=True)
            if connected.stdout.startswith("connected"):
                break
        arrivals = tmp_path / "arrivals"
        arrivals.mkdir()
        yield arrivals
        subprocess.run(["adb", "kill-server"], capture_output=True, check=False)
    finally:
        process.kill()
        process.wait()


SERIAL = "127.0.0.1:5555"


def test_the_digits_bundle_passes(network: Path, bundle: Bundle) -> None:
    url = f"adb:{SERIAL}?python={sys.executable}&folder={network}"
    assert verify_bundle(bundle, device=open_device(url)).executed_by.startswith("ONNX Runtime ")
    assert list(network.iterdir()) == []


def test_a_device_that_has_no_python_or_cannot_be_written(network: Path, bundle: Bundle) -> None:
    assert "there is no '/no/python' there" in refusal(RequirementError, bundle, f"adb:{SERIAL}?python=/no/python")
    url = f"adb:{SERIAL}?python={sys.executable}&folder=/dev/null"
    assert "the bundle cannot be copied there" in refusal(RequirementError, bundle, url)


@pytest.mark.usefixtures("_adb")
def test_a_device_that_does_not_answer(bundle: Bundle) -> None:
    text = refusal(InputError, bundle, "adb:nothere")
    assert text.startswith("adb:nothere: no device answers\nfound: ")
    assert "`adb devices` lists those that do" in text


def test_adb_that_is_not_installed(bundle: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "`adb` is not installed here" in refusal(InputError, bundle, "adb:")


def test_what_is_no_address() -> None:
    with pytest.raises(InputError, match="is not an address of a device"):
        open_device("adb:serial?shell=sh")


def refusal(kind: type[EdgeKitError], bundle: Bundle, url: str) -> str:
    with pytest.raises(kind) as caught, open_device(url).open(bundle):
        pass
    return str(caught.value)
