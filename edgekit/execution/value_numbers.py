"""The values that two forms of a graph compute in the same way by their structure, and those that have to be compared.

Values get numbers. Results of the same operator on the same values have the same number. If both graphs compute a value
of one name in two ways, it is a claim that both ways give the same. A claimed value has one number in both graphs, so
what both compute from it in the same way needs no proof. A claim rests only on values that come before it in the
changed graph, so that no two claims rest on each other. (Value numbering: J. Cocke and J. T. Schwartz, Programming
Languages and Their Compilers, 1970.)
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir

from edgekit.graph.nodes import held_tensor
from edgekit.graph.simplification.cleanup import digest
from edgekit.model import Model, bodies


@dataclass(frozen=True)
class Side:
    """How one graph computes a value from others."""

    value: ir.Value
    nodes: tuple[ir.Node, ...]
    """The nodes that compute the value, in the graph's order."""
    leaves: Mapping[ir.Value, int]
    """The values that the computation starts from, with their numbers."""
    constants: tuple[ir.Value, ...]


@dataclass(frozen=True)
class EqualValues:
    """The claim that a value is the same in both graphs."""

    name: str
    before: Side
    after: Side
    firm: bool
    """Whether the value is an output, or an equal node uses it in both graphs: then its name means the same value."""

    @property
    def leaf_numbers(self) -> frozenset[int]:
        """The numbers of the values that the two sides start from."""
        return frozenset((*self.before.leaves.values(), *self.after.leaves.values()))


def is_same_by_structure(before: Model, after: Model) -> bool:
    """Whether the outputs of both models are the results of the same operators on the same values."""
    return not any(True for _ in Comparison(before, after, forgotten=None).claims())


class Comparison:
    """The numbers of two graphs' values.

    Args:
        before: The model as it was.
        after: The changed model.
        forgotten: Names whose claims did not hold: they are the names of other values in the changed graph. None stands
            for all names, so that only outputs are claimed.
    """

    def __init__(self, before: Model, after: Model, forgotten: Collection[str] | None = ()) -> None:
        self._before, self._after = before, after
        self._numbers: dict[Hashable, int] = {}
        self._of_before = _Numbered(before, self._numbers)
        known = {
            value.name: (value, number)
            for value, number in self._of_before.numbers.items()
            if forgotten is not None and value.producer() is not None and value.name not in forgotten
        }
        self._of_after = _Numbered(after, self._numbers, known)
        outputs = zip(before.graph.outputs, after.graph.outputs, strict=True)
        self._claimed = self._of_after.claimed | {
            new: old for old, new in outputs if self._of_before.numbers[old] != self._of_after.numbers[new]
        }

    def claims(self) -> Iterator[EqualValues]:
        """All claims that have to hold, in the changed graph's order."""
        for new, old in self._claimed.items():
            yield self._claim(old, new, frozenset())

    def leaves(self, claims: Iterable[EqualValues]) -> dict[int, ir.Value]:
        """The values of the graph before that claims start from, by number."""
        return {number: self._of_before.value(number) for claim in claims for number in claim.leaf_numbers}

    def grown(self, claim: EqualValues, inside: frozenset[int]) -> EqualValues:
        """The claim from further back: values with the numbers ``inside`` are computed, and are not leaves."""
        return self._claim(claim.before.value, claim.after.value, inside)

    def _claim(self, old: ir.Value, new: ir.Value, inside: frozenset[int]) -> EqualValues:
        place = self._of_after.place(new)
        first = self._of_after.first_places

        def is_leaf(number: int) -> bool:
            return number not in inside and first.get(number, place) < place

        shared = self._of_before.all_numbers
        return EqualValues(
            new.name or old.name or "",
            self._of_before.side(old, is_leaf),
            self._of_after.side(new, lambda number: number in shared and is_leaf(number)),
            new.is_graph_output() or bool(_uses(old) & _uses(new)),
        )


