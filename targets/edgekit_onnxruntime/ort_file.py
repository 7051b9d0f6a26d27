"""Makes files in ORT format deterministic: the same model gives the same file.

ONNX Runtime writes one table, the kernel type string resolver, in the order of hash maps with a random seed. The rest
of the file is deterministic. The format is a FlatBuffer, described in onnxruntime/core/flatbuffers/schema/ort.fbs:

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
"""The kinds of arguments (input or output) and their indices."""
Entries = list[tuple[bytes, list[tuple[bytes, Args]]]]
"""The resolver: operators, the names of their type constraints, and the arguments that these constraints apply to."""

MODEL, RESOLVER = 1, 3
"""The numbers of two fields of InferenceSession."""
ALIGNMENT = 8


def with_sorted_resolver(content: bytes) -> bytes:
    """The file with its resolver sorted and moved to the end; the unchanged file if its layout is another."""
    session = Table(bytearray(content), number_types.UOffsetTFlags.py_type(struct.unpack_from("<I", content)[0]))
    resolver, model = _child(session, RESOLVER), _child(session, MODEL)
    if resolver is None or model is None:
        return content
    # ONNX Runtime writes the resolver after the model, so the resolver comes first: FlatBuffers grow to the front.
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
    """Removes the bytes from ``start`` to ``end`` of the file, in whole multiples of the alignment; the rest become 0.

    They lie between the root table and the tables that it refers to, whose offsets are corrected. The size of the
    resolver depends on its order, because strings are padded.
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
    """The offset of a field from the start of the table; 0 if the field is left out."""
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
