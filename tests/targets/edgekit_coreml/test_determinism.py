"""The same model gives the same package, byte for byte, whatever process converts it."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

DIGITS = Path(__file__).parents[3] / "sample_apps/digits/digits_torchscript.onnx"
CASES = [
    (name, precision, compression)
    for name in ("digits", "recurrent")
    for precision, compression in (("float32", ""), ("auto", ""), ("float16", "palette4"))
]
CONVERT = """
import json, sys
from pathlib import Path
import edgekit_coreml
for source, out, precision, compression in json.loads(sys.argv[1]):
    edgekit_coreml.convert(
        Path(source), Path(out), precision=precision, compression=compression or None, dimensions={"batch": range(1, 3)}
    )
"""
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("core-ml-determinism")]


def package_of(folder: Path, case: tuple[str, str, str]) -> Path:
    return folder / f"{'-'.join(case)}.mlpackage"


def convert(cases: list[tuple[str, str, str]], sources: dict[str, Path], folder: Path, hash_seed: int) -> None:
    """Converts the models one after another in a separate process."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    orders = [(str(sources[case[0]]), str(package_of(folder, case)), *case[1:]) for case in cases]
    command = [sys.executable, "-c", CONVERT, json.dumps(orders)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""


def hashes(package: Path) -> dict[str, str]:
    """SHA-256 of every file."""
    files = sorted(file for file in package.rglob("*") if file.is_file())
    return {file.relative_to(package).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture(scope="module")
def converted(recurrent: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders with every package; the second process converts in the other order, with another seed of hashes."""
    sources = {"digits": DIGITS, "recurrent": recurrent}
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    convert(CASES, sources, first, 1)
    convert(CASES[::-1], sources, second, 4242)
    return first, second


@pytest.fixture(scope="module")
def recurrent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a loop, a branch and a recurrent layer."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["": 17]> f (float[3, 1, 8] x, int64 turns) => (float[3, 1, 2, 32] y) {
        always = Constant <value = bool {1}> ()
        grown = Loop (turns, always, x) <body = b (int64 i, bool c, float[3, 1, 8] v)
            => (bool d, float[3, 1, 8] s) { d = Identity (c) s = Add (v, v) }>
        raw, h, c = LSTM <direction = "bidirectional", hidden_size = 32> (grown, w, r)
        sum = ReduceSum <keepdims = 0> (x)
        zero = Constant <value = float {0}> ()
        positive = Greater (sum, zero)
        turned = If (positive) <then_branch = t () => (float[3, 2, 1, 32] a) { a = Tanh (raw) },
            else_branch = e () => (float[3, 2, 1, 32] n) { n = Neg (raw) }>
        y = Transpose <perm = [0, 2, 1, 3]> (turned)
        }"""
    )
    rng = np.random.default_rng(0)
    for name, shape in (("w", (2, 128, 8)), ("r", (2, 128, 32))):
        array = rng.standard_normal(shape, dtype=np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    path = tmp_path_factory.mktemp("recurrent") / "recurrent.onnx"
    onnx.save(model, path)
    return path


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_processes_agree(converted: tuple[Path, Path], case: tuple[str, str, str]) -> None:
    first, second = (hashes(package_of(folder, case)) for folder in converted)
    assert "Data/com.apple.CoreML/weights/weight.bin" in first
    assert first == second
