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
from typing import Any

import numpy as np
import onnx
import pytest
from PIL import ExifTags, Image

import edgekit
from edgekit.model import ValueSpec
from edgekit.packaging.pipeline import package
from edgekit.packaging.request import PackageRequest
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
    assert max(abs(mine[file][1] - others[file][1]) for file in mine) < 0.0011  # printed with a digit after the point


SCORES = {
    "logits": "",
    "probabilities": "p = Softmax <axis = 1> (y)",
    "independent": "p = Sigmoid (y)",
    "number": "p = ArgMax <axis = 1, keepdims = 0> (y)",
    "own number": "a = ArgMax <axis = 1, keepdims = 0> (y) p = Gather (own, a)",
    "levels": "s = Softmax <axis = 1> (y) p = QuantizeLinear (s, step, nought)",
    "integers": "s = Softmax <axis = 1> (y) m = Mul (s, most) p = Cast <to = 2> (m)",
}
CLASSES: dict[str, dict[str, Any]] = {
    "number": {"scores": None},
    "own number": {"scores": None, "numbers": [5, 7, 9]},
    "levels": {"scores": "probabilities", "scale": 2.0**-8, "zero_point": 0},
}
"""What the manifest says of the output, if it is not just the kind of the scores."""


def scored_bundle(folder: Path, scores: str) -> Path:
    """A bundle of a classifier whose second output tells the class, by numbers of that kind."""
    kinds = {"number": "int64[1] p", "own number": "int64[1] p", "levels": "uint8[1, 3] p", "integers": "uint8[1, 3] p"}
    kind = kinds.get(scores, "float[1, 3] p")
    nodes = "p = MatMul (f, w)" if scores == "logits" else f"y = MatMul (f, w) {SCORES[scores]}"
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[1, 1, 2, 2] x) => (float[1, 3] other, {kind})'
        f" {{ f = Flatten (x) other = MatMul (f, v) {nodes} }}"
    )
    weights = np.array([[1, -1, 0.5], [0, 0.5, -0.5], [0.5, 0, 0], [0, 1, 0]], np.float32)
    constants = {"own": np.array([5, 7, 9]), "step": np.float32(2**-8), "nought": np.uint8(0), "most": np.float32(255)}
    used = {name: np.asarray(value) for name, value in constants.items() if name in nodes}
    for name, values in {"w": weights, "v": -weights, **used}.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    onnx.save(model, folder / "scored.onnx")
    (folder / "labels.txt").write_text("one\ntwo\nthree\n")
    config = folder / "edgekit.toml"
    config.write_text('[preprocessing]\nkind = "image"\nscale = "1/255"\n[outputs]\nclasses = "p"\n')
    made = edgekit.package(
        folder / "scored.onnx", "intel-cpu", folder / "bundle", labels=folder / "labels.txt", config=config
    )
    assert made.manifest["classes"] == {"output": "p", **CLASSES.get(scores, {"scores": scores})}
    return made.path


