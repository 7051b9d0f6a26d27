"""Changes that keep the form and break the meaning of protobuf messages, JSON, TOML, archives and bytes.

Every function draws its changes from the given random generator, so that a seed reproduces them.
"""

from __future__ import annotations

import copy
import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from typing import Any

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

WHOLE = (0, 1, -1, 2, 3, 5, 7, 16, 63, 255, 1000, 65536, 10**6, 2**31 - 1, 2**31, -(2**31), 2**40, 2**63 - 1, -(2**63))
REAL = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, -1e38, math.inf, -math.inf, math.nan)
TEXTS = (
    "",
    "x",
    "a b",
    "\n::error::injected",
    "\r\n::add-mask::a",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x9b31m",
    "a\x00b",
    "../up",
    "/etc/passwd",
    "..\\..\\up",
    "<script>alert(1)</script>",
    "</details><img src=x onerror=alert(1)>",
    "%s%n{0}",
    "\u202egnp.exe",
    "\ud7ff\ue000",
    "名前",
    "n" * 300,
    "l" * 5000,
    "nul",
    "con.txt",
    "-1",
    "NaN",
)
_LIMIT = 4000
"""Maximum number of a model's messages that are visited, and of entries to which a list is extended."""


def messages(root: Message) -> Iterator[Message]:
    """Yields the message and the messages inside it, at most ``_LIMIT``."""
    waiting = [root]
    seen = 0
    while waiting and seen < _LIMIT:
        message = waiting.pop()
        seen += 1
        yield message
        for field, value in message.ListFields():
            if field.message_type is not None:
                waiting.extend(value if field.is_repeated else [value])


def mutate_message(root: Message, rng: random.Random) -> str:
    """Changes one field of the message or of a message inside it; returns a description."""
    every = list(messages(root))
    interesting = [message for message in every if message.DESCRIPTOR.name not in ("TensorProto", "ModelProto")]
    message = rng.choice(interesting if interesting and rng.random() < 0.7 else every)
    present = [field for field, _ in message.ListFields()]
    fields = present if present and rng.random() < 0.75 else list(message.DESCRIPTOR.fields)
    field = rng.choice(fields)
    try:
        done = (_mutate_list if field.is_repeated else _mutate_field)(message, field, every, rng)
    except (ValueError, TypeError, OverflowError) as error:  # the field does not accept the value
        done = f"nothing ({type(error).__name__})"
    return f"{message.DESCRIPTOR.name}.{field.name}: {done}"


def _mutate_field(message: Message, field: FieldDescriptor, every: list[Message], rng: random.Random) -> str:
    if rng.random() < 0.2 and message.HasField(field.name):
        message.ClearField(field.name)
        return "cleared"
    if field.message_type is not None:
        donors = [one for one in every if one.DESCRIPTOR is field.message_type]
        donor = copy.deepcopy(rng.choice(donors)) if donors else field.message_type._concrete_class()
        getattr(message, field.name).CopyFrom(donor)
        return "replaced by another"
    value = _scalar(field, getattr(message, field.name), every, rng)
    setattr(message, field.name, value)
    return f"set to {value!r:.60}"


