"""From an ``.mlpackage`` on disk to a ``Program``."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from edgekit.errors import InputError
from edgekit.files.regular_file import read_json, read_regular
from edgekit_mlruntime.program import (
    Array,
    Binding,
    Block,
    DataType,
    DictionaryType,
    Feature,
    Function,
    FunctionInterface,
    ListType,
    NamedType,
    Operation,
    Program,
    StateType,
    TensorType,
    TupleType,
    Value,
    ValueType,
)
from edgekit_mlruntime.protobuf import model_class
from edgekit_mlruntime.weights import read_blob, unpack_bits

_MODEL_PATH = "@model_path/"
_FEATURE_KINDS = (
    "multiArrayType",
    "imageType",
    "dictionaryType",
    "stringType",
    "int64Type",
    "doubleType",
    "sequenceType",
    "stateType",
)


_MODEL_BYTES = 2 << 30
"""Largest model file, in bytes: the most that protobuf can read."""


def model_file(package: Path) -> Path:
    """The ``.mlmodel`` file inside a package, found through its manifest.

    Raises:
        InputError: The folder is not a package.
    """
    manifest = package / "Manifest.json"
    if not manifest.exists():
        raise InputError("not an .mlpackage", subject=package, expected="a folder with a Manifest.json")
    document = read_json(manifest)
    try:
        item = document["itemInfoEntries"][document["rootModelIdentifier"]]
        return inside(package / "Data", str(item["path"]))
    except (KeyError, TypeError) as error:
        raise InputError("the package's manifest names no root model", subject=manifest, found=repr(error)) from error


def inside(folder: Path, name: str) -> Path:
    """Returns the path of a file that a package names in one of its folders.

    Raises:
        InputError: The name leads out of the folder.
    """
    if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
        raise InputError("the package names a file outside of it", subject=folder, found=name)
    return folder / name


def read_package(package: Path) -> Program:
    """Read an ML Program; weights stay in their file, which is memory-mapped.

    Args:
        package: The ``.mlpackage`` folder.

    Raises:
        InputError: The folder is not a readable package, or its model is not an ML Program.
    """
    path = model_file(package)
    data = read_regular(path, _MODEL_BYTES)
    try:
        model = model_class().FromString(data)
    except Exception as error:  # protobuf's DecodeError differs between its implementations
        raise InputError("the package's model is not a Core ML protobuf", subject=path, found=error) from error
    if not model.HasField("mlProgram"):
        raise InputError(
            "the model is not an ML Program",
            subject=package,
            hint="convert it with convert_to='mlprogram': neural networks and pipelines cannot be executed",
        )
    return _ProgramReader(path.parent).program(model)


class _ProgramReader:
    """Turns protobuf messages into the dataclasses of ``program``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def program(self, model: Any) -> Program:
        description = model.description
        functions = {name: self._function(name, message) for name, message in model.mlProgram.functions.items()}
        interfaces = {message.name: _interface(message) for message in description.functions}
        default = description.defaultFunctionName or "main"
        interfaces.setdefault(default, _interface(description))
        return Program(
            specification_version=model.specificationVersion,
            functions=functions,
            interfaces=interfaces,
            default_function=default,
            user_metadata=dict(description.metadata.userDefined),
        )

    def _function(self, name: str, message: Any) -> Function:
        blocks = message.block_specializations
        if message.opset not in blocks:
            raise InputError(
                f"function {name!r} has no block for its own operator set",
                expected=message.opset,
                found=", ".join(sorted(blocks)),
            )
        return Function(name, _named_types(message.inputs), message.opset, self._block(blocks[message.opset]))

    def _block(self, message: Any) -> Block:
        operations = [self._operation(operation) for operation in message.operations]
        return Block(_named_types(message.inputs), list(message.outputs), operations)

    def _operation(self, message: Any) -> Operation:
        attributes = {key: self._value(value) for key, value in message.attributes.items()}
        outputs = _named_types(message.outputs)
        name = attributes.pop("name").read() if "name" in attributes else outputs[0].name if outputs else message.type
        return Operation(
            type=message.type,
            name=name,
            inputs={
                parameter: [self._binding(binding) for binding in argument.arguments]
                for parameter, argument in message.inputs.items()
            },
            outputs=outputs,
            blocks=[self._block(block) for block in message.blocks],
            attributes=attributes,
        )

    def _binding(self, message: Any) -> Binding:
        return self._value(message.value) if message.HasField("value") else str(message.name)

    def _value(self, message: Any) -> Value:
        declared = _value_type(message.type)
        if message.HasField("blobFileValue"):
            return Value(declared, self._blob_reader(message.blobFileValue, declared))
        immediate = message.immediateValue
        if immediate.HasField("list") or immediate.HasField("tuple"):
            items = immediate.list if immediate.HasField("list") else immediate.tuple
            values = [self._value(item) for item in items.values]
            return Value(declared, lambda: [value.read() for value in values])
        if not isinstance(declared, TensorType) or not immediate.HasField("tensor"):
            raise InputError("a constant of unknown kind", found=declared)
        return Value(declared, functools.partial(_immediate_tensor, immediate.tensor, declared))

    def _blob_reader(self, blob: Any, declared: ValueType) -> Callable[[], Array]:
        if not isinstance(declared, TensorType):
            raise InputError("only tensors can lie in a weight file", found=declared)
        if not blob.fileName.startswith(_MODEL_PATH):
            raise InputError("a weight file outside of the package", expected=f"{_MODEL_PATH}…", found=blob.fileName)
        path = inside(self._folder, blob.fileName.removeprefix(_MODEL_PATH))
        return functools.partial(read_blob, path, blob.offset, declared.dtype, _known_shape(declared))


