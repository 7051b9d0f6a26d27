"""The Intel sample programs, run as a user runs them."""

from __future__ import annotations

import importlib.util
import itertools
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import pytest
from PIL import Image

from edgekit.model import ValueSpec
from edgekit.pipeline import PackageRequest, package
from edgekit.preprocessing import parse_preprocessing
from edgekit.progress import Progress

pytestmark = pytest.mark.xdist_group("sample-apps-intel")  # one build of the C++ program

ANSWER = re.compile(r"^(?P<file>.+): (?P<label>\S+) \((?P<percent>[\d.]+)%, [\d.]+ ms\)$")


def classify(program: Sequence[object], bundle: Path, pictures: Sequence[Path]) -> dict[Path, tuple[str, float]]:
    """Picture -> label and probability, as the program prints them."""
    command = [str(part) for part in (*program, bundle, *pictures)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    answers = [ANSWER.match(line) for line in output.splitlines()]
    assert all(answers), output
    return {Path(match["file"]): (match["label"], float(match["percent"]) / 100) for match in answers if match}


@pytest.fixture(scope="session")
def python_program(sample_apps: Path) -> list[object]:
    return [sys.executable, sample_apps / "intel" / "python" / "classify.py"]


@pytest.fixture(scope="session")
def cpp_program(cpp: Callable[[str], Path]) -> list[object]:
    return [cpp("classify")]


@pytest.fixture(scope="session")
def python_module(sample_apps: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("classify", sample_apps / "intel" / "python" / "classify.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shares_right(answers: dict[Path, tuple[str, float]], truth: dict[Path, str]) -> float:
    return sum(label == truth[file] for file, (label, _) in answers.items()) / len(truth)


def test_the_python_program_recognizes_the_test_digits(
    python_program: list[object], digits_bundle: Callable[[str, str], Path], test_digits: dict[Path, str]
) -> None:
    answers = classify(python_program, digits_bundle("digits-intel-cpu", "none"), list(test_digits))
    assert shares_right(answers, test_digits) >= 0.988


def test_the_python_program_runs_a_quantized_bundle(
    python_program: list[object], digits_bundle: Callable[[str, str], Path], test_digits: dict[Path, str]
) -> None:
    answers = classify(python_program, digits_bundle("digits-intel-cpu", "int8"), list(test_digits))
    assert shares_right(answers, test_digits) >= 0.985


@pytest.mark.cxx
def test_the_cpp_program_answers_as_the_python_program_does(
    python_program: list[object],
    cpp_program: list[object],
    digits_bundle: Callable[[str, str], Path],
    test_digits: dict[Path, str],
) -> None:
    bundle = digits_bundle("digits-intel-cpu", "none")
    mine, others = (classify(program, bundle, list(test_digits)) for program in (cpp_program, python_program))
    assert {file: label for file, (label, _) in mine.items()} == {file: label for file, (label, _) in others.items()}
    assert max(abs(mine[file][1] - others[file][1]) for file in mine) < 0.002  # printed with a digit after the point


def colour_bundle(folder: Path, **declared: object) -> Path:
    """A bundle of a model that gives each channel's mean a score."""
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[1, 3, 24, 32] x) => (float[1, 3] y)'
        " { m = GlobalAveragePool(x) y = Flatten(m) }"
    )
    folder.mkdir()
    onnx.save(model, folder / "colour.onnx")
    preprocessing = parse_preprocessing(
        {"kind": "image", "scale": "1/255", "mean": [0.5, 0.4, 0.3], "std": 0.2, **declared}
    )
    request = PackageRequest(folder / "colour.onnx", "intel-cpu", folder / "bundle", preprocessing=preprocessing)
    return package(request, Progress()).path


@pytest.mark.cxx
@pytest.mark.parametrize("resize", ["stretch", "crop", "pad"])
@pytest.mark.parametrize("color", ["RGB", "BGR"])
def test_the_cpp_program_prepares_photos_as_the_python_program_does(
    resize: str, color: str, python_program: list[object], cpp_program: list[object], tmp_path: Path
) -> None:
    bundle = colour_bundle(tmp_path / "colour", resize=resize, color=color, crop_fraction=0.9)
    random = np.random.default_rng(3)
    pictures = []
    for position, size in enumerate([(100, 60), (31, 77), (64, 48)]):
        coarse = Image.fromarray(random.integers(0, 256, (5, 7, 3), np.uint8))
        pictures.append(tmp_path / f"{position}.png")
        coarse.resize(size, Image.Resampling.BICUBIC).save(pictures[-1])
    mine, others = (classify(program, bundle, pictures) for program in (cpp_program, python_program))
    for file, (label, probability) in others.items():
        assert mine[file][0] == label
        # The C++ program cuts at whole pixels of the photo, before it scales.
        assert abs(mine[file][1] - probability) < 0.02


@pytest.mark.cxx
def test_the_cpp_program_says_what_is_wrong(cpp_program: list[object], tmp_path: Path) -> None:
    done = subprocess.run([str(cpp_program[0]), str(tmp_path), "x.png"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no manifest.json" in done.stderr


@pytest.mark.parametrize(
    ("shape", "declared"),
    [
        *itertools.product(
            [(1, 3, 24, 32)],
            [
                {
                    "resize": resize,
                    "color": color,
                    "mean": [0.5, 0.4, 0.3],
                    "std": [0.1, 0.2, 0.3],
                    "interpolation": method,
                }
                for resize, color, method in (
                    ("crop", "RGB", "bicubic"),
                    ("pad", "BGR", "bilinear"),
                    ("stretch", "RGB", "lanczos"),
                )
            ],
        ),
        ((1, 24, 32, 3), {"resize": "crop", "crop_fraction": 0.8}),
        ((24, 32), {"resize": "pad", "pad_value": 114, "pad_align": "start", "layout": "HW"}),
        ((3, 24, 32), {"resize": "stretch", "color": "BGR"}),
    ],
)
def test_the_python_program_prepares_pictures_as_edgekit_does(
    shape: tuple[int, ...], declared: dict[str, object], python_module: ModuleType, tmp_path: Path
) -> None:
    spec = ValueSpec("x", "float32", shape)
    preprocessing = parse_preprocessing({"kind": "image", "scale": "1/255", **declared})
    file = tmp_path / "picture.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 41, 3), np.uint8)).save(file)
    record = preprocessing.resolve(spec).as_record()
    got = python_module.model_input(Image.open(file), record)
    np.testing.assert_array_equal(got, preprocessing.decoder(spec)(file))


@pytest.mark.cxx
def test_the_cpp_program_refuses_a_model_that_is_not_as_the_manifest_has_it(
    cpp_program: list[object],
    digits_bundle: Callable[[str, str], Path],
    test_digits: dict[Path, str],
    tmp_path: Path,
) -> None:
    bundle = tmp_path / "bundle"
    shutil.copytree(digits_bundle("digits-intel-cpu", "none"), bundle)
    weights = bytearray((bundle / "model.bin").read_bytes())
    weights[-1] ^= 1
    (bundle / "model.bin").write_bytes(weights)
    command = [str(part) for part in (*cpp_program, bundle, next(iter(test_digits)))]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    assert finished.returncode != 0
    assert "model.bin is not as the bundle's manifest has it" in finished.stdout + finished.stderr
