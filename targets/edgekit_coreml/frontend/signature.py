"""The program's inputs and outputs: how ONNX's names, types and shapes map to what Core ML's interface can hold.

Core ML features are arrays of rank 1 to 5 in float32, float16 or int32 with identifiers as names. Whatever the ONNX
model has beyond that (int64, bool, doubles, scalars, names with dots and colons) is mapped here, and the mapping is
written into the package's metadata under ``edgekit.io`` so that a caller can go on speaking ONNX.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.model import dtype_name
from edgekit.target import Feature
from edgekit_coreml.frontend.lowering import mil_name
from edgekit_coreml.frontend.mil import Var, ct, mb, types
from edgekit_coreml.frontend.values import Value, carrier_name, computed

IO_KEY = "edgekit.io"
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


def input_mappings(inputs: Sequence[ir.Value], subject: object) -> list[Feature]:
    """The mapping of a model's inputs.

    Raises:
        edgekit.errors.InputError: An input has a dynamic dimension, or a type that Core ML has not.
    """
    natives = unique_native_names(value.name or "" for value in inputs)
    mappings = []
    for value, native in zip(inputs, natives, strict=True):
        shape = tuple(static_shape(value, subject))
        dtype = value.dtype if value.dtype is not None else ir.DataType.UNDEFINED
        mappings.append(
            Feature(
                value.name or "", dtype_name(dtype), shape, native, NATIVE_DTYPES[native_type(dtype)], shape or (1,)
            )
        )
    return mappings


def static_shape(value: ir.Value, subject: object) -> list[int]:
    """An input's sizes.

    Raises:
        edgekit.errors.InputError: One of them is not a number.
    """
    if value.shape is None:
        raise InputError(
            f"input {value.name!r} has no shape",
            subject=subject,
            hint=f"give it with --shape {value.name}=…",
        )
    dims = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    dynamic = [dim for dim in dims if not isinstance(dim, int)]
    if dynamic:
        named = next((dim for dim in dynamic if dim), None)
        flag = f"--dim {named}=1" if named else f"--shape {value.name}=…"
        raise InputError(
            f"input {value.name!r} has dynamic dimensions",
            subject=subject,
            expected="a fixed shape",
            found=", ".join("?" if dim is None else str(dim) for dim in dims),
            hint=f"fix it with {flag}",
        )
    return [int(dim) for dim in dims if isinstance(dim, int)]


def placeholder(mapping: Feature) -> object:
    """The program's input for a mapping."""
    mil_types = {"float32": types.fp32, "float16": types.fp16, "int32": types.int32}
    return mb.placeholder(shape=tuple(mapping.native_shape), dtype=mil_types[mapping.native_dtype])


def enter(var: Var, mapping: Feature, dtype: ir.DataType) -> Value:
    """The ONNX value of a program input, as it is after the border."""
    if not mapping.shape:
        var = mb.squeeze(x=var, axes=[0])
    if dtype is ir.DataType.BOOL:
        var = mb.cast(x=var, dtype="bool")
    return computed(var, dtype)


def leave(value: Value, native_name: str) -> Var:
    """The program output of an ONNX value: of a native type, of rank 1 at least, computed by an operation."""
    var = value.var
    if value.dtype is ir.DataType.BOOL:
        var = mb.cast(x=var, dtype="int32")
    if value.rank == 0:
        var = mb.expand_dims(x=var, axes=[0])
    return mb.identity(x=var, name=native_name)


def output_mapping(name: str, value: Value, native_name: str) -> Feature:
    """The mapping of an output; None stands for a size that only a run tells."""
    sizes = tuple(int(size) if isinstance(size, int) else None for size in value.shape)
    native = NATIVE_DTYPES[native_type(value.dtype)]
    return Feature(name, dtype_name(value.dtype), sizes, native_name, native, sizes or (1,))


def metadata(inputs: Sequence[Feature], outputs: Sequence[Feature]) -> dict[str, str]:
    """The user-defined metadata that carries the contract in the package."""
    contract = {"inputs": [asdict(m) for m in inputs], "outputs": [asdict(m) for m in outputs]}
    return {IO_KEY: json.dumps(contract, sort_keys=True)}


def coreml_inputs(mappings: Sequence[Feature]) -> tuple[ct.TensorType, ...]:
    """The inputs as coremltools describes them."""
    return tuple(ct.TensorType(name=mapping.native_name, shape=tuple(mapping.native_shape)) for mapping in mappings)
