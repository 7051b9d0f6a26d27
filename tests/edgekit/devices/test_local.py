from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.local import InProcessSession, LocalDevice, LocalSession
from edgekit.errors import InputError, RequirementError

DigitsBundle = Callable[[str, str], Path]


@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("name", ["digits-onnxruntime", "digits-intel-cpu", "digits-ios18"])
def test_the_digits_bundle_passes(name: str, quantize: str, digits_bundle: DigitsBundle) -> None:
    verify_bundle(read_bundle(digits_bundle(name, quantize)), device=LocalDevice())


@pytest.mark.slow
@pytest.mark.parametrize("quantize", ["none", "int8"])
@pytest.mark.parametrize("target", ["onnxruntime", "intel-cpu"])
@pytest.mark.parametrize("name", ["qonnx_mnist_conv", "speech_embedding"])
def test_models_of_the_zoo_pass(
    name: str, target: str, quantize: str, zoo_bundle: Callable[[str, str, str], Bundle]
) -> None:
    verify_bundle(zoo_bundle(name, target, quantize), device=LocalDevice())


def test_the_devices_own_runtime_is_timed_in_a_process_of_its_own(digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle("digits-intel-cpu", "none"))
    feeds, golden = next(bundle.golden())
    with LocalDevice().open(bundle) as session:
        assert isinstance(session, LocalSession)
        np.testing.assert_allclose(session.run(feeds)["logits"], golden["logits"], rtol=1e-3, atol=1e-4)
        timing = session.time(feeds, 4, 1)
    assert len(timing.milliseconds) == 4
    assert timing.settings == {"precision": "f32", "threads": "1"}
    assert timing.peak_memory is not None


def test_a_bundle_without_a_python_check_is_timed_in_this_process(bundle: Path) -> None:
    (bundle / "check.py").unlink()
    opened = read_bundle(bundle)
    with LocalDevice().open(opened) as session:
        assert isinstance(session, InProcessSession)
        assert not session.is_stand_in
        assert len(session.time(next(opened.golden())[0], 4, 1).milliseconds) == 4


def test_a_check_of_an_older_edgekit_is_told(bundle: Path) -> None:
    (bundle / "check.py").write_text("import argparse; argparse.ArgumentParser().parse_args()\n")
    opened = read_bundle(bundle)
    with (
        LocalDevice().open(opened) as session,
        pytest.raises(RequirementError, match=r"check\.py does not serve a host"),
    ):
        session.time(next(opened.golden())[0], 1, 0)


def test_this_machine_has_nothing_to_choose() -> None:
    with pytest.raises(InputError, match="nothing to choose"):
        LocalDevice.from_url("local:gpu")
