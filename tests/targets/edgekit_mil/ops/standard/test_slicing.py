from __future__ import annotations

import numpy as np
import onnx
import pytest

import edgekit_coreml
from edgekit.errors import UnsupportedOpsError

X = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
FAR = np.iinfo(np.int64).max


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [
        ([1, 0], [3, 4], [0, 1], None),
        ([1], [FAR], [2], None),
        ([-2], [-1], [-1], None),
        ([0], [FAR], [1], [2]),
        ([-1], [-FAR], [0], [-1]),
        ([4], [0], [1], [-2]),
        ([100], [-100], [2], [-3]),
        ([-100], [100], [0], None),
        ([0, 0, 0], [4, 5, 6], None, None),
        ([0, 1, 2], [3, 4, 5], None, [2, 1, 3]),
    ],
    ids=str,
)
def test_ranges_agree(agrees, starts, ends, axes, steps):
    optional = [None if numbers is None else np.array(numbers) for numbers in (axes, steps)]
    agrees("Slice", [X, np.array(starts), np.array(ends), *optional], against="reference")


@pytest.mark.parametrize(
    ("starts", "ends", "axes", "steps"),
    [([-9], [-FAR], [0], [-2]), ([-1], [FAR], [1], [-1]), ([4], [2**31 - 1], [2], [-2])],
    ids=str,
)
def test_ranges_that_go_backwards_agree(agrees, starts, ends, axes, steps):
    """Where ONNX has other borders than Python."""
    agrees("Slice", [X, np.array(starts), np.array(ends), np.array(axes), np.array(steps)])


def test_empty_range_of_six_dimensions(lower):
    x = X.reshape(2, 2, 5, 1, 3, 2)
    (y,) = lower("Slice", [x, np.array([3]), np.array([1]), np.array([2])])
    assert y.shape == (2, 2, 0, 1, 3, 2)


def test_empty_range_has_no_elements(lower):
    (y,) = lower("Slice", [X, np.array([3]), np.array([3]), np.array([1])])
    assert y.shape == (4, 0, 6)


def test_bounds_computed_at_run_time_agree(agrees):
    inputs = [X, np.array([-3, 0]), np.array([FAR >> 40, 2]), np.array([2, 0])]
    agrees("Slice", inputs, fed=[0, 1, 2])


@pytest.mark.parametrize(("starts", "ends"), [([-9, 1], [2, 9]), ([0, -9], [-9, -1]), ([9, 0], [9, 1])], ids=str)
def test_computed_bounds_beyond_the_tensor_agree(agrees, starts, ends):
    agrees("Slice", [X, np.array(starts), np.array(ends), np.array([2, 1])], fed=[0, 1, 2])


@pytest.mark.parametrize(("start", "end"), [(-1, 1), (-2, -4), (2, 0), (-1, -(2**63))])
def test_open_size_backwards_to_an_end(tmp_path, start, end):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x) => (float[M, 2] y) <int64[1] s = {{{start}}}, '
        f"int64[1] e = {{{end}}}, int64[1] a = {{0}}, int64[1] back = {{-1}}> {{ y = Slice (x, s, e, a, back) }}"
    )
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"N": range(4, 7)})
    for size in (4, 6):
        x = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
        found = edgekit_coreml.load(package).run({"x": x})["y"]
        np.testing.assert_array_equal(found, x[start : None if end == -(2**63) else end : -1])


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, -2), (2, 2)])
def test_open_size_of_which_nothing_is_taken(tmp_path, start, end):
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[N, 2] x) => (float[M, 2] y) <int64[1] s = {{{start}}}, '
        f"int64[1] e = {{{end}}}, int64[1] a = {{0}}> {{ none = Slice (x, s, e, a) y = Concat <axis = 0> (none, x) }}"
    )
    package = edgekit_coreml.convert(model, tmp_path / "m", precision="float32", dimensions={"N": range(4, 7)})
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(edgekit_coreml.load(package).run({"x": x})["y"], x)


def test_attributes_of_opset_1_agree(agrees):
    agrees("Slice", [X], opset=9, starts=[1, -3], ends=[3, 1000], axes=[0, 2])


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
def test_concat_agrees(agrees, axis, dtype):
    x = (X > 50) if dtype == "bool" else X.astype(dtype)
    agrees("Concat", [x, x, x], fed=[0, 1], outputs=[dtype], axis=axis)


def test_concat_leaves_out_what_is_empty(agrees):
    agrees("Concat", [X[:0], X, X[:1]], fed=[0, 1], axis=0)


@pytest.mark.parametrize(
    ("split", "attributes", "count"),
    [
        (None, {"axis": 2}, 3),
        (np.array([1, 4]), {"axis": 1}, 2),
        (np.array([0, 4]), {"axis": 0}, 2),
        (None, {"axis": 1, "num_outputs": 2}, 2),
        (None, {"axis": 0, "num_outputs": 1}, 1),
    ],
    ids=str,
)
def test_split_agrees(agrees, split, attributes, count):
    if split is None and "num_outputs" not in attributes:
        agrees("Split", [X], outputs=["float32"] * count, opset=13, **attributes)
    else:
        inputs = [X] if split is None else [X, split]
        agrees("Split", inputs, outputs=["float32"] * count, opset=18, **attributes)


def test_split_by_attribute_agrees(agrees):
    agrees("Split", [X], outputs=["float32"] * 2, opset=11, axis=1, split=[2, 3])


@pytest.mark.parametrize("fed", [[0], [0, 1]])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_compress_agrees(agrees, fed, axis):
    condition = np.arange(4 if axis == 0 else 6) % 3 != 1
    attributes = {} if axis is None else {"axis": axis}
    agrees("Compress", [X, condition], fed=fed, **attributes)


@pytest.mark.parametrize("fed", [[0], [0, 1]])
def test_compress_ignores_what_a_condition_has_beyond_the_axis(agrees, fed):
    agrees("Compress", [X, np.ones(9, np.bool_)], fed=fed, axis=1)


def test_compress_to_nothing(lower):
    assert lower("Compress", [X, np.zeros(4, np.bool_)], axis=0)[0].shape == (0, 5, 6)


def test_axis_outside_of_the_tensor_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="axis 5 is outside a tensor of rank 3"):
        lower("Slice", [X, np.array([0]), np.array([1]), np.array([5])])
