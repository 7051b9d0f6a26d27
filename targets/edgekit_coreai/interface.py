"""A Core AI model's metadata about its inputs, outputs and states: their types, and the values of open sizes.

The entry ``edgekit.program`` holds the inputs, outputs and states by native name as the ML Program declares them; the
entry ``edgekit.io`` is written by the converter, as in an ``.mlpackage``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from edgekit.errors import InputError
from edgekit_mlruntime.program import (
    Block,
    DataType,
    Feature,
    Function,
    FunctionInterface,
    NamedType,
    Operation,
    Program,
    StateType,
    TensorType,
)

INTERFACE_KEY = "edgekit.program"
TEXTS = ("author", "license", "description")
"""Entries of the metadata for which Core AI has its own fields."""
_OPSET = "CoreML8"


def output_types(function: Function) -> dict[str, TensorType]:
    """Returns the types of a function's outputs that are tensors of numbers, by name."""
    types = {declared.name: declared.type for declared in function.inputs}
    for operation in function.block.operations:
        types.update({output.name: output.type for output in operation.outputs})
    found = {name: types.get(name) for name in function.block.outputs}
    return {
        name: kind for name, kind in found.items() if isinstance(kind, TensorType) and kind.dtype is not DataType.STRING
    }


def exported_outputs(function: Function) -> list[str]:
    """The outputs that a Core AI model has: not texts and dictionaries, which Core AI does not support."""
    return list(output_types(function))


def interface_record(program: Program, function: Function) -> dict[str, Any]:
    """Returns the content of the metadata entry ``edgekit.program``."""
    interface = program.interfaces.get(function.name, FunctionInterface((), (), ()))

    def port(name: str, kind: TensorType, features: Sequence[Feature]) -> dict[str, Any]:
        found = next((feature for feature in features if feature.name == name), None)
        shape = None if kind.shape is None else [-1 if size is None else size for size in kind.shape]
        record: dict[str, Any] = {"name": name, "type": kind.dtype.name, "shape": shape}
        if found is not None:
            record["feature"] = _plain(asdict(found))
        return record

    inputs = [item for item in function.inputs if isinstance(item.type, TensorType)]
    states = [item for item in function.inputs if isinstance(item.type, StateType)]
    return {
        "inputs": [
            port(item.name, item.type, interface.inputs) for item in inputs if isinstance(item.type, TensorType)
        ],
        "outputs": [port(name, kind, interface.outputs) for name, kind in output_types(function).items()],
        "states": [
            port(item.name, item.type.wrapped, interface.states)
            for item in states
            if isinstance(item.type, StateType) and isinstance(item.type.wrapped, TensorType)
        ],
    }


def _plain(record: Any) -> Any:
    """The record in JSON types: keys with the value None are left out, and None in lists becomes -1."""
    if isinstance(record, dict):
        return {key: _plain(value) for key, value in record.items() if value is not None}
    if isinstance(record, list | tuple):
        return [-1 if item is None else _plain(item) for item in record]
    return record


_RUNTIME_TYPES = {"bool": "BOOL", **{kind.name.lower(): kind.name for kind in DataType}}


def program_of(record: Mapping[str, Any] | None, described: Mapping[str, Any], user: Mapping[str, str]) -> Program:
    """A placeholder program with the inputs, outputs and states of a Core AI model.

    Args:
        record: The metadata entry ``edgekit.program``; None if the model does not have it.
        described: ``inputs``, ``outputs`` and ``states`` as the runtime describes them: name, type, shape.
        user: User metadata of the program: the entry ``edgekit.io`` if the model has it.
    """
    if record is None:
        record = {
            group: [
                {
                    "name": name,
                    "type": _RUNTIME_TYPES.get(dtype, "FLOAT32"),
                    "shape": [-1 if size is None else size for size in shape],
                }
                for name, dtype, shape in described[group]
            ]
            for group in ("inputs", "outputs", "states")
        }
    inputs = [NamedType(item["name"], _type(item)) for item in record["inputs"]]
    inputs += [NamedType(item["name"], StateType(_type(item))) for item in record["states"]]
    outputs = [NamedType(item["name"], _type(item)) for item in record["outputs"]]
    block = Block((), [item.name for item in outputs], [Operation("main", "main", {}, outputs)])
    interface = FunctionInterface(*(tuple(map(_feature, record[group])) for group in ("inputs", "outputs", "states")))
    return Program(
        specification_version=0,
        functions={"main": Function("main", inputs, _OPSET, block)},
        interfaces={"main": interface},
        default_function="main",
        user_metadata=user,
    )


def _type(item: Mapping[str, Any]) -> TensorType:
    shape = item["shape"]
    return TensorType(
        DataType[item["type"]], None if shape is None else tuple(None if size < 0 else int(size) for size in shape)
    )


def _feature(item: Mapping[str, Any]) -> Feature:
    record = item.get("feature", {})
    return Feature(
        item["name"],
        "multiArrayType",
        record.get("optional_default"),
        tuple(int(size) for size in record.get("shape", ())),
        tuple(tuple(int(size) for size in shape) for shape in record.get("enumerated_shapes", ())),
        tuple((int(low), None if high < 0 else int(high)) for low, high in record.get("shape_ranges", ())),
    )


def user_metadata(model: Path) -> Mapping[str, Any]:
    """Returns the custom entries of the model's metadata.

    Raises:
        edgekit.errors.InputError: The folder has no metadata that can be read.
    """
    file = model / "metadata.json"
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            "not a Core AI model", subject=model, expected="a folder .aimodel with a metadata.json", found=error
        ) from error
    found = document.get("creatorDefinedMetadata", {}) if isinstance(document, dict) else {}
    return found if isinstance(found, dict) else {}
