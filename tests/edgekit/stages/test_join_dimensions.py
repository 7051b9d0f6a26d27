"""Dimensions to which a file gives two names, and which are one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import edgekit
from edgekit.graph.sizes.joined_names import alike_by_samples
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.model import ValueSpec
from edgekit.reporting.summary import stage_record

OnnxFile = Callable[..., Path]
# Numbers that are added one to one: the two have one size.
TOGETHER = "g (float[p, 3] x, float[q, 3] z) => (float[r, 3] y) { y = Add(x, z) }"
# A product of every number of x with the sum of z: the two may have any sizes.
APART = "g (float[p, 3] x, float[q, 3] z) => (float[p, 3] y) { s = ReduceSum <keepdims = 1> (z) y = Mul(x, s) }"
# As T5's encoder reads its mask: of a longer one the first numbers count.
CUT = """g (float[p, 3] x, float[q, 3] z) => (float[r, 3] y) {
    rows = Shape <end = 1> (x)
    start = Constant <value_ints = [0]> ()
    first = Slice (z, start, rows)
    y = Add (x, first)
}"""
WARNING = (
    "dimension 0 of input 'z' is called 'p', in the file 'q': in every sample it has the size of dimension 0 of input "
    "'x', and the model does not always run where they differ"
)


def drawn(folder: Path, *sizes: int) -> Path:
    folder.mkdir()
    for number, size in enumerate(sizes):
        rng = np.random.default_rng(number)
        x, z = (rng.standard_normal((size, 3)).astype(np.float32) for _ in range(2))
        np.savez(folder / f"{number}.npz", x=x, z=z)
    return folder


@pytest.mark.parametrize(
    ("graph", "dimensions", "warnings"),
    [
        (TOGETHER, {"p": range(4, 10)}, [WARNING]),
        (CUT, {"p": range(4, 10)}, [WARNING]),
        (APART, {"p": range(4, 10), "q": range(4, 10)}, []),
    ],
)
def test_dimensions_are_joined_where_the_model_does_not_run_otherwise(
    tmp_path: Path, onnx_file: OnnxFile, graph: str, dimensions: dict[str, range], warnings: list[str]
) -> None:
    model, data = onnx_file(graph), drawn(tmp_path / "data", 4, 9, 6)
    bundle = edgekit.package(model, "ios18", tmp_path / "out", data=data, quantize="none")
    assert bundle.open_dims == dimensions
    assert stage_record(bundle.manifest, "join dimensions")["warnings"] == warnings
    assert edgekit.verify(bundle, data=data, model=model).accuracy is not None


# What is new follows the past, and the mask is as long as both.
MASKED = """g (float[1, 3] k, float[p, 3] past, float[t, 3] mask) => (float[t, 3] y) {
    both = Concat <axis = 0> (past, k)
    y = Mul(both, mask)
}"""
# The mask says nothing but how much of it is set: it may have any length.
COUNTED = """g (float[1, 3] k, float[p, 3] past, float[t, 3] mask) => (float[r, 3] y) {
    both = Concat <axis = 0> (past, k)
    some = ReduceMean <keepdims = 1> (mask)
    y = Mul(both, some)
}"""


@pytest.mark.parametrize(
    ("graph", "shape", "dimensions"),
    [(MASKED, ("p + 1", 3), {"p": range(2, 8)}), (COUNTED, ("t", 3), {"p": range(2, 8), "t": range(3, 9)})],
)
def test_a_dimension_is_a_sum_where_the_model_does_not_run_otherwise(
    tmp_path: Path, onnx_file: OnnxFile, graph: str, shape: tuple[str, int], dimensions: dict[str, range]
) -> None:
    (tmp_path / "data").mkdir()
    for number, past in enumerate((2, 7, 4)):
        rng = np.random.default_rng(number)
        sizes = {"k": 1, "past": past, "mask": past + 1}
        arrays = {name: rng.standard_normal((size, 3)).astype(np.float32) for name, size in sizes.items()}
        np.savez(tmp_path / "data" / f"{number}.npz", **arrays)
    model = onnx_file(graph)
    bundle = edgekit.package(model, "ios18", tmp_path / "out", data=tmp_path / "data", quantize="none")
    assert bundle.open_dims == dimensions
    assert [feature.shape for feature in bundle.inputs] == [(1, 3), ("p", 3), shape]
    warnings = stage_record(bundle.manifest, "join dimensions")["warnings"]
    assert warnings == (
        [
            "dimension 0 of input 'mask' is called 'p + 1', in the file 't': in every sample it has the sum of these "
            "sizes, and the model does not always run where they differ"
        ]
        if graph == MASKED
        else []
    )
    assert edgekit.verify(bundle, data=tmp_path / "data", model=model).accuracy is not None


def test_a_device_that_takes_any_size_is_not_asked(tmp_path: Path, onnx_file: OnnxFile) -> None:
    model, data = onnx_file(TOGETHER), drawn(tmp_path / "data", 4, 9, 6)
    bundle = edgekit.package(model, "onnxruntime", tmp_path / "out", data=data, quantize="none")
    assert [feature.shape for feature in bundle.inputs] == [("p", 3), ("q", 3)]


def spec(name: str, *shape: str | int) -> ValueSpec:
    return ValueSpec(name, "float32", shape)


def test_the_inputs_differ_in_nothing_else_where_it_is_tried() -> None:
    inputs = [spec("ids", "b1", "s1"), spec("mask", "b2", "s2")]
    shapes = [{"ids": size, "mask": size} for size in [(1, 5), (2, 7), (2, 5), (1, 7)]]
    batch, steps = alike_by_samples(inputs, shapes)
    assert (batch.size, batch.other, batch.places, batch.apart) == ("b1", "b2", (("mask", 0),), (0, 2))
    assert (steps.size, steps.other, steps.places, steps.apart) == ("s1", "s2", (("mask", 1),), (0, 3))
    assert alike_by_samples(inputs, shapes, ShapeRequest({"s2": 5})) == [batch]


def test_a_name_that_both_inputs_have_has_one_size_where_it_is_tried() -> None:
    inputs = [spec("x", "n", "p"), spec("z", "n", "q")]
    shapes = [{"x": size, "z": size} for size in [(2, 5), (3, 7), (3, 5)]]
    (alike,) = alike_by_samples(inputs, shapes)
    assert (alike.size, alike.other, alike.apart) == ("p", "q", (1, 2))
    assert alike_by_samples(inputs, shapes[:2]) == []


def test_sizes_that_broadcast_come_last() -> None:
    """An empty past has one number where one is new, which goes with any number."""
    inputs = [spec("k", 1, "p"), spec("v", 1, "q")]
    (alike,) = alike_by_samples(inputs, [{"k": (1, size), "v": (1, size)} for size in (0, 1, 2, 3)])
    assert alike.apart == (2, 3)
    (alike,) = alike_by_samples(inputs, [{"k": (1, size), "v": (1, size)} for size in (0, 2)])
    assert alike.apart == (0, 1)


def test_two_dimensions_of_one_input_stay_two() -> None:
    inputs = [spec("image", 1, "h", "w")]
    assert alike_by_samples(inputs, [{"image": (1, size, size)} for size in (4, 6)]) == []


def test_a_sum_of_two_dimensions_is_one_where_they_vary() -> None:
    inputs = [spec("ids", 1, "new"), spec("mask", 1, "total"), spec("past", "old", 8)]
    shapes = [
        {"ids": (1, new), "mask": (1, new + old), "past": (old, 8)} for new, old in [(1, 4), (2, 4), (3, 9), (1, 5)]
    ]
    (alike,) = alike_by_samples(inputs, shapes)
    assert (alike.size, alike.other, alike.places) == ("new + old", "total", (("mask", 1),))
    assert alike.apart == (0, 1)
    shapes[3]["mask"] = (1, 7)
    assert alike_by_samples(inputs, shapes) == []


def test_a_sum_that_samples_contradict_gives_way_to_theirs() -> None:
    """optimum writes ``past + 1`` for a mask of all tokens, of which several may be new."""
    inputs = [spec("ids", 1, "new"), spec("mask", 1, "old + 1"), spec("past", "old", 8)]
    shapes = [
        {"ids": (1, new), "mask": (1, new + old), "past": (old, 8)} for new, old in [(1, 4), (2, 4), (3, 9), (1, 5)]
    ]
    (alike,) = alike_by_samples(inputs, shapes)
    assert (alike.size, alike.other, alike.is_stated) == ("new + old", "old + 1", True)
    only_one_is_new = [{**sizes, "ids": (1, 1), "mask": (1, sizes["past"][0] + 1)} for sizes in shapes]
    assert alike_by_samples(inputs, only_one_is_new) == []


STATED = """g (float[n, 3] k, float[p, 3] past, float["p + 1", 3] mask) => (float[r, 3] y) {
    both = Concat <axis = 0> (past, k)
    y = Mul(both, mask)
}"""


def test_several_new_tokens_where_the_file_says_one(tmp_path: Path, onnx_file: OnnxFile) -> None:
    (tmp_path / "data").mkdir()
    for number, (past, new) in enumerate([(2, 1), (7, 3), (4, 2)]):
        rng = np.random.default_rng(number)
        sizes = {"k": new, "past": past, "mask": past + new}
        arrays = {name: rng.standard_normal((size, 3)).astype(np.float32) for name, size in sizes.items()}
        np.savez(tmp_path / "data" / f"{number}.npz", **arrays)
    model = onnx_file(STATED)
    bundle = edgekit.package(model, "ios18", tmp_path / "out", data=tmp_path / "data", quantize="none")
    assert bundle.open_dims == {"n": range(1, 4), "p": range(2, 8)}
    assert stage_record(bundle.manifest, "join dimensions")["warnings"] == [
        "dimension 0 of input 'mask' is called 'n + p', in the file 'p + 1': in every sample it is n + p, and in "
        "some samples this differs from what the file says"
    ]
    assert edgekit.verify(bundle, data=tmp_path / "data", model=model).accuracy is not None
