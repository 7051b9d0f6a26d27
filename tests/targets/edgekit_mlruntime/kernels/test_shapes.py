from __future__ import annotations

import numpy as np
import onnx
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from edgekit_mlruntime.failures import ExecutionError


def numbered(*shape):
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def onnx_op(op_type, x, **attributes):
    make = onnx.helper
    graph = make.make_graph(
        [make.make_node(op_type, ["x"], ["y"], **attributes)],
        op_type,
        [make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None)],
        [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    return ReferenceEvaluator(make.make_model(graph)).run(None, {"x": x})[0]


@pytest.mark.parametrize(
    ("ios", "shape", "target", "expected"),
    [
        (15, (2, 6), [3, -1], (3, 4)),
        (15, (2, 3, 4), [0, -1, 2], (2, 6, 2)),
        (15, (0, 3), [0, 3], (0, 3)),
        # The example of the iOS 17 documentation: zeros count from the right, and mean 1 beyond the rank.
        (17, (2, 50), [1, 0, -1, 0], (1, 1, 2, 50)),
        (17, (2, 3, 4), [0, -1, 0], (2, 3, 4)),
        (17, (4, 5), [0, 0, 0], (1, 4, 5)),
        (18, (6,), [2, 3], (2, 3)),
    ],
)
def test_reshape(run_op, ios, shape, target, expected):
    x = np.zeros(shape, np.float32)
    assert run_op("reshape", ios=ios, x=x, shape=target).shape == expected


def test_reshape_refuses_a_zero_that_names_no_dimension_before_ios_17(run_op):
    with pytest.raises(ExecutionError, match="iOS 17"):
        run_op("reshape", ios=16, x=numbered(2, 50), shape=[1, 0, -1, 0])


@pytest.mark.parametrize("target", [[4, 2], [4, -1], [-1, -1], [-1, 0, 0, 3, 5]])
@pytest.mark.parametrize("ios", [15, 17])
def test_reshape_refuses_another_number_of_elements(run_op, ios, target):
    with pytest.raises(ExecutionError, match="reshape"):
        run_op("reshape", ios=ios, x=numbered(2, 3), shape=target)


def test_reshape_like_joins_slices_of_shapes(run_op):
    x, references = numbered(30, 6), (numbered(2, 3, 4), numbered(1, 5, 6))
    actual = run_op(
        "reshape_like", ios=16, x=x, ref_tensors=references, begins=(0, 1), ends=(2, 0), end_masks=(False, True)
    )
    np.testing.assert_array_equal(actual, x.reshape(2, 3, 5, 6))


@pytest.mark.parametrize(
    ("shape", "axis", "expected"),
    [((3,), -1, (1, 3)), ((3,), 1, (3, 1)), ((4, 3), -1, (4, 3)), ((2, 3, 2), -1, (6, 2)), ((5, 5, 2), 1, (5, 10))],
)
def test_flatten2d_does_the_documented_examples(run_op, shape, axis, expected):
    assert run_op("flatten2d", x=numbered(*shape), axis=axis).shape == expected


def test_expand_dims_counts_in_the_result(run_op):
    assert run_op("expand_dims", x=numbered(2, 3), axes=[0, -1]).shape == (1, 2, 3, 1)
    assert run_op("expand_dims", x=np.float32(1), axes=[0]).shape == (1,)


def test_squeeze_leaves_other_sizes_alone(run_op):
    x = numbered(1, 2, 1, 3)
    assert run_op("squeeze", x=x).shape == (2, 3)
    assert run_op("squeeze", x=x, axes=[0, 1]).shape == (2, 1, 3)
    assert run_op("squeeze", x=x, axes=[-2]).shape == (1, 2, 3)
    assert run_op("squeeze", x=numbered(1)).shape == ()


def test_transpose_takes_negative_axes(run_op):
    x = numbered(2, 3, 4)
    np.testing.assert_array_equal(run_op("transpose", x=x, perm=[-1, 0, -2]), torch.tensor(x).permute(2, 0, 1))


def test_reverse_all_axes_by_default(run_op):
    x = numbered(2, 3)
    np.testing.assert_array_equal(run_op("reverse", x=x), torch.flip(torch.tensor(x), (0, 1)))
    np.testing.assert_array_equal(run_op("reverse", x=x, axes=[-1]), torch.flip(torch.tensor(x), (1,)))


def test_reverse_sequence_agrees_with_onnx(run_op):
    x, lengths = numbered(4, 3, 2), [1, 4, 2]
    make = onnx.helper
    node = make.make_node("ReverseSequence", ["x", "n"], ["y"], batch_axis=1, time_axis=0)
    graph = make.make_graph(
        [node],
        "reverse",
        [
            make.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None),
            make.make_tensor_value_info("n", onnx.TensorProto.INT64, None),
        ],
        [make.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
    )
    (expected,) = ReferenceEvaluator(make.make_model(graph)).run(None, {"x": x, "n": np.int64(lengths)})
    actual = run_op("reverse_sequence", x=x, lengths=lengths, seq_axis=0, batch_axis=1)
    np.testing.assert_array_equal(actual, expected)


def test_depth_and_space_agree_with_onnx(run_op):
    x = numbered(2, 12, 2, 3)
    spread = run_op("depth_to_space", x=x, block_size=2)
    np.testing.assert_array_equal(spread, onnx_op("DepthToSpace", x, blocksize=2, mode="DCR"))
    np.testing.assert_array_equal(run_op("space_to_depth", x=spread, block_size=2), x)
    np.testing.assert_array_equal(
        run_op("space_to_depth", x=spread, block_size=2), onnx_op("SpaceToDepth", spread, blocksize=2)
    )


def test_pixel_shuffle_agrees_with_torch(run_op):
    x = numbered(2, 18, 2, 3)
    shuffled = torch.pixel_shuffle(torch.tensor(x), 3)
    np.testing.assert_array_equal(run_op("pixel_shuffle", x=x, upscale_factor=3), shuffled)
    np.testing.assert_array_equal(
        run_op("pixel_unshuffle", ios=16, x=shuffled.numpy(), downscale_factor=np.uint32(3)),
        torch.pixel_unshuffle(shuffled, 3),
    )


def test_space_to_batch_and_back(run_op):
    # One channel, blocks of 2 x 2: batch entry (i, j) holds the elements whose row is i and column j modulo 2.
    x = np.float32([[[[1, 2, 3, 4], [5, 6, 7, 8]]]])
    batch = run_op("space_to_batch", x=x, block_shape=[2, 2], paddings=[[0, 0], [0, 0]])
    np.testing.assert_array_equal(batch, [[[[1, 3]]], [[[2, 4]]], [[[5, 7]]], [[[6, 8]]]])
    np.testing.assert_array_equal(run_op("batch_to_space", x=batch, block_shape=[2, 2], crops=[[0, 0], [0, 0]]), x)


def test_space_to_batch_pads_and_batch_to_space_crops(run_op):
    x = np.float32([[[[1, 2, 3]]]])
    batch = run_op("space_to_batch", x=x, block_shape=[1, 2], paddings=[[0, 0], [1, 0]])
    np.testing.assert_array_equal(batch, [[[[0, 2]]], [[[1, 3]]]])
    spread = run_op("batch_to_space", x=batch, block_shape=[1, 2], crops=[[0, 0], [1, 1]])
    np.testing.assert_array_equal(spread, [[[[1, 2]]]])
