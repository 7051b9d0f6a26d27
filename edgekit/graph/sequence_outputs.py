"""Outputs that are sequences of a fixed number of tensors become as many tensors.

skl2onnx lets a classifier of several labels return its probabilities as a SequenceConstruct of a tensor for each label.
Runtimes of devices do not return sequences.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant, input_at, scalar
from edgekit.model import bodies


def without_sequences(graph: ir.Graph, opset: int) -> dict[str, tuple[str, ...]]:
    """Replaces every returned sequence of a fixed number of tensors by these tensors, in place.

    An optional value that the graph fills becomes the tensor that it holds, under its name.

    Args:
        graph: The model's graph.
        opset: The version of the standard operators.

    Returns:
        For each sequence's name, the names of the outputs that replace it, in its order.
    """
    taken = _names(graph)
    found: dict[str, tuple[str, ...]] = {}
    outputs: list[ir.Value] = []
    replaced: list[ir.Value] = []
    for value in list(graph.outputs):
        builder = NodeBuilder(opset, value.name or "")
        held = _held(value)
        elements = (held,) if held is not None else elements_of(value, builder)
        if not elements or not value.name:
            outputs.append(value)
            continue
        replaced.append(value)
        names = (value.name,) if held is not None else _unused_names(value.name, len(elements), taken)
        if held is None:
            found[value.name] = names
        else:
            value.name = f"{value.name}/optional"
        taken.update(names)
        graph.extend(builder.nodes)
        for number in builder.initializers:
            graph.register_initializer(number)
        outputs += [_output(graph, value, *each) for each in zip(elements, names, strict=True)]
    graph.outputs[:] = outputs
    for value in replaced:
        _drop_unread(graph, value)
    return found


def warnings_of(sequences: Mapping[str, tuple[str, ...]]) -> list[str]:
    """What has changed at the model's outputs, in words."""
    return [
        f"output {name!r} was a sequence and is a tensor for each of its elements: {', '.join(names[:5])}"
        f"{'' if len(names) <= 5 else ' …'}"
        for name, names in sequences.items()
    ]


def _held(value: ir.Value) -> ir.Value | None:
    """Returns the tensor that an optional value is known to hold; None for other values."""
    maker = _maker(value)
    if not isinstance(value.type, ir.OptionalType) or maker is None or maker.op_type != "Optional":
        return None
    held = maker.inputs[0] if maker.inputs else None
    return held if held is not None and not isinstance(held.type, ir.SequenceType | ir.OptionalType) else None


def elements_of(value: ir.Value, builder: NodeBuilder) -> tuple[ir.Value, ...] | None:
    """Returns the tensors of a sequence; None if they are uncertain, or the value is no sequence.

    Args:
        value: Any value.
        builder: Makes the nodes that cut tensors of a split out of what is split.
    """
    maker = _maker(value)
    if maker is None or maker.domain or not _is_sequence(value):
        return None
    match maker.op_type:
        case "SequenceConstruct":
            return tuple(element for element in maker.inputs if element is not None)
        case "SequenceEmpty":
            return ()
        case "SequenceInsert":
            return _with_one_more(maker, builder)
        case "SequenceErase":
            return _with_one_less(maker, builder)
        case "SplitToSequence":
            return _parts(maker, builder)
    return None


def _is_sequence(value: ir.Value) -> bool:
    """Whether a value may be a sequence of tensors: values within a graph often have no type."""
    return value.type is None or (
        isinstance(value.type, ir.SequenceType) and isinstance(value.type.elem_type, ir.TensorType)
    )


def _maker(value: ir.Value) -> ir.Node | None:
    """Returns the node that makes a value, behind any Identity."""
    maker = value.producer()
    while maker is not None and maker.op_type == "Identity" and not maker.domain and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    return maker


