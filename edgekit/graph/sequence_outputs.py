"""Outputs that are sequences of a fixed number of tensors become as many tensors.

skl2onnx lets a classifier of several labels return its probabilities as a SequenceConstruct of a tensor for each label.
Runtimes of devices do not return sequences.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from edgekit.model import bodies


def without_sequences(graph: ir.Graph) -> dict[str, tuple[str, ...]]:
    """Replaces every returned sequence of a fixed number of tensors by these tensors, in place.

    Returns:
        For each sequence's name, the names of the outputs that replace it, in its order.
    """
    taken = _names(graph)
    found: dict[str, tuple[str, ...]] = {}
    outputs: list[ir.Value] = []
    for value in list(graph.outputs):
        elements = _elements(value)
        if not elements or not value.name:
            outputs.append(value)
            continue
        names = found[value.name] = _unused_names(value.name, len(elements), taken)
        taken.update(names)
        outputs += [_output(graph, value, *each) for each in zip(elements, names, strict=True)]
    replaced = [value for value in graph.outputs if value.name in found]
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


def _elements(value: ir.Value) -> tuple[ir.Value, ...]:
    """Returns the tensors of a sequence; none if they are uncertain, or the value is no sequence."""
    if not isinstance(value.type, ir.SequenceType) or not isinstance(value.type.elem_type, ir.TensorType):
        return ()
    maker = value.producer()
    while maker is not None and maker.op_type == "Identity" and not maker.domain and maker.inputs[0] is not None:
        maker = maker.inputs[0].producer()
    if maker is None or maker.op_type != "SequenceConstruct" or maker.domain:
        return ()
    return tuple(element for element in maker.inputs if element is not None)


def _output(graph: ir.Graph, sequence: ir.Value, element: ir.Value, name: str) -> ir.Value:
    """Adds an Identity that returns an element of a sequence under the given name."""
    node = ir.node("Identity", [element])
    made = node.outputs[0]
    assert isinstance(sequence.type, ir.SequenceType)
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
