"""Compressed weights: they stay compressed in the model, and Apple's runtime decompresses them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import ml_dtypes
import numpy as np

from edgekit_coreai.translation.builder import Builder
from edgekit_coreai.translation.registry import Call, CannotTranslate, Ints, lowering
from edgekit_coreai.translation.tensors import Tensor, element_type
from edgekit_mlruntime.registry import find_kernel
from edgekit_mlruntime.weights import unpack_bits

_INDEX_TYPES: dict[int, Any] = {4: ml_dtypes.uint2, 16: ml_dtypes.uint4, 256: np.uint8}
"""Type of the indices into a look-up table, by the table's number of entries."""


_F = TypeVar("_F", bound=Callable[..., Any])


def _values_if_part(function: _F) -> _F:
    """Makes a lowering return decompressed values if another compressed weight is computed from them."""

    @functools.wraps(function)
    def lowered(b: Builder, call: Call, **inputs: Any) -> Any:
        if not call.is_part:
            return function(b, call, **inputs)
        tensors = {name: value for name, value in inputs.items() if isinstance(value, Tensor)}
        return _computed(b, call, tensors, **{name: inputs[name] for name in inputs.keys() - tensors.keys()})

    return lowered  # type: ignore[return-value]


@lowering("constexpr_cast", opset=16)
@_values_if_part
def constexpr_cast(b: Builder, call: Call, source_val: Tensor, output_dtype: str) -> Tensor:
    """Convert float16 to float32."""
    return b.op("cast", source_val, np.float32)


@lowering("constexpr_affine_dequantize", opset=16)
@_values_if_part
def constexpr_affine_dequantize(
    b: Builder, call: Call, quantized_data: Tensor, zero_point: Tensor, scale: Tensor, axis: int
) -> Tensor:
    """``scale * (quantized_data - zero_point)``; ``scale`` and ``zero_point`` are scalars or vectors along ``axis``."""
    rank = quantized_data.rank
    shape = [1] * rank
    shape[axis % rank] = -1
    zeros, scales = (
        b.reshape(item, shape if item.shape not in ((), (1,)) else [1] * rank) for item in (zero_point, scale)
    )
    count = [max(have, want) for have, want in zip(zeros.sizes, scales.sizes, strict=True)]
    assert zeros.array is not None
    assert scales.array is not None
    if zeros.dtype != quantized_data.dtype:  # neither type may hold all values of the other
        tensors = {"quantized_data": quantized_data, "zero_point": zero_point, "scale": scale}
        return _computed(b, call, tensors, axis=axis)[0]
    zeros = b.constant(np.broadcast_to(zeros.array.astype(quantized_data.dtype), count))
    scales = b.constant(np.broadcast_to(scales.array, count))
    return _shifted(b, quantized_data, scales, zeros)


@lowering("constexpr_blockwise_shift_scale", opset=18)
@_values_if_part
def constexpr_blockwise_shift_scale(
    b: Builder, call: Call, data: Tensor, scale: Tensor, offset: Tensor | None = None
) -> Tensor:
    """``scale * (data - offset)``, where each element of ``scale`` and ``offset`` applies to one block of ``data``."""
    if offset is None:
        offset = b.constant(np.zeros(scale.sizes, np.int8).astype(data.dtype))
    return _shifted(b, data, scale, b.cast(offset, data.dtype))


def _shifted(b: Builder, data: Tensor, scale: Tensor, offset: Tensor) -> Tensor:
    bias = b.constant(np.zeros(scale.sizes, scale.dtype))
    return b.op("blockwise_shift_scale", data, scale, offset, bias)


@lowering("constexpr_lut_to_dense", opset=16)
@_values_if_part
def constexpr_lut_to_dense_packed(b: Builder, call: Call, indices: Tensor, lut: Tensor, shape: Ints) -> Tensor:
    """Replace each index by its entry in ``lut``; indices are packed, lowest bit first, in log2(len(lut)) bits each."""
    assert indices.array is not None
    assert lut.array is not None
    entries = lut.array.size
    bits, count = entries.bit_length() - 1, math.prod(shape)
    packed = indices.array
    keys = packed.reshape(-1)[:count] if bits == 8 else unpack_bits(packed, bits, count, signed=False)
    table = b.constant(lut.array.reshape(*(1,) * len(shape), entries, 1))
    return _look_up(b, keys.reshape(shape), table, None)


@lowering("constexpr_lut_to_dense", opset=18)
@_values_if_part
def constexpr_lut_to_dense(
    b: Builder, call: Call, indices: Tensor, lut: Tensor, vector_axis: int | None = None
) -> Tensor:
    """Replace each index by its entry in the look-up table of its block; entries may be vectors."""
    if indices.array is None:
        raise CannotTranslate("its input indices is computed by the model")
    return _look_up(b, indices.array, lut, vector_axis)


