"""The part of Core ML's protobuf format that an ML Program needs, in a private descriptor pool.

Field numbers are those of the published ``Model.proto``, ``FeatureTypes.proto`` and ``MIL.proto``. Fields that the
runtime does not read are left out: protobuf skips unknown fields. Because the pool is private, it neither needs
coremltools (whose import takes seconds) nor clashes with the classes of coremltools when both are loaded.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# One block per message: its name, then one line per field: number, name, type. "*" marks a repeated field, "map" a map
# with string keys, "?" a scalar field that tracks its presence (message fields always do).
_MESSAGES = """
Model
  1 specificationVersion int32
  2 description ModelDescription
  502 mlProgram Program
ModelDescription
  1 input *FeatureDescription
  10 output *FeatureDescription
  13 state *FeatureDescription
  20 functions *FunctionDescription
  21 defaultFunctionName string
  100 metadata Metadata
Metadata
  100 userDefined map string
FunctionDescription
  1 name string
  2 input *FeatureDescription
  3 output *FeatureDescription
  6 state *FeatureDescription
FeatureDescription
  1 name string
  3 type FeatureType
FeatureType
  1 int64Type Empty
  2 doubleType Empty
  3 stringType Empty
  4 imageType Empty
  5 multiArrayType ArrayFeatureType
  6 dictionaryType Empty
  7 sequenceType Empty
  8 stateType Empty
  1000 isOptional bool
ArrayFeatureType
  1 shape *int64
  21 enumeratedShapes EnumeratedShapes
  31 shapeRange ShapeRange
  41 intDefaultValue ?int32
  51 floatDefaultValue ?float
  61 doubleDefaultValue ?double
EnumeratedShapes
  1 shapes *Shape
Shape
  1 shape *int64
ShapeRange
  1 sizeRanges *SizeRange
SizeRange
  1 lowerBound uint64
  2 upperBound int64
Empty
Program
  2 functions map Function
Function
  1 inputs *NamedValueType
  2 opset string
  3 block_specializations map Block
Block
  1 inputs *NamedValueType
  2 outputs *string
  3 operations *Operation
Operation
  1 type string
  2 inputs map Argument
  3 outputs *NamedValueType
  4 blocks *Block
  5 attributes map Value
Argument
  1 arguments *Binding
Binding
  1 name ?string
  2 value Value
NamedValueType
  1 name string
  2 type ValueType
ValueType
  1 tensorType TensorType
  2 listType ListType
  3 tupleType TupleType
  4 dictionaryType DictionaryType
  5 stateType StateType
TensorType
  1 dataType int32
  2 rank int64
  3 dimensions *Dimension
TupleType
  1 types *ValueType
ListType
  1 type ValueType
  2 length Dimension
DictionaryType
  1 keyType ValueType
  2 valueType ValueType
StateType
  1 wrappedType ValueType
Dimension
  1 constant ConstantDimension
  2 unknown UnknownDimension
ConstantDimension
  1 size uint64
UnknownDimension
  1 variadic bool
Value
  2 type ValueType
  3 immediateValue ImmediateValue
  5 blobFileValue BlobFileValue
ImmediateValue
  1 tensor TensorValue
  2 tuple ListValue
  3 list ListValue
  4 dictionary Empty
BlobFileValue
  1 fileName string
  2 offset uint64
ListValue
  1 values *Value
TensorValue
  1 floats Floats
  2 ints Ints
  3 bools Bools
  4 strings Strings
  5 longInts LongInts
  6 doubles Doubles
  7 bytes Bytes
Floats
  1 values *float
Ints
  1 values *int32
Bools
  1 values *bool
Strings
  1 values *string
LongInts
  1 values *int64
Doubles
  1 values *double
Bytes
  1 values bytes
"""

_PACKAGE = "edgekit.mlprogram"
_Field = descriptor_pb2.FieldDescriptorProto


def _add_field(message: descriptor_pb2.DescriptorProto, number: int, name: str, kind: str, value_type: str) -> None:
    """Add one field; ``kind`` is "", "*", "?" or "map"."""
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if kind in ("*", "map"):
        field.label = _Field.LABEL_REPEATED
    if kind == "map":
        # protobuf requires this name: the field's name in camel case, followed by "Entry".
        camel_case = "".join(part[0].upper() + part[1:] for part in name.split("_"))
        entry = message.nested_type.add(name=f"{camel_case}Entry")
        entry.options.map_entry = True
        _add_field(entry, 1, "key", "", "string")
        _add_field(entry, 2, "value", "", value_type)
        value_type = f"{message.name}.{entry.name}"
    if value_type[0].isupper():
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{_PACKAGE}.{value_type}"
    else:
        field.type = _Field.Type.Value(f"TYPE_{value_type.upper()}")
    if kind == "?":
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


@functools.cache
def model_class() -> Any:
    """The message class of a whole model; ``model_class().FromString(data)`` parses an ``.mlmodel`` file."""
    file = descriptor_pb2.FileDescriptorProto(name="edgekit_mlprogram.proto", package=_PACKAGE, syntax="proto3")
    for line in _MESSAGES.strip().splitlines():
        if not line.startswith(" "):
            file.message_type.add(name=line)
            continue
        number, name, *map_marker, value_type = line.split()
        kind = map_marker[0] if map_marker else value_type[0] if value_type[0] in "*?" else ""
        _add_field(file.message_type[-1], int(number), name, kind, value_type.lstrip("*?"))
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Model"))
