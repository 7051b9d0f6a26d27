"""Sizes that do not fit each other are refused by a loaded bundle in words, whatever its runtime makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit
from edgekit.errors import InputError
from edgekit.loading import LoadedBundle

CACHE = """
g (float[1, seq, 2] x, float[1, past, 2] cache, float[1, past + seq, 2] mask)
    => (float[1, past + seq, 2] y) {
    all = Concat <axis = 1> (cache, x)
    y = Mul (all, mask)
}
"""


@pytest.fixture(scope="module", params=["onnxruntime", "ios18"])
def cached(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, onnx_model: Callable[..., object]
) -> LoadedBundle:
    """A step of a model with a cache, whose sizes stay free, or open for a range."""
    import onnx

    folder = tmp_path_factory.mktemp("cached")
    model = onnx_model(CACHE.replace("past + seq", "total"))
    for value in (model.graph.input[2], model.graph.output[0]):
        value.type.tensor_type.shape.dim[1].dim_param = "past + seq"
    onnx.save(model, folder / "model.onnx")
    dims = {"past": "2..8", "seq": "1..4"} if request.param == "ios18" else {}
    return edgekit.load(
        edgekit.package(folder / "model.onnx", request.param, folder / "bundle", dims=dims, data=steps(folder))
    )


def steps(folder: Path) -> Path:
    (folder / "data").mkdir()
    for number in range(4):
        np.savez(folder / f"data/{number}.npz", **feeds(1 + number, 2 + number, 3 + 2 * number))
    return folder / "data"


def feeds(new: int, past: int, mask: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(new)
    sizes = {"x": new, "cache": past, "mask": mask}
    return {name: rng.normal(size=(1, size, 2)).astype(np.float32) for name, size in sizes.items()}


def test_sizes_that_fit(cached: LoadedBundle) -> None:
    given = feeds(2, 3, 5)
    expected = np.concatenate([given["cache"], given["x"]], 1) * given["mask"]
    found = cached(given)
    assert isinstance(found, dict)
    np.testing.assert_allclose(found["y"], expected, rtol=1e-2, atol=1e-2)


def test_a_size_that_is_no_sum(cached: LoadedBundle) -> None:
    with pytest.raises(InputError) as error:
        cached(feeds(2, 3, 6))
    assert str(error.value) == (
        "input 'mask': there are two sizes for dimension 'past + seq'\n"
        "expected: 5 in input 'mask', where past is 3 in input 'cache', seq is 2 in input 'x'\n"
        "found: 6"
    )


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        (lambda given: given.pop("mask"), "add mask"),
        (lambda given: given.update(ids=np.zeros(1)), "leave out ids: the model has no such input"),
    ],
)
def test_arrays_that_are_missing_or_too_many(
    cached: LoadedBundle, change: Callable[[dict[str, np.ndarray]], object], hint: str
) -> None:
    given = feeds(2, 3, 5)
    change(given)
    with pytest.raises(InputError, match="the arrays are not named as the model's inputs") as error:
        cached(given)
    assert error.value.hint == hint


@pytest.mark.parametrize("mask", [np.bool_, np.int32, np.uint8, np.int64])
def test_whole_numbers_and_booleans_of_another_type(
    onnx_file: Callable[..., Path], tmp_path: Path, mask: type[np.generic]
) -> None:
    model = onnx_file("g (int64[1, 3] ids, int64[1, 3] mask) => (int64[1, 3] y) { y = Mul (ids, mask) }")
    loaded = edgekit.load(edgekit.package(model, "onnxruntime", tmp_path / "out"))
    found = loaded({"ids": np.array([[7, 8, 9]], np.int32), "mask": np.array([[1, 0, 1]], mask)})
    assert isinstance(found, dict)
    np.testing.assert_array_equal(found["y"], [[7, 0, 9]])
    for wrong in (np.array([[1.0, 0, 1]], np.float32), np.array([[2**64 - 1, 0, 1]], np.uint64)):
        with pytest.raises(InputError, match="the array's element type is not the model's"):
            loaded({"ids": np.array([[7, 8, 9]]), "mask": wrong})
