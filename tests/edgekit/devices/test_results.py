"""Results that a device wrote, judged here."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit.bundle import Bundle, read_bundle
from edgekit.bundle_checks.verification import verify_bundle
from edgekit.devices.opening import open_device
from edgekit.devices.results import ResultsDevice
from edgekit.errors import InputError, RequirementError
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
from edgekit.progress import Progress

Write = Callable[[Mapping[str, Any]], Path]


@pytest.fixture
def bundle(onnx_model: Callable[..., onnx.ModelProto], tmp_path: Path) -> Bundle:
    model = onnx_model(
        "g (float[1, 4] x) => (float[1, 4] y, int64[1] c) { y = Exp(x) c = ArgMax <axis=1, keepdims=0> (y) }"
    )
    onnx.save(model, tmp_path / "model.onnx")
    package(PackageRequest(tmp_path / "model.onnx", "ios18", tmp_path / "bundle"), Progress())
    return read_bundle(tmp_path / "bundle")


def recorded(bundle: Bundle, change: Callable[[np.ndarray], np.ndarray] = lambda array: array) -> dict[str, Any]:
    """Returns the results of a device that computes the golden outputs, or something else."""
    samples = [
        {
            "milliseconds": 1.5,
            "outputs": [
                {"name": name, "values": base64.b64encode(change(array).astype("<f8").tobytes()).decode()}
                for name, array in outputs.items()
            ],
        }
        for _, outputs in bundle.golden()
    ]
    manifest = (bundle.path / "manifest.json").read_text(encoding="utf-8")
    return {"format": 1, "manifest": manifest, "executed_by": "Core ML, iPhone", "load_ms": 20, "samples": samples}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(record: Mapping[str, Any]) -> Path:
        file = tmp_path / "results.json"
        file.write_text(json.dumps(record))
        return file

    return written


def test_right_results_pass(bundle: Bundle, write: Write) -> None:
    verification = verify_bundle(bundle, device=ResultsDevice(write(recorded(bundle))))
    assert verification.executed_by == "Core ML, iPhone"
    assert [output.exact for output in verification.golden] == [True, True]


def test_wrong_results_are_refused(bundle: Bundle, write: Write) -> None:
    with pytest.raises(RequirementError, match="executed by Core ML, iPhone"):
        verify_bundle(bundle, device=ResultsDevice(write(recorded(bundle, np.flip))))


def nan_in_floats(array: np.ndarray) -> np.ndarray:
    return array * np.nan if array.dtype.kind == "f" else array


def test_what_is_no_number_is_none_of_the_right_ones(bundle: Bundle, write: Write) -> None:
    with pytest.raises(RequirementError, match="golden outputs"):
        verify_bundle(bundle, device=ResultsDevice(write(recorded(bundle, nan_in_floats))))


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 0.5])
def test_integers_are_whole_numbers(wrong: float, bundle: Bundle, write: Write) -> None:
    file = write(recorded(bundle, lambda array: array if array.dtype.kind == "f" else np.full(array.shape, wrong)))
    with pytest.raises(InputError, match=r"not a whole number|cannot"), ResultsDevice(file).open(bundle):
        pass


def test_results_of_another_bundle_are_refused(bundle: Bundle, write: Write) -> None:
    file = write(recorded(bundle) | {"manifest": "{}"})
    with pytest.raises(InputError, match="another bundle"), ResultsDevice(file).open(bundle):
        pass


def test_times_are_the_devices(bundle: Bundle, write: Write) -> None:
    with ResultsDevice(write(recorded(bundle))).open(bundle) as session:
        timing = session.time(next(bundle.golden())[0], 5, 1)
    assert set(timing.milliseconds) == {1.5}
    assert timing.load_ms == 20


def test_other_inputs_than_the_golden_ones_are_not_known(bundle: Bundle, write: Write) -> None:
    with (
        ResultsDevice(write(recorded(bundle))).open(bundle) as session,
        pytest.raises(RequirementError, match="golden samples only"),
    ):
        session.run({"x": np.full((1, 4), 77, np.float32)})


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda record: record.update(format=2), "format"),
        (lambda record: record.pop("samples"), "samples"),
        (lambda record: record["samples"].pop(), "other golden samples"),
        (lambda record: record["samples"][0]["outputs"].pop(), "other outputs"),
        (lambda record: record["samples"][0]["outputs"][0].update(values="AAAAAAAA8D8="), "elements of output 'y'"),
        (lambda record: record["samples"][0]["outputs"][0].update(values="AAAA"), "damaged"),
        (lambda record: record["samples"][0]["outputs"][0].update(values="!"), "damaged"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(
    spoil: Callable[[dict[str, Any]], object], message: str, bundle: Bundle, write: Write
) -> None:
    record = recorded(bundle)
    spoil(record)
    with pytest.raises(InputError, match=message), ResultsDevice(write(record)).open(bundle):
        pass


def test_a_file_that_is_none_is_told(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{")
    for name in ("no.json", "nowhere.json"):
        with pytest.raises(InputError, match="cannot be read: "), ResultsDevice(tmp_path / name).open(bundle):
            pass


def test_the_command_line_judges_them(bundle: Bundle, write: Write, edgekit: Callable[..., Any]) -> None:
    good = edgekit("verify", bundle.path, "--results", write(recorded(bundle)))
    assert good.code == 0
    assert "executed by  Core ML, iPhone" in good.out
    bad = edgekit("verify", bundle.path, "--results", write(recorded(bundle, np.flip)))
    assert bad.code == 1


def test_results_go_with_no_other_device(bundle: Bundle, write: Write, edgekit: Callable[..., Any]) -> None:
    file = write(recorded(bundle))
    assert edgekit("verify", bundle.path, "--results", file, "--device", "xcode").code == 0
    finished = edgekit("verify", bundle.path, "--results", file, "--device", "macos", "--quiet")
    assert finished.code == 2
    assert "found: macos" in finished.err


def test_results_show_no_layers(bundle: Bundle, write: Write, edgekit: Callable[..., Any], tmp_path: Path) -> None:
    arguments = ("--results", write(recorded(bundle)), "--layers", "--model", tmp_path / "model.onnx", "--quiet")
    finished = edgekit("verify", bundle.path, *arguments)
    assert finished.code == 1
    assert "outputs only" in finished.err


def test_xcode_itself_is_not_reached(bundle: Bundle) -> None:
    with pytest.raises(InputError, match="--results FILE"), open_device("xcode").open(bundle):
        pass
    with pytest.raises(InputError, match="chooses the device"):
        open_device("xcode:iPhone")


def test_golden_samples_with_missing_values_are_found(
    onnx_file: Callable[..., Path], tmp_path: Path, write: Write
) -> None:
    model = onnx_file("g (float[1, 2] x) => (float[1, 2] y) { m = IsNaN(x) y = Cast <to=1> (m) }")
    data = tmp_path / "data"
    data.mkdir()
    for number, row in enumerate(([np.nan, 1.0], [1.0, np.nan], [np.nan, np.nan])):
        np.savez(data / f"{number}.npz", x=np.array([row], np.float32))
    package(PackageRequest(model, "ios18", tmp_path / "out", data=data), Progress())
    made = read_bundle(tmp_path / "out")
    assert verify_bundle(made, device=ResultsDevice(write(recorded(made)))).golden[0].exact


def test_steps_of_a_sequence_with_equal_inputs_have_their_own_outputs(
    onnx_file: Callable[..., Path], tmp_path: Path, write: Write
) -> None:
    """A counter: each step of 1 adds 1."""
    model = onnx_file("g (float[1] x, float[1] old) => (float[1] y, float[1] new) { new = Add(x, old) y = Neg(new) }")
    data = tmp_path / "data"
    data.mkdir()
    for number in range(3):
        np.savez(data / f"{number}.npz", x=np.ones(1, np.float32), old=np.array([number], np.float32))
    package(PackageRequest(model, "ios18", tmp_path / "out", data=data, states={"old": "new"}), Progress())
    made = read_bundle(tmp_path / "out")
    assert [float(outputs["y"][0]) for _, outputs in made.golden()] == [-1.0, -2.0, -3.0]
    assert verify_bundle(made, device=ResultsDevice(write(recorded(made)))).golden[0].exact