def _look_up(b: Builder, indices: np.ndarray, lut: Tensor, vector_axis: int | None) -> Tensor:
    entries = lut.sizes[-2]
    # Apple's indices have 2, 4 or 8 bits: a table of 2, 8, 32 or 64 entries is extended.
    size = next((known for known in _INDEX_TYPES if known >= entries), None)
    if size is None or lut.array is None:
        raise CannotTranslate(f"a look-up table of {entries} entries")
    if size > entries:
        widths = [(0, 0)] * lut.rank
        widths[-2] = (0, size - entries)
        lut = b.constant(np.pad(lut.array, widths))
    levels = np.asarray(indices).astype(np.uint8)
    keys = _of_six_bits(b, levels) if 16 < entries <= 64 else b.constant(levels.astype(_INDEX_TYPES[size]))
    axis = np.array((vector_axis or 0) % max(indices.ndim, 1), np.int16)
    return b.op("lut_to_dense", keys, lut, axis)


def _of_six_bits(b: Builder, levels: np.ndarray) -> Tensor:
    """Indices below 64 as the sum of look-ups with 2 and 4 bits, because Apple has no indices of 6 bits."""
    parts = []
    for bits, shift in ((2, 4), (4, 0)):
        part = (levels >> shift) & ((1 << bits) - 1)
        table = (np.arange(1 << bits) << shift).astype(np.uint8).reshape(*(1,) * levels.ndim, -1, 1)
        keys = b.constant(part.astype(_INDEX_TYPES[1 << bits]))
        parts.append(b.op("lut_to_dense", keys, b.constant(table), np.array(0, np.int16)))
    return b.add(*parts)


@lowering("constexpr_sparse_to_dense", opset=16)
@_values_if_part
def constexpr_sparse_to_dense_packed(b: Builder, call: Call, nonzero_data: Tensor, mask: Tensor, shape: Ints) -> Tensor:
    """Spread values over the elements whose bit is set in ``mask`` (packed, lowest bit first); zero elsewhere."""
    assert mask.array is not None
    bits = np.unpackbits(mask.array.reshape(-1), count=math.prod(shape), bitorder="little")
    return _spread(b, nonzero_data, bits.reshape(shape))


@lowering("constexpr_sparse_to_dense", opset=18)
@_values_if_part
def constexpr_sparse_to_dense(b: Builder, call: Call, nonzero_data: Tensor, mask: Tensor) -> Tensor:
    """Spread values over the elements where ``mask`` is 1; zero elsewhere."""
    if mask.array is None:
        raise CannotTranslate("its input mask is computed by the model")
    return _spread(b, nonzero_data, mask.array)


def _spread(b: Builder, nonzero_data: Tensor, mask: np.ndarray) -> Tensor:
    sparse = b.op("build_sparse_with_bitmask", nonzero_data, b.constant(mask.astype(ml_dtypes.uint1)))
    return b.op("sparse_with_bitmask_to_dense", sparse)


@lowering("constexpr_lut_to_sparse", opset=18)
def constexpr_lut_to_sparse(
    b: Builder,
    call: Call,
    indices_mask: Tensor,
    indices_nonzero_data: Tensor,
    lut: Tensor,
    vector_axis: int | None = None,
) -> tuple[Tensor, ...]:
    """The mask and the elements under it: ``constexpr_lut_to_dense`` where ``indices_mask`` is 1."""
    tensors = {"indices_mask": indices_mask, "indices_nonzero_data": indices_nonzero_data, "lut": lut}
    return _computed(b, call, tensors, vector_axis=vector_axis)


@lowering("constexpr_sparse_blockwise_shift_scale", opset=18)
def constexpr_sparse_blockwise_shift_scale(
    b: Builder, call: Call, data_mask: Tensor, nonzero_data: Tensor, scale: Tensor, offset: Tensor | None = None
) -> tuple[Tensor, ...]:
    """The mask and the elements under it: ``constexpr_blockwise_shift_scale`` where ``data_mask`` is 1."""
    tensors = {"data_mask": data_mask, "nonzero_data": nonzero_data, "scale": scale, "offset": offset}
    return _computed(b, call, tensors)


def _computed(b: Builder, call: Call, tensors: Mapping[str, Tensor | None], **others: Any) -> tuple[Tensor, ...]:
    """Decompressed values as constants, computed by the reference runtime's kernel: sparse weights become dense.

    Apple's sparse tensors cannot represent the values that MIL's operations pass from one to the next.
    """
    import edgekit_mlruntime.kernels  # noqa: F401 - the families register themselves

    kernel = find_kernel(call.op_type, call.opset)
    if kernel is None:
        raise CannotTranslate("the reference runtime does not compute it")
    arrays = {}
    for name, tensor in tensors.items():
        if tensor is not None:
            array = tensor.array
            if array is None:
                raise CannotTranslate(f"its input {name} is computed by the model")
            arrays[name] = array.astype(np.float32) if array.dtype == np.float16 else _whole(array)
    results = kernel.function(call, **arrays, **others)
    made = []
    for place, values in enumerate(results if isinstance(results, tuple) else (results,)):
        target = element_type(call.output_type(place).dtype)
        made.append(b.constant(values if target is None else np.asarray(values).astype(target)))
    return tuple(made)


def _whole(array: np.ndarray) -> np.ndarray:
    """Elements of fewer than 8 bits as 8-bit integers."""
    return array.astype(np.int8 if array.dtype == ml_dtypes.int4 else np.uint8) if array.dtype.kind == "V" else array
