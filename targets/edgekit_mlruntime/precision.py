"""How values are held while a program runs.

A float16 value is held as a float32 that float16 can represent: kernels compute in float32 without converting back and
forth, and each result is rounded once, where an fp16 program would round it.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx
import onnxruntime

from edgekit_mlruntime.program import Array, DataType

HELD_TYPES: dict[DataType, np.dtype[Any]] = {
    dtype: np.dtype(np.float32) if dtype is DataType.FLOAT16 else dtype.numpy
    for dtype in DataType
    if dtype not in (DataType.BFLOAT16, DataType.FLOAT8E4M3FN, DataType.FLOAT8E5M2)
}
"""The NumPy type that values of each element type are held in; types that cannot be held are missing."""

_SMALL = 1024
"""Largest number of elements for which NumPy's conversion takes no longer than calling a session."""

_CHUNK = 131_072
"""Number of elements converted at a time: the float16 values between the two casts then fit the processor's cache."""
IN_PLACE_FROM = _CHUNK
"""Arrays with more elements than this can be rounded in place; smaller arrays are always converted to new arrays."""


def round_to_half(values: Array, *, in_place: bool = False) -> Array:
    """Round to the nearest float16 (ties to even, overflow to infinity), held as float32.

    Args:
        values: Array of any numeric type.
        in_place: Whether ``values`` may be overwritten, which saves an allocation.
    """
    if values.size <= _SMALL:
        with np.errstate(over="ignore"):
            return values.astype(np.float16).astype(np.float32)
    source = np.ascontiguousarray(values, np.float32)
    session = _rounding_session()
    if source.size <= _CHUNK:
        (rounded,) = session.run(None, {"x": source})
        return np.asarray(rounded)
    result = source if in_place or source is not values else np.empty_like(source)
    flat, target = source.reshape(-1), result.reshape(-1)
    for start in range(0, source.size, _CHUNK):
        part, where = flat[start : start + _CHUNK], target[start : start + _CHUNK]
        binding = session.io_binding()
        binding.bind_cpu_input("x", part)
        binding.bind_output("y", "cpu", 0, np.float32, where.shape, where.ctypes.data)
        session.run_with_iobinding(binding)
    return result


@functools.cache
def _rounding_session() -> onnxruntime.InferenceSession:
    """A session that converts to float16 and back: ONNX Runtime has vector code, NumPy takes ten times as long."""
    types = onnx.TensorProto
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("Cast", ["x"], ["half"], to=types.FLOAT16),
            onnx.helper.make_node("Cast", ["half"], ["y"], to=types.FLOAT),
        ],
        "round",
        [onnx.helper.make_tensor_value_info("x", types.FLOAT, None)],
        [onnx.helper.make_tensor_value_info("y", types.FLOAT, None)],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    options = onnxruntime.SessionOptions()
    # The optimizer would remove the two conversions as redundant.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def hold(value: Any, dtype: DataType, *, rounds: bool, in_place: bool = False) -> Array:
    """Bring a kernel's result, a constant or a feed into the form in which values of ``dtype`` are held.

    Args:
        value: Array or scalar of any numeric type.
        dtype: The declared element type.
        rounds: Whether values of type float16 are rounded to it; if not, they keep float32 precision.
        in_place: Whether rounding may overwrite ``value``.
    """
    array = np.asarray(value)
    held = HELD_TYPES[dtype]
    if dtype is DataType.FLOAT16 and rounds and array.dtype != np.float16:
        return round_to_half(array, in_place=in_place)
    return array if array.dtype == held else array.astype(held)