def _known_shape(declared: TensorType) -> tuple[int, ...]:
    """The shape of a constant.

    Raises:
        InputError: A size of the shape is unknown.
    """
    if declared.shape is None or None in declared.shape:
        raise InputError("a constant of unknown shape", found=declared)
    return tuple(size for size in declared.shape if size is not None)


def _immediate_tensor(message: Any, declared: TensorType) -> Any:
    """Reads a tensor whose elements are in the protobuf rather than in a weight file."""
    shape = _known_shape(declared)
    dtype = declared.dtype
    if message.HasField("bytes"):
        raw = np.frombuffer(message.bytes.values, np.uint8)
        if dtype.bits < 8:
            flat = unpack_bits(raw, dtype.bits, math.prod(shape), signed=dtype is DataType.INT4)
        else:
            flat = raw.view(dtype.numpy)
    else:
        fields = ("floats", "ints", "bools", "strings", "longInts", "doubles")
        values = next((getattr(message, name).values for name in fields if message.HasField(name)), ())
        if dtype is DataType.STRING and not shape:
            return str(message.strings.values[0])
        flat = np.array(values, dtype=dtype.numpy)
    if flat.size != math.prod(shape):
        raise InputError(
            "a constant of the wrong size", expected=f"{shape} of {dtype.name}", found=f"{flat.size} values"
        )
    return flat.reshape(shape)


def _dimension(message: Any) -> int | None:
    """The size of a dimension, or None if it is unknown."""
    return int(message.constant.size) if message.HasField("constant") else None


def _element_type(number: int) -> DataType:
    """An element type by its number in the protobuf."""
    try:
        return DataType(number)
    except ValueError as error:
        raise InputError(
            "an element type that is not known", expected=f"one of MIL's, up to {max(DataType)}", found=number
        ) from error


def _value_type(message: Any) -> ValueType:
    """Reads the type of a value."""
    if message.HasField("tensorType"):
        tensor = message.tensorType
        variadic = any(dimension.HasField("unknown") and dimension.unknown.variadic for dimension in tensor.dimensions)
        shape = None if variadic else tuple(_dimension(dimension) for dimension in tensor.dimensions)
        return TensorType(_element_type(tensor.dataType), shape)
    if message.HasField("listType"):
        return ListType(_value_type(message.listType.type), _dimension(message.listType.length))
    if message.HasField("tupleType"):
        return TupleType(tuple(_value_type(element) for element in message.tupleType.types))
    if message.HasField("dictionaryType"):
        dictionary = message.dictionaryType
        return DictionaryType(_value_type(dictionary.keyType), _value_type(dictionary.valueType))
    if message.HasField("stateType"):
        return StateType(_value_type(message.stateType.wrappedType))
    raise InputError("a value of unknown type")


def _named_types(messages: Any) -> list[NamedType]:
    """Reads named, typed inputs or outputs."""
    return [NamedType(message.name, _value_type(message.type)) for message in messages]


def _interface(message: Any) -> FunctionInterface:
    """Reads the features of a model or of one of its functions."""
    return FunctionInterface(
        inputs=[_feature(feature) for feature in message.input],
        outputs=[_feature(feature) for feature in message.output],
        states=[_feature(feature) for feature in message.state],
    )


def _feature(message: Any) -> Feature:
    """Reads one feature."""
    kind = next((kind for kind in _FEATURE_KINDS if message.type.HasField(kind)), "")
    array = message.type.multiArrayType
    defaults = ("intDefaultValue", "floatDefaultValue", "doubleDefaultValue")
    default = next((getattr(array, name) for name in defaults if array.HasField(name)), 0)
    return Feature(
        name=message.name,
        kind=kind,
        optional_default=default if message.type.isOptional else None,
        shape=tuple(array.shape),
        enumerated_shapes=tuple(tuple(shape.shape) for shape in array.enumeratedShapes.shapes),
        shape_ranges=tuple(
            (sizes.lowerBound, sizes.upperBound if sizes.upperBound >= 0 else None)
            for sizes in array.shapeRange.sizeRanges
        ),
    )