@pytest.mark.parametrize("scores", SCORES)
@pytest.mark.parametrize("program", ["python_program", pytest.param("cpp_program", marks=pytest.mark.cxx)])
def test_the_programs_read_scores_as_the_manifest_says(
    scores: str, program: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A softmax of what are probabilities already tells 45% where the model tells 92%.

    Of 8-bit probabilities the integer itself was told as one, such as 14400%; and a class that the model calls 5 is the
    first of three.
    """
    bundle = scored_bundle(tmp_path, scores)
    picture = tmp_path / "picture.png"
    Image.fromarray(np.array([[255, 0], [51, 102]], np.uint8)).save(picture)
    logits = np.array([1 + 0.2 * 0.5, -1 + 0.4, 0.5])  # of the pixels 1, 0, 0.2 and 0.4
    shares = {
        "logits": np.exp(logits) / np.exp(logits).sum(),
        "probabilities": np.exp(logits) / np.exp(logits).sum(),
        "independent": 1 / (1 + np.exp(-logits)),
        "levels": np.rint(np.exp(logits) / np.exp(logits).sum() * 256) / 256,
    }
    command = [str(part) for part in (*request.getfixturevalue(program), bundle, picture)]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    share = f"{100 * shares[scores].max():.1f}%, " if scores in shares else ""
    assert re.fullmatch(rf"{re.escape(str(picture))}: one \({share}[\d.]+ ms\)\n", printed), printed


COLOURS = {"mean": [0.5, 0.4, 0.3], "std": [0.1, 0.2, 0.3]}
PREPARED = [  # the input's dtype and shape, and what is declared
    ("float32", (1, 3, 24, 32), {"resize": "crop", "interpolation": "bicubic", **COLOURS}),
    ("float32", (1, 3, 24, 32), {"resize": "pad", "color": "BGR", **COLOURS}),
    ("float32", (1, 3, 24, 32), {"resize": "stretch", "interpolation": "lanczos", **COLOURS}),
    ("float32", (1, 24, 32, 3), {"resize": "crop", "crop_fraction": 0.8}),
    ("float32", (24, 32), {"resize": "pad", "pad_value": 114, "pad_align": "start", "layout": "HW"}),
    ("float32", (3, 24, 32), {"resize": "stretch", "color": "BGR", "interpolation": "nearest"}),
    ("uint8", (1, 1, 24, 32), {"resize": "pad", "scale": 1, "interpolation": "box"}),
    ("int8", (1, 1, 24, 32), {"resize": "stretch", "scale": 0.6}),  # 255 becomes 127, the type's greatest number
]


def weighing_bundle(folder: Path, dtype: str, shape: tuple[int, ...], declared: dict[str, object]) -> Path:
    """A bundle of a model with three scores, to which each number of its input gives a weight."""
    dims = ", ".join(map(str, shape))
    model = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g ({dtype.replace("float32", "float")}[{dims}] x)'
        " => (float[1, 3] y) <int64[2] flat = {1, -1}>"
        " { f = Cast <to = 1> (x) r = Reshape(f, flat) y = MatMul(r, w) }"
    )
    count = int(np.prod(shape))
    scale = 2.0 / np.sqrt(count) / (200 if dtype != "float32" else 2)
    weights = np.random.default_rng(5).normal(0, scale, (count, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, folder / "weighing.onnx")
    preprocessing = parse_preprocessing({"kind": "image", "scale": "1/255", **declared})
    request = PackageRequest(folder / "weighing.onnx", "intel-cpu", folder / "bundle", preprocessing=preprocessing)
    return package(request, Progress()).path


@pytest.mark.cxx
@pytest.mark.parametrize(("dtype", "shape", "declared"), PREPARED)
def test_the_cpp_program_prepares_photos_as_the_python_program_does(
    dtype: str,
    shape: tuple[int, ...],
    declared: dict[str, object],
    python_program: list[object],
    cpp_program: list[object],
    tmp_path: Path,
) -> None:
    bundle = weighing_bundle(tmp_path, dtype, shape, declared)
    random = np.random.default_rng(3)
    pictures = []
    for position, size in enumerate([(100, 60), (31, 77), (64, 48), (7, 9), (32, 24)]):
        pictures.append(tmp_path / f"{position}.png")
        Image.fromarray(random.integers(0, 256, (size[1], size[0], 3), np.uint8)).save(pictures[-1])
    mine, others = (classify(program, bundle, pictures) for program in (cpp_program, python_program))
    assert min(probability for _, probability in others.values()) < 0.9  # numbers that show a difference
    for file, (label, probability) in others.items():
        assert mine[file][0] == label
        assert mine[file][1] == pytest.approx(probability, abs=0.0011)  # printed with a digit after the point


@pytest.mark.cxx
def test_the_cpp_program_turns_photos_upright_as_the_python_program_does(
    python_program: list[object], cpp_program: list[object], tmp_path: Path
) -> None:
    bundle = weighing_bundle(tmp_path, "float32", (1, 3, 24, 32), {"resize": "stretch", **COLOURS})
    pixels = Image.fromarray(np.random.default_rng(4).integers(0, 256, (20, 30, 3), np.uint8))
    pictures = []
    for kind, endian, orientation in itertools.product(("png", "jpg"), "<>", range(1, 9)):
        exif = Image.Exif()
        exif.endian = endian
        exif[ExifTags.Base.Make] = "a camera"
        exif[ExifTags.Base.Orientation] = orientation
        pictures.append(tmp_path / f"{orientation}{'little' if endian == '<' else 'big'}.{kind}")
        pixels.save(pictures[-1], exif=exif.tobytes(), quality=100, subsampling=0)
    mine, others = (classify(program, bundle, pictures) for program in (cpp_program, python_program))
    assert len({answer for file, answer in others.items() if file.suffix == ".png"}) == 8  # each way gives another
    for file, (label, probability) in others.items():
        assert mine[file][0] == label
        # Two decoders of JPEG differ by a count or two.
        assert mine[file][1] == pytest.approx(probability, abs=0.0011 if file.suffix == ".png" else 0.02)


@pytest.mark.cxx
def test_the_cpp_program_says_what_is_wrong(cpp_program: list[object], tmp_path: Path) -> None:
    done = subprocess.run([str(cpp_program[0]), str(tmp_path), "x.png"], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "no manifest.json" in done.stderr


@pytest.mark.parametrize(("dtype", "shape", "declared"), PREPARED)
def test_the_python_program_prepares_pictures_as_edgekit_does(
    dtype: str, shape: tuple[int, ...], declared: dict[str, object], python_module: ModuleType, tmp_path: Path
) -> None:
    spec = ValueSpec("x", dtype, shape)
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
