from __future__ import annotations

import numpy as np
import pytest

from edgekit_mlruntime.executor import FunctionPlan
from edgekit_mlruntime.program import Block, DataType, Function, NamedType, Operation, TensorType, Value


@pytest.fixture
def decompress(run_op):
    """Runs one constexpr operation, whose inputs are all constant."""

    def run(op_type, *, ios=18, dtypes=("float32",), **inputs):
        return run_op(op_type, ios=ios, fed=[], dtypes=dtypes, **inputs)

    return run


def u8(*values):
    return np.array(values, np.uint8)


def test_affine_dequantize(decompress):
    data = np.array([[10, 20], [30, 40]], np.uint8)
    actual = decompress(
        "constexpr_affine_dequantize", quantized_data=data, zero_point=u8(10, 20), ios=16,
        scale=np.array([0.5, 2], np.float32), axis=0,
    )  # fmt: skip
    np.testing.assert_array_equal(actual, [[0, 5], [20, 40]])
    actual = decompress(
        "constexpr_affine_dequantize", quantized_data=data.astype(np.int8), zero_point=np.int8(-10),
        scale=np.float32(0.5), axis=0, ios=16,
    )  # fmt: skip
    np.testing.assert_array_equal(actual, [[10, 15], [20, 25]])


@pytest.mark.parametrize("ios", [16, 18])
def test_cast(decompress, ios):
    source = np.array([0.1, -2], np.float16)
    np.testing.assert_array_equal(decompress("constexpr_cast", source_val=source, output_dtype="fp32", ios=ios), source)


def test_packed_look_up(decompress):
    # The documentation's example: five indices of two bits, the first in the lowest bits.
    lut = np.array([10, 11, 12, 13], np.float32)
    actual = decompress(
        "constexpr_lut_to_dense", indices=u8(0b01101100, 0b00000011), lut=lut, shape=np.array([5], np.uint32), ios=16
    )
    np.testing.assert_array_equal(actual, [10, 13, 12, 11, 13])


def test_packed_look_up_of_four_bits(decompress):
    actual = decompress(
        "constexpr_lut_to_dense", indices=u8(0xF1, 0x08), lut=np.arange(16, dtype=np.int8) * 2,
        shape=np.array([3], np.uint32), ios=16, dtypes=["int8"],
    )  # fmt: skip
    np.testing.assert_array_equal(actual, [2, 30, 16])


def test_packed_look_up_of_six_bits_crosses_bytes(decompress):
    # 000001 000010 000011 111111, each index from its lowest bit on.
    bits = [1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
    packed = np.packbits(bits, bitorder="little")
    actual = decompress(
        "constexpr_lut_to_dense", indices=packed, lut=np.arange(64, dtype=np.int8), shape=np.array([2, 2], np.uint32),
        ios=16, dtypes=["int8"],
    )  # fmt: skip
    np.testing.assert_array_equal(actual, [[1, 2], [3, 63]])


def test_packed_sparse_to_dense(decompress):
    # The documentation's example: of five elements, the third and fourth are not zero.
    actual = decompress(
        "constexpr_sparse_to_dense", nonzero_data=np.array([7, 8], np.float32), mask=u8(0b01100),
        shape=np.array([5], np.uint32), ios=16,
    )  # fmt: skip
    np.testing.assert_array_equal(actual, [0, 0, 7, 8, 0])


def test_sparse_to_dense(decompress):
    mask = u8(0, 1, 1, 0).reshape(2, 2)
    actual = decompress(
        "constexpr_sparse_to_dense", nonzero_data=np.array([3, -4], np.int8), mask=mask, dtypes=["int8"]
    )
    np.testing.assert_array_equal(actual, [[0, 3], [-4, 0]])


def test_look_up_in_groups(decompress):
    # The documentation's case 1.
    indices = u8(2, 3, 3, 0, 1, 0, 3, 0, 2, 1, 0, 3).reshape(6, 2)
    lut = np.array([1, 5, 9, 13, 2, 10, 18, 26], np.float16).reshape(2, 1, 4, 1)
    actual = decompress("constexpr_lut_to_dense", indices=indices, lut=lut, dtypes=["float16"])
    np.testing.assert_array_equal(actual, [[9, 13], [13, 1], [5, 1], [26, 2], [18, 10], [2, 26]])


@pytest.mark.parametrize(
    ("axis", "expected"),
    [
        (1, [[[1, 1], [2, 2], [3, 3], [4, 1], [5, 2], [6, 3]], [[4, 4], [5, 5], [6, 6], [1, 1], [2, 2], [3, 3]]]),
        (2, [[[1, 2, 3, 1, 2, 3], [4, 5, 6, 1, 2, 3]], [[4, 5, 6, 4, 5, 6], [1, 2, 3, 1, 2, 3]]]),
        (-1, [[[1, 2, 3, 1, 2, 3], [4, 5, 6, 1, 2, 3]], [[4, 5, 6, 4, 5, 6], [1, 2, 3, 1, 2, 3]]]),
    ],
)
def test_look_up_of_vectors(decompress, axis, expected):
    # The documentation's case 2, with the centroids (1, 2, 3) and (4, 5, 6).
    indices = u8(0, 0, 1, 0, 1, 1, 0, 0).reshape(2, 2, 2)
    lut = np.array([1, 2, 3, 4, 5, 6], np.int8).reshape(1, 1, 1, 2, 3)
    actual = decompress("constexpr_lut_to_dense", indices=indices, lut=lut, vector_axis=axis, dtypes=["int8"])
    np.testing.assert_array_equal(actual, expected)


def test_look_up_of_vectors_in_groups_along_their_axis(decompress):
    # Two groups of two rows of indices: four rows of elements each.
    indices = u8(0, 1, 1, 0).reshape(4, 1)
    lut = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], np.float32).reshape(2, 1, 2, 2)
    actual = decompress("constexpr_lut_to_dense", indices=indices, lut=lut, vector_axis=0)
    np.testing.assert_array_equal(actual[:, 0], [1, 2, 3, 4, 7, 8, 5, 6])


