"""Arrays in the other byte order: runtimes read memory in the machine's own, whatever NumPy declares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit
from edgekit.loading import LoadedBundle


@pytest.fixture(scope="module")
def doubled(tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., object]) -> LoadedBundle:
    import onnx

    folder = tmp_path_factory.mktemp("doubled")
    onnx.save(onnx_model("f (float[1, 3] x) => (float[1, 3] y) { y = Add(x, x) }"), folder / "model.onnx")
    return edgekit.load(edgekit.package(folder / "model.onnx", "onnxruntime", folder / "out"))


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_array_is_read_in_its_own_byte_order(doubled: LoadedBundle, tmp_path: Path, order: str) -> None:
    numbers = np.array([[1.0, -2.5, 3.0]], f"{order}f4")
    np.savez(tmp_path / "sample.npz", x=numbers)
    for given in (numbers, {"x": numbers}, tmp_path / "sample.npz"):
        np.testing.assert_array_equal(doubled(given)["y"], [[2.0, -5.0, 6.0]])


@pytest.mark.parametrize("order", ["<", ">"])
def test_a_sample_is_compared_in_its_own_byte_order(
    doubled: LoadedBundle, tmp_path: Path, onnx_file: Callable[..., Path], order: str
) -> None:
    """The recorded outputs are the sums, so that an input that is misread fails."""
    data = tmp_path / "data"
    data.mkdir()
    x = np.array([[1.0, -2.5, 3.0]])
    np.savez(data / "0.npz", **{"x": x.astype(f"{order}f4"), "output:y": (2 * x).astype(f"{order}f4")})
    assert edgekit.verify(doubled.bundle.path, data=data).accuracy is not None
