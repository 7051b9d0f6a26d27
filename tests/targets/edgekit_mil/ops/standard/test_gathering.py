from __future__ import annotations

import numpy as np
import onnx
import pytest

from edgekit.errors import UnsupportedOpsError

X = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
TYPES = pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
FED = pytest.mark.parametrize("fed", [[0], [0, 1]])


def of_type(x, dtype):
    return x % 2 == 0 if dtype == "bool" else x.astype(dtype)


@TYPES
@FED
@pytest.mark.parametrize(
    ("indices", "axis"), [([0, -1, 2], 0), ([[1, 0], [-4, 3]], 1), (2, -1), (-1, 0), ([0], 2)], ids=str
)
def test_gather_agrees(agrees, dtype, fed, indices, axis):
    agrees("Gather", [of_type(X, dtype), np.array(indices)], fed=fed, outputs=[dtype], axis=axis)


def test_gather_from_a_vector(agrees):
    agrees("Gather", [X[0, 0], np.array(-2)])


@TYPES
@FED
def test_gather_elements_agrees(agrees, dtype, fed):
    indices = np.array([[[0, -1, 2, 1, 3]], [[3, 2, 1, 0, -4]]])
    agrees("GatherElements", [of_type(X, dtype), indices], fed=fed, outputs=[dtype], axis=1)


@TYPES
@FED
@pytest.mark.parametrize(
    ("indices", "batch"), [([[0, 1], [-1, 3]], 0), ([[[2, 1, 0]]], 0), ([[1], [-1], [0]], 1)], ids=str
)
def test_gather_nd_agrees(agrees, dtype, fed, indices, batch):
    agrees("GatherND", [of_type(X, dtype), np.array(indices)], fed=fed, outputs=[dtype], batch_dims=batch)


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_scatter_elements_agrees(agrees, rng, reduction, dtype):
    indices = np.array([[0, -1], [2, 0]])
    updates = rng.integers(1, 9, (2, 2)).astype(dtype)
    data = rng.integers(1, 9, (2, 4)).astype(dtype)
    agrees(
        "ScatterElements", [data, indices, updates], fed=[0, 1, 2], outputs=[dtype], axis=1, reduction=reduction
    )  # fmt: skip


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter_nd_agrees(agrees, rng, reduction):
    updates = rng.standard_normal((2, 5)).astype(np.float32)
    agrees("ScatterND", [X, np.array([[0, 1], [-1, 3]]), updates], fed=[0, 1, 2], reduction=reduction)


def test_truth_values_are_scattered(agrees):
    data = np.zeros((2, 3), np.bool_)
    agrees("ScatterND", [data, np.array([[1]]), np.array([[True, False, True]])], fed=[0, 2], outputs=["bool"])


def test_bytes_scattered_wrap_before_they_are_read(convert_graph):
    nodes = [
        onnx.helper.make_node("ScatterElements", ["x", "places", "added"], ["s"], reduction="add"),
        onnx.helper.make_node("Cast", ["s"], ["y"], to=onnx.TensorProto.INT32),
    ]
    feeds = {"x": np.array([250, 1], np.uint8)}
    constants = {"places": np.array([0]), "added": np.array([10], np.uint8)}
    np.testing.assert_array_equal(convert_graph(nodes, feeds, {"y": "int32"}, constants).run(feeds)["y"], [4, 1])


def test_bytes_scattered_wrap_around(lower):
    data, places, added = np.array([250, 1], np.uint8), np.array([0]), np.array([10], np.uint8)
    (result,) = lower("ScatterElements", [data, places, added], fed=[0, 2], outputs=["uint8"], reduction="add")
    np.testing.assert_array_equal(result, [4, 1])


@TYPES
def test_places_of_what_is_not_zero(agrees, dtype):
    agrees("NonZero", [of_type(X % 3, dtype)], outputs=["int64"])


ALL_PLACES = np.moveaxis(np.indices((1, 2, 3, 2, 2)), 0, -1)
"""Index tuples of six dimensions, as PyTorch's older exporter writes them for ``x[..., :2] = y`` of a detector."""


@pytest.mark.parametrize("fed", [[0, 2], [0, 1, 2]])
def test_index_tuples_of_six_dimensions_are_written_to(agrees, rng, fed):
    x, new = rng.standard_normal((1, 2, 3, 2, 4)), rng.standard_normal((1, 2, 3, 2, 2))
    agrees("ScatterND", [x.astype(np.float32), ALL_PLACES, new.astype(np.float32)], fed=fed)


@pytest.mark.parametrize("fed", [[0], [0, 1]])
def test_index_tuples_of_six_dimensions_are_read_from(agrees, rng, fed):
    agrees("GatherND", [rng.standard_normal((1, 2, 3, 2, 4)).astype(np.float32), ALL_PLACES], fed=fed)


def test_slices_of_a_tensor_of_six_dimensions_are_written(agrees, rng):
    x, new = rng.standard_normal((1, 2, 3, 2, 2, 2)), rng.standard_normal((2, 2, 2, 2))
    places = np.array([[0, 1, 2], [0, -1, 0]])
    agrees("ScatterND", [x.astype(np.float32), places, new.astype(np.float32)], fed=[0, 1, 2])


@pytest.mark.parametrize("batch", [0, 1])
def test_tuples_that_index_almost_all_of_six_dimensions(agrees, rng, batch):
    places = np.tile([1, -1, 1, 0, 1], (2, 3, 1))
    agrees(
        "GatherND",
        [rng.standard_normal((2, 2, 3, 2, 2, 2)).astype(np.float32), places],
        fed=[0, 1],
        batch_dims=batch,
    )


@pytest.mark.parametrize("shape", [(2, 3, 2, 2, 2), (1, 2, 3, 2, 2, 2)], ids=len)
@pytest.mark.parametrize("axis", [0, 2, -1])
def test_elements_of_a_part_of_many_dimensions(agrees, rng, shape, axis):
    part = list(shape)
    part[axis] = part[-2] = 1
    x, new = (rng.standard_normal(sizes).astype(np.float32) for sizes in (shape, part))
    agrees("ScatterElements", [x, np.full(part, -1), new], fed=[0, 1, 2], axis=axis, reduction="add")
    agrees("GatherElements", [x, np.full(part, -1)], fed=[0, 1], axis=axis)


def test_more_indices_than_elements_beside_the_axis_are_refused(lower):
    with pytest.raises(UnsupportedOpsError, match=r"has indices 4×2×5 for data 3×4×5: only along axis 1"):
        lower("GatherElements", [X, np.zeros((4, 2, 5), np.int64)], axis=1)