MASK = u8(1, 1, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 1, 1, 0, 1, 0, 0, 0, 0, 1, 0, 0).reshape(4, 6)
NONZERO = u8(0, 1, 1, 0, 1, 1, 0, 0, 1)


def test_look_up_of_sparse_scalars(decompress):
    mask, values = decompress(
        "constexpr_lut_to_sparse", indices_mask=MASK, indices_nonzero_data=NONZERO,
        lut=np.array([2, 3], np.float32).reshape(1, 1, 2, 1), dtypes=["uint8", "float32"],
    )  # fmt: skip
    np.testing.assert_array_equal(mask, MASK)
    np.testing.assert_array_equal(values, [2, 3, 3, 2, 3, 3, 2, 2, 3])


def test_look_up_of_sparse_vectors(decompress):
    mask, values = decompress(
        "constexpr_lut_to_sparse", indices_mask=MASK, indices_nonzero_data=NONZERO, vector_axis=0,
        lut=np.array([[2, 20], [3, 30]], np.float32).reshape(1, 1, 2, 2), dtypes=["uint8", "float32"],
    )  # fmt: skip
    np.testing.assert_array_equal(mask, np.repeat(MASK, 2, axis=0))
    rows = [[2, 3], [20, 30], [3, 2, 3], [30, 20, 30], [3, 2, 2], [30, 20, 20], [3], [30]]
    np.testing.assert_array_equal(values, np.concatenate(rows))


def test_blockwise_shift_scale(decompress):
    data = np.array([[1, 2, 3, 4], [5, 6, 7, -8]], np.int8)
    scale = np.array([[1, 10]], np.float32)
    actual = decompress("constexpr_blockwise_shift_scale", data=data, scale=scale)
    np.testing.assert_array_equal(actual, [[1, 2, 30, 40], [5, 6, 70, -80]])
    offset = np.array([[1, 2]], np.int8)
    actual = decompress("constexpr_blockwise_shift_scale", data=data, scale=scale, offset=offset)
    np.testing.assert_array_equal(actual, [[0, 1, 10, 20], [4, 5, 50, -100]])


def test_sparse_blockwise_shift_scale(decompress):
    # The documentation's example.
    data_mask = u8(1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0).reshape(4, 4)
    mask, values = decompress(
        "constexpr_sparse_blockwise_shift_scale", data_mask=data_mask,
        nonzero_data=np.array([10, 11, 3, 4, 5, 6, 7, 8, 9], np.int8),
        scale=np.array([[0.1, 0.2, 0.3, 0.4]], np.float32), offset=np.array([[1, 2, 3, 4]], np.int8),
        dtypes=["uint8", "float32"],
    )  # fmt: skip
    np.testing.assert_array_equal(mask, data_mask)
    np.testing.assert_allclose(values, [0.9, 1.8, 0.2, 0.4, 0.6, 0.9, 1.2, 0.7, 1.4], rtol=1e-6)


def test_decompressions_can_be_chained():
    # Indices under a mask, looked up as levels, scaled, and spread over the dense weight.
    def value(array, dtype=None):
        return [Value(TensorType(dtype or DataType[array.dtype.name.upper()], array.shape), lambda: array)]

    def tensor(name, dtype):
        return NamedType(name, TensorType(dtype, None))

    mask = value(u8(1, 0, 0, 1).reshape(2, 2), DataType.UINT1)
    look_up = Operation(
        "constexpr_lut_to_sparse",
        "look_up",
        {
            "indices_mask": mask,
            "indices_nonzero_data": value(u8(1, 0), DataType.UINT1),
            "lut": value(np.array([-3, 5], np.int8).reshape(1, 1, 2, 1)),
        },
        [tensor("level_mask", DataType.UINT1), tensor("levels", DataType.INT8)],
    )
    scale = Operation(
        "constexpr_sparse_blockwise_shift_scale",
        "scale",
        {"data_mask": ["level_mask"], "nonzero_data": ["levels"], "scale": value(np.array([[2], [10]], np.float32))},
        [tensor("value_mask", DataType.UINT1), tensor("values", DataType.FLOAT32)],
    )
    spread = Operation(
        "constexpr_sparse_to_dense",
        "spread",
        {"nonzero_data": ["values"], "mask": ["value_mask"]},
        [tensor("weight", DataType.FLOAT32)],
    )
    function = Function("main", [], "CoreML8", Block([], ["weight"], [look_up, scale, spread]))
    (weight,) = FunctionPlan(function, rounds_to_half=True, seed=0, subject="chain").run([])
    np.testing.assert_array_equal(weight, [[10, 0], [0, -30]])
