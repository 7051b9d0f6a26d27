"""Bundles on an emulated arm64 processor, as ``--device qemu:arm64`` runs them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit.bundle import Bundle, check_integrity, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.opening import open_device
from edgekit.devices.qemu import FOLDER_VARIABLE, RECORD, qemu_folder
from edgekit.errors import InputError, RequirementError

pytestmark = pytest.mark.xdist_group("qemu-device")

DigitsBundle = Callable[[str, str], Path]


@pytest.fixture
def _emulator() -> None:
    if not (qemu_folder() / RECORD).is_file():
        pytest.skip("QEMU and the arm64 runtimes are not installed (`make qemu` installs them)")


def emulators() -> list[int]:
    """The emulators that this process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid() and b"qemu-aarch64" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it has ended meanwhile
            continue
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("_emulator")
@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("name", ["digits-onnxruntime", "digits-intel-cpu"])
def test_the_digits_bundle_passes(name: str, quantize: str, digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle(name, quantize))
    verification = verify_bundle(bundle, device=open_device("qemu:arm64"))
    assert verification.executed_by.endswith("on Linux aarch64, cortex-a76 in QEMU")
    assert emulators() == []
    check_integrity(bundle)


@pytest.mark.slow
@pytest.mark.usefixtures("_emulator")
@pytest.mark.parametrize(
    ("name", "target", "quantize"),
    [
        ("qonnx_mnist_conv", "android-cpu", "int8"),
        ("qonnx_mnist_conv", "intel-cpu", "none"),
        ("speech_embedding", "android-cpu", "none"),
        ("speech_embedding", "intel-cpu", "int8"),
    ],
)
def test_models_of_the_zoo_pass(
    name: str, target: str, quantize: str, zoo_bundle: Callable[[str, str, str], Bundle]
) -> None:
    verify_bundle(zoo_bundle(name, target, quantize), device=open_device("qemu:arm64"))


@pytest.mark.slow
@pytest.mark.usefixtures("_emulator")
def test_it_is_another_processors_arithmetic_and_says_nothing_of_time(digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle("digits-onnxruntime", "none"))
    feeds, golden = next(bundle.golden())
    with open_device("qemu:arm64").open(bundle) as session:
        assert session.is_stand_in
        computed = session.run(feeds)["logits"]
        assert len(session.time(feeds, 3, 1).milliseconds) == 3
        (emulator,) = emulators()
        os.kill(emulator, signal.SIGKILL)
        with pytest.raises(RequirementError, match="the bundle's check was killed there"):
            session.run(feeds)
    np.testing.assert_allclose(computed, golden["logits"], rtol=1e-4, atol=1e-5)
    assert emulators() == []


def test_other_processors_are_refused() -> None:
    with pytest.raises(InputError, match="no other processor is emulated"):
        open_device("qemu:riscv64")


def test_an_emulator_that_is_not_installed(
    digits_bundle: DigitsBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    bundle = read_bundle(digits_bundle("digits-onnxruntime", "none"))
    with (
        pytest.raises(InputError, match="QEMU and the arm64 runtimes are not installed") as caught,
        open_device("qemu:arm64").open(bundle),
    ):
        pass
    assert "make qemu" in str(caught.value)
