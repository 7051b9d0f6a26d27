from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import openvino
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.benchmark import bench_bundle
from edgekit.device import Session
from edgekit.devices.local import LocalDevice
from edgekit.devices.opening import open_device
from edgekit.errors import InputError, RequirementError
from edgekit.instruction_sets import own_set
from edgekit.timing import latency

DigitsBundle = Callable[[str, str], Path]


def test_a_runtime_that_would_choose_another_precision_is_measured_in_that_too(digits_bundle: DigitsBundle) -> None:
    own = openvino.Core().get_property("CPU", "INFERENCE_PRECISION_HINT").to_string()
    if own == "f32":
        pytest.skip("this CPU computes in float32 by default")
    pinned, chosen = bench_bundle(read_bundle(digits_bundle("digits-intel-cpu", "none")))
    assert pinned.settings["precision"] == "f32"
    assert chosen.settings["precision"] == own
    assert chosen.name == f"{pinned.name} in {own}"
    assert f", CPU, {own}, 1 thread" in chosen.executed_by


class NotInItsOwnPrecision(LocalDevice):
    """A device whose runtime cannot execute the bundle in the precision that it would choose."""

    @contextmanager
    def open(self, bundle: Bundle) -> Iterator[Session]:
        with super().open(bundle) as session:
            session.__class__ = type("Pinned", (session.__class__,), {"default_precision": "bf16"})
            yield session

    def open_in_default_precision(self, bundle: Bundle) -> AbstractContextManager[Session]:
        raise RequirementError("the bundle's check ended before it answered", found="no such primitive")


def test_a_precision_that_a_bundle_does_not_run_in_does_not_end_the_others(digits_bundle: DigitsBundle) -> None:
    bundle = read_bundle(digits_bundle("digits-intel-cpu", "none"))
    warnings: list[str] = []
    (pinned,) = bench_bundle(bundle, device=NotInItsOwnPrecision(), warn=warnings.append)
    assert pinned.settings["precision"] == "f32"
    assert warnings == [
        f"{bundle.path} in bf16 is not measured: the bundle's check ended before it answered: no such primitive"
    ]


def test_a_runtime_that_is_held_to_avx2_has_no_row_in_bfloat16(digits_bundle: DigitsBundle) -> None:
    """The plugin names the processor's own choice of precision, which AVX2 does not have."""
    if own_set() not in ("avx512", "vnni", "amx"):
        pytest.skip("this processor has nothing beyond AVX2 that a runtime could be held from")
    bundle = read_bundle(digits_bundle("digits-intel-cpu", "int8"))
    (held,) = bench_bundle(bundle, device=open_device("isa:avx2"))
    assert held.settings["precision"] == "f32"


def test_a_bundle_is_measured_with_each_instruction_set_that_the_processor_has(digits_bundle: DigitsBundle) -> None:
    if own_set() not in ("avx512", "vnni", "amx"):
        pytest.skip("this processor has nothing beyond AVX2 that a runtime could be held from")
    bundle = read_bundle(digits_bundle("digits-intel-cpu", "none"))
    warnings: list[str] = []
    first, *others = bench_bundle(bundle, warn=warnings.append, sets=("avx2", "neon"))
    assert first.name == str(bundle.path)
    assert others[-1].name == f"{bundle.path} with avx2"
    assert others[-1].executed_by.endswith(", isa:avx2")
    assert others[-1].settings["precision"] == "f32"
    (left_out,) = warnings
    assert left_out.startswith(f"{bundle.path} with neon is not measured: ")


def test_instruction_sets_that_an_emulator_alone_executes_are_not_timed(digits_bundle: DigitsBundle) -> None:
    """ONNX Runtime has no switch that holds it to one."""
    if own_set() == "avx2":
        pytest.skip("this processor's own set is the one that is asked for")
    with pytest.raises(InputError) as raised:
        bench_bundle(read_bundle(digits_bundle("digits-onnxruntime", "none")), sets=("avx2",))
    assert str(raised.value) == "--isa avx2: this processor executes it with none of these instruction sets"


def test_medians_lie_in_their_intervals(digits_bundle: DigitsBundle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGEKIT_MEASURE_SECONDS", "0.5")
    monkeypatch.setattr(latency, "TURN_SECONDS", 0.002)  # enough turns on a busy machine too
    first, second = (read_bundle(digits_bundle("digits-onnxruntime", quantize)) for quantize in ("none", "int8"))
    one, other = bench_bundle(first, second)
    for candidate in (one, other):
        assert candidate.interval is not None
        assert candidate.interval[0] <= candidate.latency.percentile(50) <= candidate.interval[1]
    interval = other.ratio_interval_to(one)
    assert interval is not None
    assert interval[0] <= other.ratio_to(one) <= interval[1]


def test_a_stand_in_is_measured_in_this_process_and_called_so(digits_bundle: DigitsBundle) -> None:
    (candidate,) = bench_bundle(read_bundle(digits_bundle("digits-ios18", "none")))
    assert not candidate.of_device
    assert candidate.peak_memory is None
    assert candidate.executed_by.startswith("EdgeKit reference runtime for Core ML")
