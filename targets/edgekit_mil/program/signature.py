"""The program's inputs and outputs: how ONNX's names, types and shapes map to what Core ML's interface can hold.

Core ML features are arrays of rank 1 to 5 in float32, float16 or int32 with identifiers as names. Whatever the ONNX
model has beyond that (int64, bool, doubles, scalars, names with dots and colons) is mapped here, and the mapping goes
into the package's description so that a caller can go on speaking ONNX.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from shlex import quote
from typing import Any

import numpy as np
import onnx_ir as ir

from edgekit.errors import InputError, OpGap, UnsupportedOpsError
from edgekit.features.dimensions import OpenDims
from edgekit.model import dtype_name
from edgekit.target import Feature
from edgekit_mil.core.mil import Symbol, Var, ct, get_new_symbol, mb, types
from edgekit_mil.core.values import FIX_SIZES, HIGHEST_RANK, Unsupported, Value, carrier_name, computed, constant
from edgekit_mil.lowering.nodes import mil_name
from edgekit_mil.program.flexible_shapes import coreml_shape, require_enumerable
from edgekit_mil.program.open_sizes import OpenSize, open_sizes
from edgekit_mil.support.high_ranks import of_shape
from edgekit_mil.support.movement import empty

NATIVE_DTYPES = {"fp32": "float32", "fp16": "float16", "int32": "int32"}


def native_type(dtype: ir.DataType) -> str:
    """MIL's name of the type that an ONNX type has at the program's border; bool crosses it as int32."""
    carrier = carrier_name(dtype)
    return "int32" if carrier == "bool" else carrier


def unique_native_names(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Identifiers for ONNX names, each different, in the same order."""
    used = set(taken)
    unique = []
    for name in names:
        base = candidate = mil_name(name)
        number = 1
        while candidate in used:
            candidate = f"{base}_{number}"
            number += 1
        used.add(candidate)
        unique.append(candidate)
    return unique


def input_mappings(inputs: Sequence[ir.Value], subject: object, dimensions: OpenDims | None = None) -> list[Feature]:
    """Returns the mapping of a model's inputs; an open dimension is given by its name.

    Raises:
        edgekit.errors.InputError: An input has a dynamic dimension.
        edgekit.errors.UnsupportedOpsError: Inputs are no tensors, or have element types that no program has.
    """
    require_tensors(inputs, subject)
    natives = unique_native_names(value.name or "" for value in inputs)
    mappings, gaps = [], []
    for value, native in zip(inputs, natives, strict=True):
        shape = sizes_of(value, subject, dimensions or {}, inputs)
        dtype = value.dtype if value.dtype is not None else ir.DataType.UNDEFINED
        native_dtype = NATIVE_DTYPES[native_type(dtype)]
        try:
            held = native_shape(shape)
        except Unsupported as gap:
            gaps.append(OpGap(op_type="input", node=value.name or "", reason=gap.reason, hint=gap.hint))
            continue
        mappings.append(Feature(value.name or "", dtype_name(dtype), shape, native, native_dtype, held))
    if gaps:
        raise UnsupportedOpsError(gaps, subject=subject)
    return mappings


def require_tensors(inputs: Sequence[ir.Value], subject: object) -> None:
    """Raise UnsupportedOpsError for inputs that no program can take, all of them."""
    gaps = []
    for value in inputs:
        try:
            if value.type is not None and not isinstance(value.type, ir.TensorType):
                raise Unsupported(f"programs take tensors only, found {value.type}")
            carrier_name(value.dtype if value.dtype is not None else ir.DataType.UNDEFINED)
        except Unsupported as gap:
            gaps.append(OpGap(op_type="input", node=value.name or "", reason=gap.reason, hint=gap.hint))
    if gaps:
        hint = "cut the nodes that read it off with `edgekit extract --inputs`, and compute in the app what they do"
        raise UnsupportedOpsError(gaps, subject=subject, hint=hint)


