"""Names in bytes that are no UTF-8: refused before any work, where libraries or documents cannot take them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from edgekit.bundle import read_bundle
from edgekit.errors import InputError

RunEdgeKit = Callable[..., Any]
LATIN_1 = os.fsdecode("Modell für A".encode("latin-1"))
HINT = "hint: rename it, or set PYTHONUTF8=1 where the system's locale is another\n"
FOR_LIBRARIES = (
    f"its name, or that of a folder above it, is not text in UTF-8, which onnx and the runtimes need\n{HINT}"
)
IN_DOCUMENTS = f"its name, or that of a folder above it, is not text in UTF-8\n{HINT}"

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems take no such names")


@pytest.fixture
def model(tmp_path: Path, onnx_model: Callable[..., Any]) -> Path:
    path = tmp_path / "model.onnx"
    onnx.save(onnx_model("f (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"), path)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ("package", "{model}", "--target", "onnxruntime", "--dim", "N=1", "-o", "{place}"),
        ("fix", "{model}", "--dim", "N=1", "-o", "{place}"),
        ("extract", "{model}", "--outputs", "y", "-o", "{place}"),
        ("quantize", "{model}", "--scheme", "int8-weights", "-o", "{place}"),
    ],
    ids=lambda command: command[0],
)
def test_an_output_that_libraries_could_not_open(
    edgekit: RunEdgeKit, tmp_path: Path, model: Path, command: tuple[str, ...]
) -> None:
    place = tmp_path / LATIN_1
    finished = edgekit(*(part.format(model=model, place=place) for part in command), "-q")
    shown = str(place).replace("\udcfc", r"\udcfc")
    assert (finished.code, finished.err) == (2, f"error: {shown}: {FOR_LIBRARIES}")
    assert os.listdir(tmp_path) == ["model.onnx"]  # noqa: PTH208  # names alone


def test_a_bundle_that_was_moved_into_such_a_folder(edgekit: RunEdgeKit, tmp_path: Path, model: Path) -> None:
    assert (
        edgekit("package", model, "--target", "onnxruntime", "--dim", "N=1", "-o", tmp_path / "bundle", "-q").code == 0
    )
    place = (tmp_path / "bundle").rename(tmp_path / LATIN_1)
    with pytest.raises(InputError) as caught:
        read_bundle(place)
    assert str(caught.value) + "\n" == f"{place}: {FOR_LIBRARIES}"


def test_samples_whose_names_the_manifest_could_not_hold(edgekit: RunEdgeKit, tmp_path: Path, model: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    with (folder / f"{LATIN_1}.npz").open("wb") as file:
        np.savez(file, x=np.ones((1, 3), np.float32))
    finished = edgekit(
        "package", model, "--target", "onnxruntime", "--dim", "N=1", "--data", folder, "-o", tmp_path / "bundle", "-q"
    )
    shown = str(folder / LATIN_1).replace("\udcfc", r"\udcfc")
    assert (finished.code, finished.err) == (2, f"error: {shown}.npz: {IN_DOCUMENTS}")


def test_a_project_file_that_could_not_name_its_data(edgekit: RunEdgeKit, tmp_path: Path, model: Path) -> None:
    folder = tmp_path / LATIN_1
    folder.mkdir()
    np.savez(folder / "0.npz", x=np.ones((1, 3), np.float32))
    finished = edgekit("init", model, "--data", folder, "-o", tmp_path / "edgekit.toml", "-q")
    shown = str(folder).replace("\udcfc", r"\udcfc")
    assert (finished.code, finished.err) == (2, f"error: {shown}: {IN_DOCUMENTS}")


def test_another_locale_than_utf_8(tmp_path: Path, model: Path) -> None:
    """The name is UTF-8, and Python does not read it as such: what is advised helps."""
    command = [sys.executable, "-m", "edgekit", "fix", model, "--dim", "N=1", "-o", tmp_path / "für.onnx", "-q"]
    locale = {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0"}
    refused = subprocess.run(command, env=os.environ | locale | {"PYTHONUTF8": "0"}, capture_output=True, check=False)
    done = subprocess.run(command, env=os.environ | locale | {"PYTHONUTF8": "1"}, capture_output=True, check=False)
    assert refused.returncode == 2
    assert refused.stderr.decode().endswith(FOR_LIBRARIES)
    assert done.returncode == 0
    assert (tmp_path / "für.onnx").is_file()