@dataclass
class _Numbered:
    """A model's values with their numbers."""

    model: Model
    table: dict[Hashable, int]
    known: Mapping[str | None, tuple[ir.Value, int]] = field(default_factory=dict)
    """The other graph's values with their numbers, by name. If a value of this name has another number here, it is
    claimed and gets the other graph's number."""
    numbers: dict[ir.Value, int] = field(default_factory=dict)
    claimed: dict[ir.Value, ir.Value] = field(default_factory=dict)
    """The claimed values of this graph, each with the value of the other graph."""
    first_places: dict[int, int] = field(default_factory=dict)
    """The place of the first value with a number: -1 for inputs, else the place of its node in the graph."""

    def __post_init__(self) -> None:
        graph = self.model.graph
        self._by_number: dict[int, ir.Value] = {}
        self._places = {node: place for place, node in enumerate(graph)}
        for value in graph.initializers.values():
            if value.const_value is not None:
                self._set(value, self._number(_constant_key(value.const_value)), None)
        for value in graph.inputs:
            if value not in self.numbers:
                self._set(value, self._number(("input", value.name)), -1)
        for node, place in self._places.items():
            for value, number in zip(node.outputs, self._of_outputs(node, self.numbers, 0), strict=True):
                # An output that is left out has no name, and nobody reads it.
                old, of_old = self.known.get(value.name, (None, None)) if value.name else (None, None)
                if old is not None and of_old is not None and of_old != number:
                    self.claimed[value] = old
                    number = of_old
                self._set(value, number, None if _constant(value) is not None else place)
        self.all_numbers = frozenset(self.numbers.values())

    def value(self, number: int) -> ir.Value:
        """The first value with a number."""
        return self._by_number[number]

    def place(self, value: ir.Value) -> int:
        """The place, in the graph's order, of the node that computes a value; after all nodes if there is none."""
        producer = value.producer()
        return len(self._places) if producer is None else self._places[producer]

    def side(self, value: ir.Value, is_leaf: Callable[[int], bool]) -> Side:
        """How the value is computed from leaves."""
        nodes: dict[ir.Node, None] = {}
        leaves: dict[ir.Value, int] = {}
        constants: dict[ir.Value, None] = {}
        waiting = [(value, True)]
        seen: set[ir.Value] = set()
        while waiting:
            current, is_root = waiting.pop()
            if current in seen:
                continue
            seen.add(current)
            producer = current.producer()
            if _constant(current) is not None:
                constants[current] = None
            elif producer is None or (not is_root and is_leaf(self.numbers[current])):
                leaves[current] = self.numbers[current]
            elif producer not in nodes:
                nodes[producer] = None
                waiting += [(read, False) for read in read_values(producer)]
        return Side(value, tuple(sorted(nodes, key=self._places.__getitem__)), leaves, tuple(constants))

    def _set(self, value: ir.Value, number: int, place: int | None) -> None:
        self.numbers[value] = number
        self._by_number.setdefault(number, value)
        if place is not None:
            self.first_places.setdefault(number, place)

    def _number(self, key: Hashable) -> int:
        return self.table.setdefault(key, len(self.table))

    def _of_outputs(self, node: ir.Node, numbers: Mapping[ir.Value, int], depth: int) -> list[int]:
        constant = _constant(node.outputs[0]) if node.op_type == "Constant" and not node.domain else None
        if constant is not None:
            return [self._number(_constant_key(constant))]
        inputs = tuple(None if value is None else numbers[value] for value in node.inputs)
        if node.op_type == "Identity" and not node.domain and inputs[0] is not None:
            return [inputs[0]]
        version = self.model.graph_model.opset_imports.get(node.domain, 0)
        attributes = tuple(self._attribute(node.attributes[name], numbers, depth) for name in sorted(node.attributes))
        key = (node.domain, node.op_type, node.overload, _since(node.op_type, version, node.domain), attributes, inputs)
        return [self._number((key, place, len(node.outputs))) for place in range(len(node.outputs))]

    def _attribute(self, attribute: ir.Attr, numbers: Mapping[ir.Value, int], depth: int) -> Hashable:
        kind, value = attribute.type, attribute.value
        if kind == ir.AttributeType.GRAPH:
            value = self._body(attribute.as_graph(), numbers, depth + 1)
        elif kind == ir.AttributeType.GRAPHS:
            value = tuple(self._body(graph, numbers, depth + 1) for graph in attribute.as_graphs())
        elif kind == ir.AttributeType.TENSOR:
            value = _constant_key(attribute.value)  # as_tensor() checks a protocol, method by method
        elif isinstance(value, Hashable):
            value = tuple(value) if isinstance(value, (list, tuple)) else value
        else:
            value = repr(value)
        return attribute.name, kind, value

    def _body(self, graph: ir.Graph, outer: Mapping[ir.Value, int], depth: int) -> Hashable:
        numbers = dict(outer)
        for value in graph.initializers.values():
            if value.const_value is not None:
                numbers[value] = self._number(_constant_key(value.const_value))
        for place, value in enumerate(graph.inputs):
            numbers[value] = self._number(("argument", depth, place))
        for node in graph:
            numbers.update(zip(node.outputs, self._of_outputs(node, numbers, depth), strict=True))
        return len(graph.inputs), tuple(numbers[value] for value in graph.outputs)


def read_values(node: ir.Node) -> Iterator[ir.Value]:
    """The values that a node reads, and those from outside that its bodies read."""
    yield from (value for value in node.inputs if value is not None)
    for body in bodies(node):
        inside = set(body.inputs) | set(body.initializers.values())
        for inner in body.all_nodes():
            inside.update(inner.outputs)
            for deeper in bodies(inner):
                inside |= set(deeper.inputs) | set(deeper.initializers.values())
        read = [value for inner in body.all_nodes() for value in inner.inputs if value is not None]
        yield from (value for value in (*read, *body.outputs) if value not in inside)


def _uses(value: ir.Value) -> set[tuple[str, str, str | None, int]]:
    return {(use.node.domain, use.node.op_type, use.node.outputs[0].name, use.idx) for use in value.uses()}


def _constant(value: ir.Value) -> ir.TensorProtocol | None:
    """The tensor of an initializer or a Constant node; None for other values, whose noted tensors may be wrong."""
    producer = value.producer()
    if value.is_initializer():
        return value.const_value
    if producer is None or producer.op_type != "Constant" or producer.domain:
        return None
    return held_tensor(value)


def _constant_key(tensor: ir.TensorProtocol) -> Hashable:
    return "constant", tensor.dtype, tuple(tensor.shape.numpy()), _digest(tensor)


_digests: weakref.WeakKeyDictionary[ir.TensorProtocol, bytes] = weakref.WeakKeyDictionary()


def _digest(tensor: ir.TensorProtocol) -> bytes:
    if tensor not in _digests:
        _digests[tensor] = digest(tensor)
    return _digests[tensor]


@functools.cache
def _since(operator: str, version: int, domain: str) -> int:
    """The version of the operator set that gave an operator its definition."""
    try:
        return int(onnx.defs.get_schema(operator, version, domain).since_version)
    except onnx.defs.SchemaError:
        return version