def native_shape(shape: Sequence[int | str]) -> tuple[int | str, ...]:
    """Returns the shape that a tensor of a given shape has at the program's border: of rank 1 to 5, and with elements.

    If there are more than five dimensions, the first ones are merged. A tensor without elements is represented by a
    tensor of one element that nothing reads.
    """
    if 0 in shape and (names := [size for size in shape if not isinstance(size, int)]):
        raise Unsupported(
            f"has no elements, and open sizes ({', '.join(names)}): Core ML has no tensors without elements",
            f"fix it with {' '.join(f'--dim {quote(name)}=SIZE' for name in names)}",
        )
    if not shape or 0 in shape:
        return (1,)
    merged = len(shape) - HIGHEST_RANK + 1
    if merged < 2:
        return tuple(shape)
    first = [size for size in shape[:merged] if isinstance(size, int)]
    if len(first) < merged:
        names = [size for size in shape[:merged] if not isinstance(size, int)]
        options = " ".join(f"--dim {quote(name)}=SIZE" for name in names)
        raise Unsupported(
            f"has rank {len(shape)} and the open sizes {' and '.join(names)}: Core ML has {HIGHEST_RANK} dimensions at "
            "most, and only fixed ones can be merged",
            f"fix it with {options}",
        )
    return (math.prod(first), *shape[merged:])


def sizes_of(
    value: ir.Value, subject: object, dimensions: OpenDims, inputs: Iterable[ir.Value] = ()
) -> tuple[int | str, ...]:
    """An input's sizes; a size that is open, or follows from open ones, as the name or expression in the file.

    Args:
        value: The input.
        subject: The model, for errors.
        dimensions: The dimensions that stay open.
        inputs: All inputs, whose dynamic dimensions the hint fixes together.

    Raises:
        edgekit.errors.InputError: A size is neither a number nor open.
    """
    if value.shape is None:
        raise InputError(
            f"input {value.name!r} has no shape",
            subject=subject,
            hint=f"give it with --shape {quote(str(value.name))}=…",
        )
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    if _dynamic(value, dimensions):
        flags = " ".join(
            dict.fromkeys(flag for each in inputs or (value,) for flag in _flags_that_fix(each, dimensions))
        )
        raise InputError(
            f"input {value.name!r} has dynamic dimensions",
            subject=subject,
            expected="a fixed shape",
            found=", ".join("?" if dim is None else str(dim) for dim in dims),
            hint=f"fix it with {flags}; `edgekit package` takes the size of the samples, .npz files in --data",
        )
    return tuple(dim for dim in dims if dim is not None)


def _dynamic(value: ir.Value, dimensions: OpenDims) -> list[str | None]:
    """Names in the file of an input's sizes that are neither numbers nor open; None for a size without a name."""
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape or ()]
    return [dim for dim in dims if not isinstance(dim, int) and OpenSize.parse(dim, dimensions) is None]


def _flags_that_fix(value: ir.Value, dimensions: OpenDims) -> list[str]:
    """The options that give an input's dynamic dimensions a size: by their names where all have one."""
    dynamic = _dynamic(value, dimensions)
    if all(dynamic):
        return [f"--dim {quote(str(name))}=SIZE" for name in dynamic]
    sizes = ",".join(str(dim) if isinstance(dim, int) else "SIZE" for dim in value.shape or ())
    return [f"--shape {quote(str(value.name))}={sizes}"]


def placeholder(mapping: Feature, dimensions: OpenDims, symbols: Mapping[str, Any]) -> Any:
    """The program's input for a mapping, its open dimensions as symbols, or as sums of them."""
    mil_types = {"float32": types.fp32, "float16": types.fp16, "int32": types.int32}
    open_ones = {dim: size.at(symbols) for dim, size in open_sizes(mapping.native_shape, dimensions).items()}
    shape = tuple(open_ones[size] if isinstance(size, str) else size for size in mapping.native_shape)
    plain = [size if isinstance(size, (int, Symbol)) else get_new_symbol() for size in shape]
    made = mb.placeholder(shape=plain, dtype=mil_types[mapping.native_dtype])
    made.sym_shape = shape  # the builder refuses a sum as a size, but its inference works with sums
    made._infer_output_var()
    return made