def _mutate_list(message: Message, field: FieldDescriptor, every: list[Message], rng: random.Random) -> str:
    values = getattr(message, field.name)
    action = rng.choice(("remove", "double", "shuffle", "clear", "add", "change", "many"))
    items = list(values)
    if action == "clear" or (action in ("remove", "double", "change", "shuffle", "many") and not items):
        message.ClearField(field.name)
        return "cleared"
    place = rng.randrange(len(items)) if items else 0
    if action == "remove":
        del values[place]
        return f"removed {place}"
    if action == "shuffle":
        rng.shuffle(items)
    elif action == "double":
        items.insert(rng.randrange(len(items) + 1), copy.deepcopy(items[place]))
    elif action == "many":
        items = (items * (1 + 200 // len(items)))[:_LIMIT]
    elif field.message_type is not None:
        donors = [one for one in every if one.DESCRIPTOR is field.message_type]
        new = copy.deepcopy(rng.choice(donors)) if donors else field.message_type._concrete_class()
        items[place : place + (action == "change")] = [new]
    else:
        new = _scalar(field, items[place] if items else None, every, rng)
        items[place : place + (action == "change")] = [new]
    kept = [copy.deepcopy(item) for item in items]
    message.ClearField(field.name)
    values.extend(kept)
    return action


def _scalar(field: FieldDescriptor, old: Any, every: list[Message], rng: random.Random) -> Any:
    kind = field.cpp_type
    if kind in (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE):
        return rng.choice(REAL)
    if kind == FieldDescriptor.CPPTYPE_BOOL:
        return rng.random() < 0.5
    if kind == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    if kind != FieldDescriptor.CPPTYPE_STRING:
        return rng.choice((*WHOLE, (old or 0) + 1, (old or 0) - 1, rng.randrange(30)))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return mutate_bytes(old or b"", rng) if rng.random() < 0.7 else rng.choice(TEXTS).encode(errors="replace")
    if rng.random() < 0.5:
        return rng.choice(TEXTS)
    strings = [
        text
        for message in every
        for other, value in message.ListFields()
        if other.type == FieldDescriptor.TYPE_STRING
        for text in (value if other.is_repeated else [value])
    ]
    return rng.choice(strings or ["x"])


def mutate_graph(model: onnx.ModelProto, rng: random.Random) -> str:
    """Changes connections, operators, attributes, dimensions, locations of tensors or versions of a model.

    Returns a description.
    """
    change = rng.choice(_GRAPH_CHANGES)
    try:
        return f"{change.__name__.strip('_')}: {change(model, rng)}"
    except Exception as error:  # the model has nothing of that kind, or is already too broken for this change
        return f"{change.__name__.strip('_')}: nothing ({type(error).__name__})"


def _nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    return [message for message in messages(model) if isinstance(message, onnx.NodeProto)]


def _rewire(model: onnx.ModelProto, rng: random.Random) -> str:
    nodes = _nodes(model)
    names = [name for node in nodes for name in (*node.input, *node.output)] + [""]
    node = rng.choice(nodes)
    place, name = rng.randrange(len(node.input)), rng.choice(names)
    node.input[place] = name
    return f"input {place} of {node.op_type} is {name!r}"


def _rename_output(model: onnx.ModelProto, rng: random.Random) -> str:
    nodes = _nodes(model)
    names = [name for node in nodes for name in (*node.input, *node.output)]
    node = rng.choice(nodes)
    node.output[rng.randrange(len(node.output))] = rng.choice(names)
    return node.op_type


def _other_operator(model: onnx.ModelProto, rng: random.Random) -> str:
    node = rng.choice(_nodes(model))
    schemas = onnx.defs.get_all_schemas()
    schema = schemas[rng.randrange(len(schemas))]
    node.op_type, node.domain = schema.name, schema.domain
    return schema.name


def _added_output(model: onnx.ModelProto, rng: random.Random) -> str:
    node = rng.choice(_nodes(model))
    node.output.extend(f"more{number}" for number in range(rng.choice((1, 2, 30))))
    return node.op_type


def _attribute(model: onnx.ModelProto, rng: random.Random) -> str:
    node = rng.choice([node for node in _nodes(model) if node.attribute])
    attribute = rng.choice(node.attribute)
    value = rng.choice([rng.choice(WHOLE), [rng.choice(WHOLE) for _ in range(rng.randrange(1, 5))], rng.choice(REAL)])
    name = attribute.name
    new = onnx.helper.make_attribute(name, rng.choice([value, rng.choice(TEXTS)]))
    attribute.CopyFrom(new)
    return f"{node.op_type}.{name}"


def _schema_attribute(model: onnx.ModelProto, rng: random.Random) -> str:
    node = rng.choice(_nodes(model))
    schema = onnx.defs.get_schema(node.op_type, domain=node.domain)
    name = rng.choice(sorted(schema.attributes))
    value = rng.choice([rng.choice(WHOLE), [rng.choice(WHOLE) for _ in range(rng.randrange(5))], rng.choice(REAL)])
    node.attribute.append(onnx.helper.make_attribute(name, value, attr_type=None if value != [] else 7))
    return f"{node.op_type}.{name}"


def _dimension(model: onnx.ModelProto, rng: random.Random) -> str:
    shapes = [one for one in messages(model) if isinstance(one, onnx.TensorShapeProto)]
    shape = rng.choice([shape for shape in shapes if shape.dim])
    dim = rng.choice(shape.dim)
    if rng.random() < 0.3:
        dim.dim_param = rng.choice(TEXTS)
        return f"{dim.dim_param!r:.40}"
    dim.dim_value = rng.choice(WHOLE)
    return str(dim.dim_value)


def _tensor(model: onnx.ModelProto, rng: random.Random) -> str:
    tensor = rng.choice([one for one in messages(model) if isinstance(one, onnx.TensorProto)])
    change = rng.randrange(4)
    if change == 0:
        tensor.data_type = rng.randrange(-1, 27)
    elif change == 1 and tensor.dims:
        tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(WHOLE)
    elif change == 2:
        array = onnx.numpy_helper.to_array(tensor)
        flat = array.reshape(-1).copy()
        if array.dtype.kind in "iu":
            limits = (max(-(2**63), int(_least(array))), min(2**63 - 1, int(_most(array))))
            flat[rng.randrange(flat.size)] = min(max(rng.choice(WHOLE), limits[0]), limits[1])
        elif array.dtype.kind == "f":
            flat[rng.randrange(flat.size)] = rng.choice(REAL)
        name = tensor.name
        tensor.CopyFrom(onnx.numpy_helper.from_array(flat.reshape(array.shape), name))
    else:
        tensor.raw_data = tensor.raw_data[: rng.randrange(len(tensor.raw_data) + 1)]
    return f"{tensor.name} {change}"


def _least(array: Any) -> Any:
    import numpy as np

    return np.iinfo(array.dtype).min


def _most(array: Any) -> Any:
    import numpy as np

    return np.iinfo(array.dtype).max


def _elsewhere(model: onnx.ModelProto, rng: random.Random) -> str:
    tensor = rng.choice([one for one in messages(model) if isinstance(one, onnx.TensorProto)])
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.ClearField("raw_data")
    tensor.ClearField("external_data")
    entries = {
        "location": rng.choice(
            ("external.bin", "../external.bin", "/dev/zero", "/etc/passwd", "a\x00b", "l" * 5000, "", ".", "é" * 200)
        ),
        "offset": rng.choice(("0", "-1", "99999999999", "1.5", "x", str(2**70), "4")),
        "length": rng.choice(("0", "-4", "99999999999", "64", "", str(2**70), "2048")),
    }
    for key in rng.sample(sorted(entries), rng.randrange(1, 4)):
        tensor.external_data.add(key=key, value=entries[key])
    return str(entries)[:80]


def _version(model: onnx.ModelProto, rng: random.Random) -> str:
    opset = rng.choice([*model.opset_import, *(one for f in model.functions for one in f.opset_import)])
    opset.version = rng.choice((*range(1, 27), *WHOLE))
    return f"{opset.domain} {opset.version}"


def _element_type(model: onnx.ModelProto, rng: random.Random) -> str:
    types = [one for one in messages(model) if one.DESCRIPTOR.full_name == "onnx.TypeProto.Tensor"]
    chosen = rng.choice(types)
    chosen.elem_type = rng.randrange(-1, 27)  # type: ignore[attr-defined]  # a TypeProto.Tensor
    return "changed"


def _other_kind(model: onnx.ModelProto, rng: random.Random) -> str:
    value = rng.choice([*model.graph.input, *model.graph.output])
    tensor = onnx.helper.make_tensor_type_proto(rng.randrange(1, 20), rng.choice(([], None, [1], ["N"])))
    kind = rng.choice(("sequence", "optional", "map", "nothing", "sparse"))
    value.ClearField("type")
    if kind == "map":
        value.type.map_type.key_type = rng.randrange(1, 10)
        value.type.map_type.value_type.CopyFrom(tensor)
    elif kind == "sparse":
        value.type.sparse_tensor_type.elem_type = 1
    elif kind != "nothing":
        getattr(value.type, f"{kind}_type").elem_type.CopyFrom(tensor)
    return kind


def _node_order(model: onnx.ModelProto, rng: random.Random) -> str:
    nodes = list(model.graph.node)
    rng.shuffle(nodes)
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return "shuffled"


def _dropped_node(model: onnx.ModelProto, rng: random.Random) -> str:
    place = rng.randrange(len(model.graph.node))
    dropped = model.graph.node[place].op_type
    del model.graph.node[place]
    return dropped


def _name(model: onnx.ModelProto, rng: random.Random) -> str:
    """Renames a value everywhere, so that the model stays valid."""
    old = rng.choice([name for node in _nodes(model) for name in (*node.input, *node.output) if name])
    new = rng.choice(TEXTS)
    for message in list(messages(model)):
        for field, value in list(message.ListFields()):
            if field.type == FieldDescriptor.TYPE_STRING:
                if field.is_repeated:
                    for place, text in enumerate(list(value)):
                        if text == old:
                            value[place] = new
                elif value == old:
                    setattr(message, field.name, new)
    return f"{old} is {new!r:.40}"


def _function(model: onnx.ModelProto, rng: random.Random) -> str:
    """Turns a node into a call of a new function that contains the node; the function may call itself."""
    node = rng.choice(list(model.graph.node))
    inside = copy.deepcopy(node)
    if rng.random() < 0.3:
        inside.op_type, inside.domain = "f", "made"
    inputs = [name for name in node.input if name]
    opsets = [copy.deepcopy(one) for one in model.opset_import]
    if rng.random() < 0.3 and opsets:
        rng.choice(opsets).version = rng.randrange(1, 25)
    function = onnx.helper.make_function("made", "f", inputs, list(node.output), [inside], opsets)
    model.functions.append(function)
    del node.input[:], node.attribute[:]
    node.input.extend(inputs)
    node.op_type, node.domain = "f", "made"
    if rng.random() < 0.8:
        model.opset_import.append(onnx.helper.make_opsetid("made", 1))
    return inside.op_type


def _wrapped(model: onnx.ModelProto, rng: random.Random) -> str:
    """Puts a node into both branches of an If, or into a Loop whose first iteration's outputs are used."""
    place = rng.randrange(len(model.graph.node))
    node = model.graph.node[place]
    inside = copy.deepcopy(node)
    inside.output[:] = [f"inside {name}" for name in node.output]
    outputs = [onnx.ValueInfoProto(name=name) for name in inside.output]
    made = [onnx.helper.make_node("Constant", [], ["wrap"], value_int=rng.choice((0, 1, 3, 1000, 10**7, *WHOLE)))]
    if rng.random() < 0.4:
        made.append(onnx.helper.make_node("Cast", ["wrap"], ["wrap go"], to=9))
        branch = onnx.helper.make_graph([inside], "branch", [], outputs)
        made.append(onnx.helper.make_node("If", ["wrap go"], node.output, then_branch=branch, else_branch=branch))
    else:
        step = [onnx.helper.make_tensor_value_info(name, kind, []) for name, kind in (("i", 7), ("c", 9))]
        more = onnx.helper.make_node("Identity", ["c"], ["d"])
        goes_on = onnx.helper.make_tensor_value_info("d", 9, [])
        body = onnx.helper.make_graph([more, inside], "body", step, [goes_on, *outputs])
        collected = [f"all {name}" for name in node.output]
        made.append(onnx.helper.make_node("Loop", [rng.choice(("wrap", "wrap", "")), ""], collected, body=body))
        made.append(onnx.helper.make_node("Constant", [], ["wrap first"], value_int=0))
        for name, every in zip(node.output, collected, strict=True):
            made.append(onnx.helper.make_node("Gather", [every, "wrap first"], [name]))
    kind = node.op_type
    nodes = [*model.graph.node[:place], *made, *model.graph.node[place + 1 :]]
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    return f"{kind} in {made[-1].op_type if made[-1].op_type == 'If' else 'Loop'}"


_GRAPH_CHANGES: tuple[Callable[[onnx.ModelProto, random.Random], str], ...] = (
    _rewire,
    _rename_output,
    _other_operator,
    _added_output,
    _attribute,
    _schema_attribute,
    _dimension,
    _tensor,
    _tensor,
    _elsewhere,
    _version,
    _element_type,
    _other_kind,
    _node_order,
    _dropped_node,
    _name,
    _function,
    _wrapped,
)


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """Flips, deletes, duplicates or overwrites bytes, in 1 to 5 changes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        place = rng.randrange(len(changed) + 1)
        match rng.randrange(7):
            case 0 if changed:
                changed[min(place, len(changed) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                del changed[place:]
            case 2:
                del changed[place : place + rng.randrange(1, 9)]
            case 3:
                changed[place:place] = changed[place : place + rng.randrange(1, 65)]
            case 4:
                changed[place:place] = rng.choice((b"\xff" * 8, b"\x00" * 8, b"\x1b[31m", b"\n::error::x", b"\xc3\x28"))
            case 5:
                changed[place : place + 4] = rng.choice((b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", bytes(4)))
            case _:
                changed[place : place + 1] = rng.randbytes(1)
    return bytes(changed)


def mutate_text_inside(data: bytes, texts: list[str], rng: random.Random) -> bytes:
    """Replaces a byte of one of the texts by one that is invalid UTF-8 or a control character."""
    found = [text.encode() for text in texts if text and text.encode() in data]
    if not found:
        return mutate_bytes(data, rng)
    text = rng.choice(found)
    changed = bytearray(text)
    changed[rng.randrange(len(changed))] = rng.choice(b"\xff\xc0\x80\x1b\n\r\x00\x07")
    return data.replace(text, bytes(changed), rng.choice((1, -1)))


def mutate_document(document: Any, rng: random.Random) -> Any:
    """A JSON or TOML document with one value changed, removed or under another key."""
    document = copy.deepcopy(document)
    places: list[tuple[Any, Any]] = []

    def visit(value: Any) -> None:
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            places.append((value, key))
            if isinstance(inner, dict | list):
                visit(inner)

    visit(document)
    if not places:
        return {rng.choice(TEXTS): rng.choice(TEXTS)}
    container, key = rng.choice(places)
    if rng.random() < 0.15:
        del container[key]
    elif rng.random() < 0.15 and isinstance(container, dict):
        container[rng.choice(TEXTS)] = container.pop(key)
    else:
        container[key] = strange_value(container[key], rng)
    return document


def strange_value(old: Any, rng: random.Random) -> Any:
    """A value to replace another one, often of the same type."""
    if rng.random() < 0.7:
        if isinstance(old, bool):
            return not old
        if isinstance(old, int | float):
            return rng.choice((*WHOLE, *REAL, old + 1, -old))
        if isinstance(old, str):
            return rng.choice((*TEXTS, old + rng.choice(TEXTS), old[:-1], old * 2, "99999%", "nan%", "inf", "1e999 MB"))
        if isinstance(old, list):
            return rng.choice((old + old, old[:-1], old * 100, [], [old]))
        if isinstance(old, dict):
            return {**old, rng.choice(TEXTS): rng.choice(TEXTS)}
    deep: Any = 1
    for _ in range(rng.choice((3, 3, 3, 150))):
        deep = [deep]
    return rng.choice((None, rng.choice(WHOLE), rng.choice(REAL), rng.choice(TEXTS), [], {}, deep, 10**400, True))


def to_json(document: Any) -> str:
    """JSON as Python writes it, with NaN and infinities, which other readers refuse; deep nesting if Python fails."""
    try:
        return json.dumps(document)
    except (RecursionError, ValueError):
        return '{"schema_version": 1, "edgekit": "0", "stages": ' + "[" * 100_000 + "]" * 100_000 + "}"


def to_toml(value: Any) -> str:
    """A value in TOML's notation."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        escaped = "".join(
            character if character.isprintable() and character not in '"\\' else f"\\u{ord(character):04x}"
            for character in value
        )
        return f'"{escaped}"'
    if isinstance(value, float):
        return {"inf": "inf", "-inf": "-inf", "nan": "nan"}.get(str(value), repr(value))
    if isinstance(value, list):
        text, depth = value, 0
        while isinstance(text, list) and len(text) == 1:
            text, depth = text[0], depth + 1
        if isinstance(text, list):
            return "[" * depth + "[" + ", ".join(map(to_toml, text)) + "]" + "]" * depth
        return "[" * depth + to_toml(text) + "]" * depth
    if isinstance(value, dict):
        return "{" + ", ".join(f"{to_toml(str(key))} = {to_toml(inner)}" for key, inner in value.items()) + "}"
    if value is None:
        return '""'
    try:
        return str(value)
    except ValueError:  # Python refuses to convert integers of more than 4,300 digits
        return "9" * 5000


def mutate_zip(data: bytes, rng: random.Random) -> bytes:
    """A ZIP archive with a flag, a method, a size or bytes changed."""
    changed = bytearray(data)
    for signature, flags, method, sizes in ((b"PK\x01\x02", 8, 10, 20), (b"PK\x03\x04", 6, 8, 18)):
        place = changed.find(signature)
        if place < 0:
            continue
        match rng.randrange(4):
            case 0:
                changed[place + flags] |= 1  # encrypted
            case 1:
                struct.pack_into("<H", changed, place + method, rng.choice((1, 9, 12, 14, 99)))
            case 2:
                struct.pack_into("<I", changed, place + sizes, rng.choice((0, 1, 2**31, 2**32 - 2)))
            case _:
                changed = bytearray(mutate_bytes(bytes(changed), rng))
    return bytes(changed)
