"""Weight files beside those of Apple's own writer, which coremltools' wheel for this machine ships."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgekit_mil.core.mil import types
from edgekit_mil.core.weight_file import WeightFile

NARROW = ("int4", "uint1", "uint2", "uint3", "uint4", "uint6")
WHOLE = {
    "float": "float32",
    "fp16": "uint16",
    **{name: name for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32")},
}

CONVERT = """
import sys
if sys.argv[3] == "without":
    sys.modules["coremltools.libmilstoragepython"] = None
import edgekit_coreml
edgekit_coreml.convert(sys.argv[1], sys.argv[2])
"""


def test_holds_the_same_bytes(rng: np.random.Generator, tmp_path: Path) -> None:
    native = pytest.importorskip("coremltools.libmilstoragepython", reason="coremltools has no native library here")
    arrays = [(name, rng.integers(0, 256, 404, np.uint8).view(dtype)) for name, dtype in WHOLE.items()]
    for name in NARROW:
        levels = rng.integers(-8, 8, 61) if name == "int4" else rng.integers(0, 2 ** int(name[-1]), 61)
        arrays.append((name, levels.astype(types.nptype_from_builtin(types.string_to_builtin(name)))))
    apple, ours = native._BlobStorageWriter(str(tmp_path / "apple.bin")), WeightFile(str(tmp_path / "ours.bin"))
    for name, array in [*arrays, *((name, array[:1]) for name, array in arrays)]:
        offsets = [getattr(writer, f"write_{name}_data")(array) for writer in (apple, ours)]
        assert offsets[0] == offsets[1], name
    del apple  # it writes what is left
    assert (tmp_path / "ours.bin").read_bytes() == (tmp_path / "apple.bin").read_bytes()


def test_is_written_where_coremltools_has_no_writer(onnx_file: Callable[..., Path], tmp_path: Path) -> None:
    """A process whose coremltools lacks the native library, as pip builds it on arm64 Linux and on Windows."""
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 64)).astype(np.float32)
    model = onnx_file("f (float[1, 64] x) => (float[1, 64] y) { y = MatMul(x, w) }", w=weights)
    for how in ("with", "without"):
        subprocess.run([sys.executable, "-c", CONVERT, str(model), str(tmp_path / how), how], check=True)
    of_apple, of_ours = (
        {file.name: file.read_bytes() for file in (tmp_path / f"{how}.mlpackage").rglob("weight.bin")}
        for how in ("with", "without")
    )
    assert of_apple == of_ours
    assert len(of_ours) == 1