def enter(var: Var, mapping: Feature, dtype: ir.DataType) -> Value:
    """The ONNX value of a program input, converted from the type and shape at the program's border."""
    shape = [size for size in mapping.shape if isinstance(size, int)]
    is_open = len(shape) < len(mapping.shape)
    if 0 in shape and not is_open:
        return empty(dtype, shape)
    if dtype is ir.DataType.BOOL:
        var = mb.cast(x=var, dtype="bool")
    value = computed(var, dtype)
    if is_open:
        merged = len(mapping.shape) - value.rank + 1  # the first sizes, which are fixed; see native_shape
        return of_shape(value, [*shape[:merged], *value.shape[1:]], value) if merged > 1 else value
    return value if value.shape == tuple(shape) else of_shape(value, shape)


def leave(value: Value, native_name: str) -> Var:
    """The program output of an ONNX value: of a native type, of rank 1 at least, computed by an operation."""
    if value.is_static and 0 in value.static_shape:
        value = constant(np.zeros(1, value.dtype.numpy()), value.dtype)
    elif 0 in value.shape:
        reason = f"is empty, {value.shape_text}, and has open sizes: Core ML has no tensors without elements"
        raise Unsupported(reason, FIX_SIZES)
    elif value.is_static and value.static_shape != native_shape(value.static_shape):
        value = of_shape(value, [size for size in native_shape(value.static_shape) if isinstance(size, int)])
    var = value.var
    if value.dtype is ir.DataType.BOOL:
        var = mb.cast(x=var, dtype="int32")
    return mb.identity(x=var, name=native_name)


def output_mapping(output: ir.Value, value: Value, native_name: str, symbols: Mapping[str, Any]) -> Feature:
    """The mapping of an output: an open dimension of the inputs by its name, None for a size known only at run time.

    A size that the program's inference does not give is taken from the model, if the model states a number or an open
    dimension.

    Args:
        output: The model's output; its shape was compared with runs when sizes were fixed.
        value: What the program computes for it.
        native_name: Its name in the program.
        symbols: The open dimensions' symbols by their names.
    """
    names = {symbol: dimension for dimension, symbol in symbols.items()}
    stated = _stated_sizes(output, len(value.shape), symbols)
    sizes = tuple(
        int(size) if isinstance(size, int) else names.get(size, stated_size)
        for size, stated_size in zip(value.shape, stated, strict=True)
    )
    native = NATIVE_DTYPES[native_type(value.dtype)]
    at_border = native_shape(value.static_shape) if value.is_static else sizes
    return Feature(output.name or "", dtype_name(value.dtype), sizes, native_name, native, at_border)


def _stated_sizes(output: ir.Value, rank: int, open_names: Mapping[str, Any]) -> Sequence[int | str | None]:
    """The sizes that the model states for an output; None for a size that is neither a number nor an open dimension.

    A stated size of 0 is none either: ONNX's inference makes it of open sizes that it divides, and the program's own
    inference knows tensors without elements.
    """
    if output.shape is None or len(output.shape) != rank:
        return (None,) * rank
    dims = [dim if isinstance(dim, int) else dim.value for dim in output.shape]
    return [dim if dim in open_names or (isinstance(dim, int) and dim) else None for dim in dims]


def coreml_inputs(mappings: Sequence[Feature], dimensions: OpenDims, target: ct.target) -> tuple[ct.TensorType, ...]:
    """The inputs as coremltools describes them.

    Raises:
        edgekit.errors.InputError: Sizes that Core ML cannot declare.
    """
    require_enumerable({mapping.name: mapping.native_shape for mapping in mappings}, dimensions, target)
    shapes = [
        coreml_shape([size for size in mapping.native_shape if size is not None], dimensions, mapping.name)
        for mapping in mappings
    ]
    return tuple(
        ct.TensorType(name=mapping.native_name, shape=shape) for mapping, shape in zip(mappings, shapes, strict=True)
    )
