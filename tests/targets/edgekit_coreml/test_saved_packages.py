"""A bundle whose package went through other hands: opened and saved by coremltools, zipped and unzipped."""

from __future__ import annotations

import shutil
from pathlib import Path

import coremltools
import pytest

import edgekit
from edgekit.errors import RequirementError

DIGITS = Path(__file__).parents[3] / "sample_apps/digits/digits_torchscript.onnx"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return edgekit.package(DIGITS, "ios18", tmp_path / "bundle", quantize="none").path


def opened(package: Path) -> coremltools.models.MLModel:
    return coremltools.models.MLModel(str(package), skip_model_load=True)


def test_a_package_that_coremltools_opened_and_saved_verifies(bundle: Path, tmp_path: Path) -> None:
    package = bundle / "model.mlpackage"
    opened(package).save(str(tmp_path / "saved.mlpackage"))
    edgekit.verify(bundle)
    shutil.rmtree(package)
    shutil.copytree(tmp_path / "saved.mlpackage", package)
    edgekit.verify(bundle)


def test_a_package_that_was_changed_does_not(bundle: Path) -> None:
    package = bundle / "model.mlpackage"
    model = opened(package)
    model.short_description = "something else"
    file = package / "Data/com.apple.CoreML/model.mlmodel"
    file.write_bytes(model.get_spec().SerializeToString())
    with pytest.raises(RequirementError, match=r"model\.mlmodel is changed"):
        edgekit.verify(bundle)
    file.write_bytes(b"\xff" * 100)
    with pytest.raises(RequirementError, match=r"model\.mlmodel is changed"):
        edgekit.verify(bundle)


def test_a_bundle_that_was_zipped_and_unzipped_verifies(bundle: Path, tmp_path: Path) -> None:
    archive = shutil.make_archive(str(tmp_path / "archive"), "zip", bundle)
    shutil.unpack_archive(archive, tmp_path / "unzipped")
    edgekit.verify(tmp_path / "unzipped")
