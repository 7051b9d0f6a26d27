"""Sequences that loops add tensors to, or read: their tensors become rows of one tensor.

TorchScript exports ``found.append(token)`` as a sequence that a loop carries along and that grows by one tensor in each
iteration. The added tensor becomes a scan output of the loop, whose rows are then read by their index.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.loops.values import BEFORE_STATES, CONDITION
from edgekit.model import node_name

_MAKERS = frozenset(["SequenceConstruct", "SequenceInsert", "SplitToSequence"])
_READERS = frozenset(["ConcatFromSequence", "SequenceAt", "SequenceLength"])

Dims = tuple[int | str | None, ...]


def collect_sequences(model: ir.Model) -> bool:
    """Replaces sequences of tensors of one shape that loops add to or read, in place; returns whether it found any."""
    sizes = {dim.value for value in model.graph.inputs for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)}
    fixed = {name for name in sizes if name is not None}
    count = 0
    while (family := next(_families(model.graph, fixed), None)) is not None:
        _Rows(model, family, count).write()
        count += 1
    return bool(count)


class _Growth(NamedTuple):
    """A state of a loop to which the body only appends one tensor."""

    loop: ir.Node
    state: int
    insertion: ir.Node

    @property
    def first(self) -> ir.Value:
        """The sequence before the first iteration."""
        value = self.loop.inputs[BEFORE_STATES + self.state]
        assert value is not None
        return value


def _families(graph: ir.Graph, fixed: Collection[str]) -> Iterator[_Family]:
    """Yields the families of sequences in a graph and its subgraphs that can be replaced."""
    seen: set[ir.Value] = set()
    for node in graph.all_nodes():
        for value in node.outputs if _is(node, *_MAKERS, "Loop") else ():
            growth = _growth_of(value)
            if value in seen or (node.op_type == "Loop" and growth is None) or _grows_in_loop(node):
                continue
            family = _Family(value)
            seen |= family.members
            if family.is_replaceable(fixed):
                yield family


def _is(node: ir.Node | None, *operators: str) -> bool:
    return node is not None and not node.domain and node.op_type in operators


def _growth_of(value: ir.Value) -> _Growth | None:
    """Returns the growing state whose last value an output of a loop is, or None if it is no such state."""
    loop, number = value.producer(), value.index()
    if loop is None or not _is(loop, "Loop") or number is None or number >= len(loop.inputs) - BEFORE_STATES:
        return None
    body = loop.attributes["body"].as_graph()
    if len(body.outputs) != CONDITION + len(loop.outputs):
        return None
    entry, result = body.inputs[BEFORE_STATES + number], body.outputs[CONDITION + number]
    node = result.producer()
    if node is None or not _is(node, "SequenceInsert") or node.graph is not body or _inserted(node) is None:
        return None
    is_read = len(entry.uses()) > 1 or entry.is_graph_output() or result.uses() or body.outputs.count(result) > 1
    if node.inputs[0] is not entry or is_read or loop.inputs[BEFORE_STATES + number] is None:
        return None
    return _Growth(loop, number, node)


def _inserted(node: ir.Node) -> ir.Value | None:
    """Returns the tensor that a SequenceInsert adds at the end, or None if it adds the tensor elsewhere."""
    return None if len(node.inputs) > 2 and node.inputs[2] is not None else node.inputs[1]


def _grows_in_loop(node: ir.Node) -> bool:
    """Whether a node adds to a state of the loop whose body it is in."""
    before = node.inputs[0] if _is(node, "SequenceInsert") else None
    return before is not None and before.is_graph_input()


class _Family:
    """Sequences that are made from one another, with the nodes that make and read them.

    Args:
        value: One of them.
    """

    def __init__(self, value: ir.Value) -> None:
        self.members: set[ir.Value] = set()
        self.growths: dict[ir.Node, list[_Growth]] = {}
        self.nodes: set[ir.Node] = set()
        self.shape: Dims = ()
        """The shape of the tensors; None for sizes that are not known, or that may differ."""
        self._elements: list[Dims | None] = []
        self._before: list[tuple[ir.Value, ir.Value]] = []
        self._is_understood = True
        waiting = [value]
        while waiting:
            value = waiting.pop()
            if value not in self.members:
                self.members.add(value)
                waiting += self._made_of(value)
                waiting += self._made_into(value)

    def is_replaceable(self, fixed: Collection[str]) -> bool:
        """Whether rows can replace the sequences in every node that uses them, and a loop adds to or reads one of them.

        Args:
            fixed: Names of sizes that stay the same while the model runs.
        """
        ranks = {None if shape is None else len(shape) for shape in self._elements}
        if not self._is_understood or len(ranks) != 1 or None in ranks or not self._has_loops():
            return False
        self.shape = next(shape for shape in self._elements if shape is not None)
        if not self.shape and any(_joins(node) for node in self.nodes):
            return False
        known = all(isinstance(dim, int) or dim in fixed for dim in self.shape)
        if known and len(set(self._elements)) == 1 and all(map(_is_steady, self.growths)):
            return True
        self.shape = tuple(None for _ in self.shape)
        return self._are_all_stacked()

    def _has_loops(self) -> bool:
        makers = {member.producer() for member in self.members}
        graphs = {maker.graph for maker in makers if maker is not None}
        return bool(self.growths) or any(_is(node, "SequenceAt") and node.graph not in graphs for node in self.nodes)

    def _are_all_stacked(self) -> bool:
        """Whether every sequence is eventually stacked along a new axis, so that all tensors must have one shape."""
        stacked = set()
        for node in self.nodes:
            value = node.inputs[0] if _stacks(node) else None
            maker = None if value is None else value.producer()
            if value is not None and maker is not None and maker.graph is node.graph:
                stacked.add(value)
        waiting = list(stacked)
        while waiting:
            after = waiting.pop()
            found = [before for before, made in self._before if made is after and before not in stacked]
            stacked.update(found)
            waiting += found
        return stacked == self.members

    def _made_of(self, value: ir.Value) -> Iterator[ir.Value]:
        """Yields the sequence that another one is made from; records the shapes of the tensors added."""
        node, growth = value.producer(), _growth_of(value)
        if growth is not None:
            self.growths.setdefault(growth.loop, []).append(growth)
            self.nodes.add(growth.loop)
            self._elements.append(_dims(growth.insertion.inputs[1]))
            yield from self._unless_empty(growth.first, value)
        elif node is not None and _is(node, "SequenceInsert") and not _grows_in_loop(node) and _inserted(node):
            self.nodes.add(node)
            self._elements.append(_dims(node.inputs[1]))
            yield from self._unless_empty(node.inputs[0], value)
        elif node is not None and _is(node, "SequenceConstruct"):
            self.nodes.add(node)
            self._elements += map(_dims, node.inputs)
        elif node is not None and _is(node, "SplitToSequence") and (parts := _parts(node)) is not None:
            self.nodes.add(node)
            self._elements.append(parts)
        else:
            self._is_understood = False

    def _unless_empty(self, before: ir.Value | None, after: ir.Value) -> Iterator[ir.Value]:
        if before is not None and not _is_empty(before):
            self._before.append((before, after))
            yield before

    def _made_into(self, value: ir.Value) -> Iterator[ir.Value]:
        """Yields the sequences that are made from another one; records the nodes that read it."""
        self._is_understood &= not value.is_graph_output()
        for node, place in value.uses():
            if _is(node, "SequenceInsert") and place == 0:
                yield node.outputs[0]
            elif _is(node, "Loop") and 0 <= place - BEFORE_STATES < len(node.outputs):
                yield node.outputs[place - BEFORE_STATES]
            elif _is(node, *_READERS) and place == 0:
                self.nodes.add(node)
            else:
                self._is_understood = False


def _is_empty(value: ir.Value) -> bool:
    return _is(value.producer(), "SequenceEmpty")


def _stacks(node: ir.Node) -> bool:
    """Whether a node stacks tensors along a new axis."""
    return _is(node, "ConcatFromSequence") and node.attributes.get_int("new_axis", 0) == 1


def _joins(node: ir.Node) -> bool:
    """Whether a node concatenates tensors along one of their axes."""
    return _is(node, "ConcatFromSequence") and not _stacks(node)


def _dims(value: ir.Value | None) -> Dims | None:
    if value is None or value.shape is None:
        return None
    return tuple(dim if isinstance(dim, int) else dim.value for dim in value.shape)


def _parts(node: ir.Node) -> Dims | None:
    """Returns the shape of a SplitToSequence's parts of size 1, without the split axis, or None for other nodes."""
    given = _dims(node.inputs[0])
    if (
        not given
        or (len(node.inputs) > 1 and node.inputs[1] is not None)
        or node.attributes.get_int("keepdims", 1) != 0
    ):
        return None
    axis = node.attributes.get_int("axis", 0) % len(given)
    return (*given[:axis], *given[axis + 1 :])


