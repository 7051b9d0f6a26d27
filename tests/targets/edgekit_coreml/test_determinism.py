"""The same model gives the same package, byte for byte, whatever process converts it."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest

DIGITS = Path(__file__).parents[3] / "sample_apps/digits/digits_torchscript.onnx"
CONVERT = """
import sys
from pathlib import Path
import edgekit_coreml
source, out, precision, compression = sys.argv[1:]
sizes = {"batch": range(1, 3)}
edgekit_coreml.convert(Path(source), Path(out), precision=precision, compression=compression or None, dimensions=sizes)
"""


def converted(source: Path, out: Path, hash_seed: int, precision: str, compression: str) -> dict[str, str]:
    """SHA-256 of every file of the package that a process of its own writes."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CONVERT, str(source), str(out), precision, compression]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == done.stderr == ""
    files = sorted(file for file in out.rglob("*") if file.is_file())
    return {file.relative_to(out).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}


@pytest.fixture
def recurrent(tmp_path: Path) -> Path:
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
    onnx.save(model, tmp_path / "recurrent.onnx")
    return tmp_path / "recurrent.onnx"


@pytest.mark.slow
@pytest.mark.parametrize(("precision", "compression"), [("float32", ""), ("auto", ""), ("float16", "palette4")])
@pytest.mark.parametrize("name", ["digits", "recurrent"])
def test_processes_agree(name: str, precision: str, compression: str, recurrent: Path, tmp_path: Path) -> None:
    source = DIGITS if name == "digits" else recurrent
    first, second = (
        converted(source, tmp_path / f"{seed}.mlpackage", seed, precision, compression) for seed in (1, 4242)
    )
    assert "Data/com.apple.CoreML/weights/weight.bin" in first
    assert first == second
