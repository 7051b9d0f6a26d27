from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import InputError
from edgekit_mlruntime.program import DataType
from edgekit_mlruntime.weights import read_blob, unpack_bits


@pytest.fixture
def writer(ct, tmp_path):
    """Apple's own writer of weight files, as the coremltools wheel ships it."""
    native = pytest.importorskip("coremltools.libmilstoragepython", reason="coremltools has no native library here")
    return native._BlobStorageWriter(str(tmp_path / "weight.bin"))


@pytest.mark.parametrize(
    ("method", "dtype"),
    [
        ("write_float_data", DataType.FLOAT32),
        ("write_int8_data", DataType.INT8),
        ("write_uint8_data", DataType.UINT8),
        ("write_int16_data", DataType.INT16),
        ("write_uint16_data", DataType.UINT16),
        ("write_int32_data", DataType.INT32),
        ("write_uint32_data", DataType.UINT32),
    ],
)
def test_whole_bytes_are_mapped(writer, tmp_path, method, dtype):
    values = np.arange(12, dtype=dtype.numpy)
    first, second = (getattr(writer, method)(values + i) for i in range(2))
    del writer
    for i, offset in enumerate((first, second)):
        blob = read_blob(tmp_path / "weight.bin", offset, dtype, (3, 4))
        assert blob.dtype == dtype.numpy
        assert not blob.flags.owndata
        assert not blob.flags.writeable
        np.testing.assert_array_equal(blob, (values + i).reshape(3, 4))


def test_float16_is_kept_bit_for_bit(writer, tmp_path):
    values = np.float16([0, -0.0, 65504, 6e-8, np.inf, np.nan])
    offset = writer.write_fp16_data(values.view(np.uint16))
    del writer
    blob = read_blob(tmp_path / "weight.bin", offset, DataType.FLOAT16, (6,))
    assert blob.tobytes() == values.tobytes()


@pytest.mark.parametrize("count", [1, 7, 8, 13])
@pytest.mark.parametrize(
    "dtype", [DataType.INT4, DataType.UINT1, DataType.UINT2, DataType.UINT3, DataType.UINT4, DataType.UINT6]
)
def test_narrow_elements_are_unpacked(ct, writer, tmp_path, rng, dtype, count):
    from coremltools.converters.mil.mil.types import type_mapping

    name = dtype.name.lower()
    low, high = (-8, 8) if dtype is DataType.INT4 else (0, 2**dtype.bits)
    values = rng.integers(low, high, count).astype(
        type_mapping.nptype_from_builtin(type_mapping.string_to_builtin(name))
    )
    offset = getattr(writer, f"write_{name}_data")(values)
    del writer
    np.testing.assert_array_equal(read_blob(tmp_path / "weight.bin", offset, dtype, (count,)), values.astype(int))


def test_bits_are_packed_lowest_first():
    # 0b11_010_001 and 0b0: the three-bit values 1, 2 and 3, of which the last reaches into the second byte.
    np.testing.assert_array_equal(unpack_bits(np.uint8([0b11010001, 0]), 3, 3, signed=False), [1, 2, 3])
    np.testing.assert_array_equal(unpack_bits(np.uint8([0b10001111]), 4, 2, signed=True), [-1, -8])


def test_blobs_that_are_not_what_the_program_says_are_refused(writer, tmp_path):
    path = tmp_path / "weight.bin"
    offset = writer.write_float_data(np.zeros(4, np.float32))
    del writer
    for wrong in ((offset, DataType.FLOAT32, (5,)), (offset, DataType.INT32, (4,)), (offset, DataType.FLOAT16, (8,))):
        with pytest.raises(InputError, match="does not fit its declaration"):
            read_blob(path, *wrong)
    with pytest.raises(InputError, match="no blob at this offset"):
        read_blob(path, 0, DataType.FLOAT32, (4,))
    with pytest.raises(InputError, match="cut short"):
        read_blob(path, 10**6, DataType.FLOAT32, (4,))


def test_a_file_cut_short_is_refused(writer, tmp_path):
    path = tmp_path / "weight.bin"
    offset = writer.write_float_data(np.zeros(100, np.float32))
    del writer
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    with pytest.raises(InputError, match="does not fit its declaration"):
        read_blob(path, offset, DataType.FLOAT32, (100,))


@pytest.mark.parametrize("content", [b"", b"\x01\0\0\0\x07\0\0\0" + bytes(56)])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "weight.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match="weight file"):
        read_blob(path, 64, DataType.FLOAT32, (1,))
    with pytest.raises(InputError, match="cannot read"):
        read_blob(tmp_path / "none.bin", 64, DataType.FLOAT32, (1,))
