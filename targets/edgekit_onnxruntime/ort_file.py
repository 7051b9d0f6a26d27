"""Makes files in ORT format the same for the same model.

ONNX Runtime writes a table, the kernel type string resolver, in the order of hash maps that it seeds anew each time.
All else in the file is the same. The format is a FlatBuffer, described in onnxruntime/core/flatbuffers/schema/ort.fbs:

    InferenceSession: ort_version, model, (deprecated), kernel_type_str_resolver
    KernelTypeStrResolver: op_kernel_type_str_args, a list of
        op_id, kernel_type_str_args, a list of
            kernel_type_str, args, a list of
                arg_type (int8), index (uint32)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

import flatbuffers  # type: ignore[import-untyped]  # ships no types
from flatbuffers import number_types
from flatbuffers.table import Table  # type: ignore[import-untyped]  # as above

Args = list[tuple[int, int]]
"""Kind of an argument (input or output) and its index."""
Entries = list[tuple[bytes, list[tuple[bytes, Args]]]]
"""The resolver: operators, the names of their type constraints, and the arguments that these hold for."""

MODEL, RESOLVER = 1, 3
"""Numbers of fields of InferenceSession."""
ALIGNMENT = 8


def with_sorted_resolver(content: bytes) -> bytes:
    """The file with its resolver in alphabetical order, at the end, and nothing where it was."""
    session = Table(bytearray(content), number_types.UOffsetTFlags.py_type(struct.unpack_from("<I", content)[0]))
    resolver, model = _child(session, RESOLVER), _child(session, MODEL)
    if resolver is None or model is None:
        return content
    # ONNX Runtime writes the resolver after the model, hence before it: FlatBuffers grow towards their beginning.
    start, end = session.Pos + _table_size(session), min(model.Pos, _vtable(model))
    if not start <= resolver.Pos < end or start <= _vtable(session) < end:
        return content
    buffer = session.Bytes
    entries = _entries(resolver)
    _cut(session, start, end)
    buffer.extend(bytes(-len(buffer) % ALIGNMENT))
    block = _resolver_block(entries)
    slot = session.Pos + _field(session, RESOLVER)
    root = len(buffer) + struct.unpack_from("<I", block)[0]
    struct.pack_into("<I", buffer, slot, root - slot)
    return bytes(buffer + block)


def _cut(session: Table, start: int, end: int) -> None:
    """Takes bytes out of a file between its root table and what that refers to; what follows stays aligned.

    How many bytes the resolver takes depends on its order, too: strings are padded.
    """
    size = (end - start) // ALIGNMENT * ALIGNMENT
    buffer = session.Bytes
    for number in range((_vtable_size(session) - 4) // 2):
        slot = session.Pos + _field(session, number)
        if slot > session.Pos:
            (distance,) = struct.unpack_from("<I", buffer, slot)
            if slot + distance >= end:
                struct.pack_into("<I", buffer, slot, distance - size)
    if _vtable(session) >= end:
        struct.pack_into("<i", buffer, session.Pos, session.Pos - _vtable(session) + size)
    buffer[start:end] = bytes(end - start - size)


def _entries(resolver: Table) -> Entries:
    return sorted(
        (_text(operator, 0), sorted((_text(constraint, 0), _args(constraint)) for constraint in _children(operator, 1)))
        for operator in _children(resolver, 0)
    )


def _args(constraint: Table) -> Args:
    return [
        (_number(arg, 0, number_types.Int8Flags), _number(arg, 1, number_types.Uint32Flags))
        for arg in _children(constraint, 1)
    ]


def _resolver_block(entries: Entries) -> bytes:
    """A FlatBuffer with the resolver as its root."""
    builder = flatbuffers.Builder()

    def vector(offsets: list[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return int(builder.EndVector())

    def table(*fields: Callable[[int], None]) -> int:
        builder.StartObject(len(fields))
        for number, add in enumerate(fields):
            add(number)
        return int(builder.EndObject())

    def reference(offset: int) -> Callable[[int], None]:
        return lambda number: builder.PrependUOffsetTRelativeSlot(number, offset, 0)

    def arg(kind: int, index: int) -> int:
        return table(
            lambda number: builder.PrependInt8Slot(number, kind, 0),
            lambda number: builder.PrependUint32Slot(number, index, 0),
        )

    operators = []
    for operator, constraints in entries:
        parts = []
        for name, args in constraints:
            values = vector([arg(kind, index) for kind, index in args])
            parts.append(table(reference(builder.CreateString(name)), reference(values)))
        operators.append(table(reference(builder.CreateString(operator)), reference(vector(parts))))
    builder.Finish(table(reference(vector(operators))))
    return bytes(builder.Output())


def _field(table: Table, number: int) -> int:
    """Where a field lies, counted from the table; 0 where it is left out."""
    return int(table.Offset(4 + 2 * number))


def _vtable_size(table: Table) -> int:
    return int(struct.unpack_from("<H", table.Bytes, _vtable(table))[0])


def _table_size(table: Table) -> int:
    return int(struct.unpack_from("<H", table.Bytes, _vtable(table) + 2)[0])


def _vtable(table: Table) -> int:
    return int(table.Pos - struct.unpack_from("<i", table.Bytes, table.Pos)[0])


def _child(table: Table, number: int) -> Table | None:
    offset = _field(table, number)
    return Table(table.Bytes, table.Indirect(table.Pos + offset)) if offset else None


def _children(table: Table, number: int) -> Iterator[Table]:
    offset = _field(table, number)
    if offset:
        start = table.Vector(offset)
        for position in range(table.VectorLen(offset)):
            yield Table(table.Bytes, table.Indirect(start + 4 * position))


def _text(table: Table, number: int) -> bytes:
    return bytes(table.String(table.Pos + _field(table, number)))


def _number(table: Table, number: int, flags: type) -> int:
    offset = _field(table, number)
    return int(table.Get(flags, table.Pos + offset)) if offset else 0
