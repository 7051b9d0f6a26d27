from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.local import InProcessSession, LocalDevice, LocalSession
from edgekit.errors import InputError

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


@pytest.mark.parametrize("name", ["check.py", "golden_check.py", "check_service.py", "numpy.py", "json/__init__.py"])
def test_code_from_a_bundle_is_never_run(bundle: Path, tmp_path: Path, name: str) -> None:
    (bundle / name).parent.mkdir(exist_ok=True)
    (bundle / name).write_text(f"open({str(tmp_path / 'told')!r}, 'w').close()\n")
    opened = read_bundle(bundle)
    with LocalDevice().open(opened) as session:
        assert isinstance(session, LocalSession)
        assert len(session.time(next(opened.golden())[0], 2, 0).milliseconds) == 2
    assert not (tmp_path / "told").exists()


def test_this_machine_has_nothing_to_choose() -> None:
    with pytest.raises(InputError, match="nothing to choose"):
        LocalDevice.from_url("local:gpu")
