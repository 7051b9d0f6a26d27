from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit.cli import main

DIGITS = Path(__file__).parents[2] / "sample_apps" / "digits"


@pytest.fixture(scope="session")
def digits() -> Path:
    """The sample model: `image` (batch×1×28×28) to `logits` (batch×10)."""
    return DIGITS / "digits_torchscript.onnx"


@pytest.fixture(scope="session")
def labelled_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty labelled pictures, and beside their folder the project file that tells how they become inputs."""
    project = tmp_path_factory.mktemp("digits")
    data = project / "samples"
    data.mkdir()
    shutil.copy(DIGITS / "edgekit.toml", project)
    head, *rows = (DIGITS / "samples" / "test" / "labels.csv").read_text().splitlines()[:21]
    for row in rows:
        shutil.copy(DIGITS / "samples" / "test" / row.split(",")[0], data)
    (data / "labels.csv").write_text("\n".join([head, *rows]) + "\n")
    return data


@pytest.fixture(scope="session")
def packaged_digits(
    tmp_path_factory: pytest.TempPathFactory, digits: Path, labelled_digits: Path, short_measurements: None
) -> Path:
    """A bundle of the sample model for ONNX Runtime; tests that change it take a copy."""
    del short_measurements  # only its effect counts
    bundle = tmp_path_factory.mktemp("bundle") / "digits"
    options = ["--target", "onnxruntime", "--data", str(labelled_digits), "--quantize", "none", "--dim", "batch=1"]
    options += ["--name", "digits_torchscript"]
    assert main(["package", str(digits), *options, "-o", str(bundle), "--quiet"]) == 0
    return bundle


@pytest.fixture
def bundle(packaged_digits: Path, tmp_path: Path) -> Path:
    """A bundle that a test may change."""
    return Path(shutil.copytree(packaged_digits, tmp_path / "digits"))


@pytest.fixture
def perceptron(onnx_file: Callable[..., Path]) -> Path:
    rng = np.random.default_rng(0)
    return onnx_file(
        "f (float[1, 64] x) => (float[1, 32] y) { a = MatMul(x, v) b = Relu(a) y = MatMul(b, w) }",
        v=rng.standard_normal((64, 256)).astype(np.float32),
        w=rng.standard_normal((256, 32)).astype(np.float32),
    )


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Samples for the perceptron."""
    folder = tmp_path / "data"
    folder.mkdir()
    for seed in range(8):
        np.savez(folder / f"{seed}.npz", x=np.random.default_rng(seed).standard_normal((1, 64)).astype(np.float32))
    return folder