def _place(node: ir.Node, index: int, absent: int, count: int) -> int | None:
    """Returns the place that an input of a node tells, counted from the front; None if it is not known."""
    given = input_at(node, index)
    if given is None:
        return absent
    place = scalar(given)
    if place is None or not -count <= place <= count:
        return None
    return int(place) + (count if place < 0 else 0)


def _with_one_more(node: ir.Node, builder: NodeBuilder) -> tuple[ir.Value, ...] | None:
    sequence, added = node.inputs[:2]
    before = None if sequence is None else elements_of(sequence, builder)
    if before is None or added is None:
        return None
    place = _place(node, 2, len(before), len(before))
    return None if place is None else (*before[:place], added, *before[place:])


def _with_one_less(node: ir.Node, builder: NodeBuilder) -> tuple[ir.Value, ...] | None:
    sequence = node.inputs[0]
    before = None if sequence is None else elements_of(sequence, builder)
    if not before:
        return None
    place = _place(node, 1, len(before) - 1, len(before))
    return None if place is None or place == len(before) else (*before[:place], *before[place + 1 :])


def _parts(node: ir.Node, builder: NodeBuilder) -> tuple[ir.Value, ...] | None:
    """Returns the tensors that a SplitToSequence gives, if the size of the axis is known."""
    whole, split = node.inputs[0], input_at(node, 1)
    axis = node.attributes.get_int("axis", 0)
    shape = None if whole is None else whole.shape
    if whole is None or shape is None or not -len(shape) <= axis < len(shape):
        return None
    size = shape[axis]
    if not isinstance(size, int):
        return None
    if split is None and not node.attributes.get_int("keepdims", 1):
        return tuple(builder("Gather", whole, np.array(index), axis=axis) for index in range(size))
    lengths = _lengths(split, size)
    if lengths is None:
        return None
    ends = np.cumsum(lengths).tolist()
    return tuple(builder.slice(whole, [end - length], [end], [axis]) for length, end in zip(lengths, ends, strict=True))


def _lengths(split: ir.Value | None, size: int) -> list[int] | None:
    """Returns the lengths of a split's parts: 1 each, parts of one length and a rest, or those that a list tells."""
    numbers = np.array(1) if split is None else constant(split)
    if numbers is None:
        return None
    if numbers.ndim:
        return [int(length) for length in numbers]
    step = int(numbers)
    return None if step < 1 else [min(step, size - start) for start in range(0, size, step)]


def _output(graph: ir.Graph, sequence: ir.Value, element: ir.Value, name: str) -> ir.Value:
    """Adds an Identity that returns an element of a sequence, or of an optional value, under the given name."""
    node = ir.node("Identity", [element])
    made = node.outputs[0]
    assert isinstance(sequence.type, ir.SequenceType | ir.OptionalType)
    made.name, made.type = name, ir.TensorType(sequence.type.elem_type.dtype)
    shape = sequence.shape if element.shape is None else element.shape
    made.shape = None if shape is None else shape.copy()
    graph.append(node)
    return made


def _drop_unread(graph: ir.Graph, value: ir.Value) -> None:
    """Removes the nodes that made a sequence if nothing else reads it."""
    while True:
        maker = value.producer()
        if maker is None or value.uses() or value.is_graph_output():
            return
        before = maker.inputs[0]
        graph.remove(maker, safe=True)
        if maker.op_type != "Identity" or before is None:
            return
        value = before


def _unused_names(sequence: str, count: int, taken: Collection[str]) -> tuple[str, ...]:
    """Names for the elements of a sequence that no value has."""
    stem = f"{sequence}_"
    while any(f"{stem}{number}" in taken for number in range(count)):
        stem += "_"
    return tuple(f"{stem}{number}" for number in range(count))


def _names(graph: ir.Graph) -> set[str]:
    """The names of all values in the graph and in bodies inside of it."""
    names = {value.name for value in (*graph.inputs, *graph.initializers.values()) if value.name}
    for node in graph:
        names |= {value.name for value in node.outputs if value.name}
        for body in bodies(node):
            names |= _names(body)
    return names