def _is_steady(loop: ir.Node) -> bool:
    """Whether the body returns each state in the shape in which it declares it as an input."""
    body = loop.attributes["body"].as_graph()
    pairs = zip(body.inputs[BEFORE_STATES:], body.outputs[CONDITION:], strict=False)
    tensors = [pair for pair in pairs if not _is(pair[1].producer(), "SequenceInsert")]
    return all(_dims(entry) is None or _dims(entry) == _dims(result) for entry, result in tensors)


class _Rows:
    """Rewrites the nodes of a family of sequences so that its tensors are rows of one tensor.

    Args:
        model: The model, which is changed in place.
        family: The sequences.
        number: Distinguishes the names from those of other families.
    """

    def __init__(self, model: ir.Model, family: _Family, number: int) -> None:
        self._model = model
        self._family = family
        self._number = number

    def write(self) -> None:
        """Replaces the nodes."""
        for node in list(self._model.graph.all_nodes()):
            if node not in self._family.nodes:
                continue
            build = NodeBuilder(self._model.opset_imports.get("", 0), f"{node_name(node)}/rows_{self._number}")
            if node.op_type == "Loop":
                self._write_loop(node, build)
                continue
            made = self._made(node, build)
            graph, (old,) = node.graph, node.outputs
            assert isinstance(graph, ir.Graph)
            self._insert_before(node, build)
            if node.op_type in _MAKERS:
                _tell(made, _element(node), self._family.shape)
                old.replace_all_uses_with(made)
            else:
                _replace(old, made)
            graph.remove(node, safe=True)

    def _made(self, node: ir.Node, build: NodeBuilder) -> ir.Value:
        rank, rows = len(self._family.shape), node.inputs[0]
        if node.op_type == "SequenceConstruct":
            return build("Concat", *(build.unsqueeze(value, [0]) for value in node.inputs), axis=0)
        if node.op_type == "SequenceInsert":
            added = build.unsqueeze(node.inputs[1], [0])
            return added if rows is None or _is_empty(rows) else build("Concat", rows, added, axis=0)
        axis = node.attributes.get_int("axis", 0)
        if node.op_type == "SplitToSequence":
            axis %= rank + 1
            return build("Transpose", rows, perm=[axis, *(each for each in range(rank + 1) if each != axis)])
        if node.op_type == "SequenceLength":
            return build("Gather", build("Shape", rows), np.int64(0), axis=0)
        if node.op_type == "SequenceAt":
            place = node.inputs[1]
            is_scalar = place is not None and place.shape is not None and not place.shape.rank()
            place = place if is_scalar else build("Reshape", place, np.zeros(0, np.int64))
            return build("Gather", rows, place, axis=0)
        is_new = _stacks(node)
        axis %= rank + 1 if is_new else rank
        moved = build("Transpose", rows, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank + 1)])
        return moved if is_new else build("Reshape", moved, self._joined_shape(moved, axis, build))

    def _joined_shape(self, moved: ir.Value, axis: int, build: NodeBuilder) -> ir.Value | Sequence[int]:
        """Returns the shape in which the axis of rows is merged with the axis behind it."""
        behind = [dim for dim in self._family.shape[axis + 1 :] if isinstance(dim, int)]
        if len(behind) == len(self._family.shape) - axis - 1:
            return [*(0 for _ in range(axis)), -1, *behind]
        sizes = build("Shape", moved)
        places = np.arange(axis + 2, len(self._family.shape) + 1)
        return build("Concat", [*(0 for _ in range(axis)), -1], build("Gather", sizes, places, axis=0), axis=0)

    def _write_loop(self, loop: ir.Node, build: NodeBuilder) -> None:
        """Makes a loop collect the tensors it added to sequences, and puts the earlier rows in front of them."""
        growths = sorted(self._family.growths[loop], key=lambda growth: growth.state)
        body, graph = loop.attributes["body"].as_graph(), loop.graph
        assert isinstance(graph, ir.Graph)
        inputs, kept = list(loop.inputs), list(loop.outputs)
        elements = [_element(growth.insertion) for growth in growths]
        for growth in reversed(growths):
            del inputs[BEFORE_STATES + growth.state], kept[growth.state]
            del body.outputs[CONDITION + growth.state], body.inputs[BEFORE_STATES + growth.state]
            body.remove(growth.insertion, safe=True)
        for growth, added in zip(growths, elements, strict=True):
            name = f"{growth.insertion.outputs[0].name}/added"
            node = ir.node("Identity", [added], name=name)
            node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = name, added.type, added.shape
            body.append(node)
            body.outputs.append(node.outputs[0])
        count = len(kept) + len(growths)
        made = ir.Node("", "Loop", inputs, loop.attributes.values(), num_outputs=count, name=loop.name)
        for number, value in enumerate(made.outputs):
            value.name = f"{node_name(loop)}/collected_{self._number}_{number}"
        graph.insert_before(loop, made)
        for old, new in zip(kept, made.outputs, strict=False):
            _replace(old, new)
        for growth, added, rows in zip(growths, elements, made.outputs[len(kept) :], strict=True):
            _tell(rows, added, self._family.shape)
            all_rows = rows if _is_empty(growth.first) else build("Concat", growth.first, rows, axis=0)
            loop.outputs[growth.state].replace_all_uses_with(all_rows)
        self._insert_before(loop, build)
        graph.remove(loop, safe=True)

    def _insert_before(self, node: ir.Node, build: NodeBuilder) -> None:
        for value in build.initializers:
            self._model.graph.register_initializer(value)
        assert isinstance(node.graph, ir.Graph)
        node.graph.insert_before(node, build.nodes)


def _element(node: ir.Node) -> ir.Value:
    """Returns a tensor that a node puts into a sequence."""
    value = node.inputs[1 if node.op_type == "SequenceInsert" else 0]
    assert value is not None
    return value


def _tell(rows: ir.Value, element: ir.Value, shape: Dims) -> None:
    """Sets the type and shape of rows; their number is unknown."""
    rows.type = None if element.dtype is None else ir.TensorType(element.dtype)
    rows.shape = ir.Shape([None, *shape])


def _replace(old: ir.Value, new: ir.Value) -> None:
    """Replaces a value by an equal one, which takes over its name."""
    if old.is_graph_output():
        new.type, new.shape = old.type, old.shape
    name, old.name = old.name, None
    new.name = name
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
