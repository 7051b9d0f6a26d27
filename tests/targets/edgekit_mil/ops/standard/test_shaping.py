from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError


def tensor(*shape, dtype=np.float32):
    return np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("shape", [[6, 4], [-1], [0, -1], [0, 0, 2, 2], [4, 1, 6], [-1, 0, 2]])
def test_reshape_agrees(agrees, shape):
    agrees("Reshape", [tensor(2, 3, 4), np.array(shape)])


def test_reshape_to_and_from_a_scalar(agrees):
    agrees("Reshape", [tensor(1, 1), np.array([], np.int64)])
    agrees("Reshape", [np.array(3.0, np.float32), np.array([1, 1])])


def test_zero_is_a_size_where_allowed(lower):
    (y,) = lower("Reshape", [np.zeros((0, 3, 4), np.float32), np.array([3, 4, 0])], allowzero=1)
    assert y.shape == (3, 4, 0)


def test_a_computed_shape_with_sizes_of_zero_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="which Core ML reads as one to keep"):
        lower("Reshape", [np.zeros((0, 3, 4), np.float32), np.array([3, 4, 0])], fed=[0, 1], allowzero=1)


def test_a_computed_shape_of_elements_is_taken(agrees):
    agrees("Reshape", [tensor(2, 3, 4), np.array([4, -1])], fed=[0, 1], allowzero=1)


def test_shape_of_another_size_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match=r"\[2, 3\] cannot be reshaped to \[4, 2\]"):
        lower("Reshape", [tensor(2, 3), np.array([4, 2])])


@pytest.mark.parametrize("shape", [[6, 4], [0, -1], [-1], [2, 0, 2, 2], [1, 2, 3, -1]])
def test_shape_is_computed_at_run_time(agrees, shape):
    agrees("Reshape", [tensor(2, 3, 4), np.array(shape)], fed=[0, 1])


@pytest.mark.parametrize("axis", [0, 1, 3, -1])
def test_flatten_agrees(agrees, axis):
    agrees("Flatten", [tensor(2, 3, 4)], axis=axis)


@pytest.mark.parametrize("axes", [None, [0], [-1, 0]])
def test_squeeze_agrees(agrees, axes):
    inputs = [tensor(1, 3, 1)] if axes is None else [tensor(1, 3, 1), np.array(axes)]
    agrees("Squeeze", inputs)


@pytest.mark.parametrize("axes", [[0], [-1], [1, 3]])
def test_unsqueeze_agrees(agrees, axes):
    agrees("Unsqueeze", [tensor(2, 3), np.array(axes)])
    agrees("Unsqueeze", [tensor(2, 3)], opset=11, axes=axes)


@pytest.mark.parametrize("attributes", [{}, {"start": 1}, {"start": -2, "end": -1}], ids=str)
def test_shape_is_known(agrees, attributes):
    agrees("Shape", [tensor(2, 3, 4)], outputs=["int64"], **attributes)


def test_size_is_known(agrees):
    agrees("Size", [tensor(2, 3, 4)], outputs=["int64"])


@pytest.mark.parametrize("perm", [None, [2, 0, 1], [0, 2, 1]])
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_])
def test_transpose_agrees(agrees, perm, dtype):
    attributes = {} if perm is None else {"perm": perm}
    agrees("Transpose", [tensor(2, 3, 4, dtype=dtype)], outputs=[np.dtype(dtype).name], **attributes)


@pytest.mark.parametrize("shape", [[2, 3, 4], [1], [5, 1, 3, 4], [3, 1]])
def test_expand_agrees(agrees, shape):
    agrees("Expand", [tensor(3, 1), np.array(shape)])


def test_expand_to_nothing(lower):
    assert lower("Expand", [tensor(3, 1), np.array([3, 0])])[0].shape == (3, 0)


@pytest.mark.parametrize("repeats", [[1, 1], [2, 3], [1, 0]])
def test_tile_agrees(agrees, repeats):
    agrees("Tile", [tensor(2, 3), np.array(repeats)], against="reference")


def test_dropout_keeps_everything_in_inference(agrees):
    agrees("Dropout", [tensor(2, 3), np.array(0.7, np.float32)], outputs=["float32", "bool"])


@pytest.mark.parametrize(("opset", "mask"), [(7, "float32"), (10, "bool")])
def test_the_mask_of_a_dropout_without_a_ratio_as_input(agrees, opset, mask):
    """It has the input's type up to opset 9."""
    agrees("Dropout", [tensor(2, 3)], opset=opset, outputs=["float32", mask], ratio=0.3)


def test_dropout_in_training_is_refused(lower):
    with pytest.raises(UnsupportedOpsError, match="at random"):
        lower("Dropout", [tensor(2, 3), np.array(0.7, np.float32), np.array(True)])


@pytest.mark.parametrize("perm", [[2, 0, 2], [0, 1], [1, 2, 3]])
def test_an_order_that_lacks_an_axis_is_refused(lower, perm):
    with pytest.raises(UnsupportedOpsError, match="a tensor of rank 3 needs each of its axes once"):
        lower("Transpose", [tensor(2, 3, 4)], perm=perm)
