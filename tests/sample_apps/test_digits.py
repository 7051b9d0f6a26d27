"""The sample model as it is committed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from PIL import Image

from edgekit.config import read_config

MODELS = ["digits_torchscript.onnx", "digits_dynamo.onnx"]


def pixels(folder: Path) -> dict[Path, np.ndarray]:
    return {file: np.asarray(Image.open(file)) for file in sorted(folder.glob("*.png"))}


@pytest.mark.parametrize("name", MODELS)
def test_it_recognizes_the_test_digits(name: str, sample_apps: Path, test_digits: dict[Path, str]) -> None:
    session = onnxruntime.InferenceSession(sample_apps / "digits" / name, providers=["CPUExecutionProvider"])
    images = np.stack([np.asarray(Image.open(file), np.float32) for file in test_digits])[:, np.newaxis]
    found = session.run(["logits"], {"image": (images / 255 - 0.1307) / 0.3081})[0].argmax(axis=1)
    right = sum(int(digit) == int(label) for digit, label in zip(found, test_digits.values(), strict=True))
    assert right / len(test_digits) >= 0.988


@pytest.mark.parametrize("name", MODELS)
def test_its_batch_is_dynamic_and_named(name: str, sample_apps: Path) -> None:
    model = onnx.load(sample_apps / "digits" / name)
    dims = model.graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in dims] == ["batch", 1, 28, 28]
    onnx.checker.check_model(model, full_check=True)


@pytest.mark.parametrize("name", MODELS)
def test_it_tells_nothing_of_the_machine_that_exported_it(name: str, sample_apps: Path) -> None:
    content = (sample_apps / "digits" / name).read_bytes()
    assert b".py" not in content
    assert b"/home/" not in content


def test_the_digits_are_balanced_and_those_for_calibration_are_others(sample_apps: Path) -> None:
    folder = sample_apps / "digits" / "samples"
    for name, of_each in (("test", 30), ("calibration", 10)):
        rows = (folder / name / "labels.csv").read_text().splitlines()[1:]
        assert np.bincount([int(row.split(",")[1]) for row in rows]).tolist() == [of_each] * 10
        assert sorted(row.split(",")[0] for row in rows) == sorted(file.name for file in folder.glob(f"{name}/*.png"))
    test, calibration = (
        {image.tobytes() for image in pixels(folder / name).values()} for name in ("test", "calibration")
    )
    assert not test & calibration


def test_the_folder_is_small(sample_apps: Path) -> None:
    files = [file for file in (sample_apps / "digits").rglob("*") if file.suffix in (".onnx", ".png", ".csv")]
    assert sum(file.stat().st_size for file in files) < 1_000_000
    assert all(file.stat().st_size < 500_000 for file in files)


def test_the_project_file_declares_bundles_of_files_that_are_there(sample_apps: Path) -> None:
    bundles = read_config(sample_apps / "digits" / "edgekit.toml").bundles
    assert {bundle.target for bundle in bundles} == {"ios18", "intel-cpu", "onnxruntime", "web"}
    for bundle in bundles:
        assert bundle.model.is_file()
        assert bundle.data is not None
        assert bundle.data.is_dir()
