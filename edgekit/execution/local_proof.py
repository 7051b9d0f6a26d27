"""Proves a change of a graph locally: only the nodes that changed are executed, before and after, on a battery.

In the whole model, their inputs may never be small enough to show a dropped epsilon, or large enough to show a clip
that is too wide. Here they are fed with every kind of input directly.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.data.battery import KINDS, numbers_like
from edgekit.execution.exact_products import with_blocks_in_floats
from edgekit.execution.moved_outputs import MovedOutputs
from edgekit.execution.reference import NotRunnableError, Reference, fed_to
from edgekit.execution.tolerance import SENSITIVE, are_steps_apart, compare
from edgekit.execution.value_numbers import Comparison, EqualValues, Side, read_values
from edgekit.graph.cost import node_macs
from edgekit.graph.long_lists import light_message, put_back
from edgekit.model import Arrays, Model, bodies
from edgekit.processes import supervision
from edgekit.processes.memory import free_unused

TOLERANCE = 1 / 128
"""The share of the tolerance for whole models that applies here: few operators round less often than many."""

HEAVY_MACS = 1 << 22
HEAVY_ELEMENTS = 1 << 20
HEAVY_KINDS = 3
_TAKES_EVERY_THEN = "constant"
"""The kind whose conditions are all true. Those of the kind ``zeros`` are all false, so both branches are executed."""
LOOP_STEPS = 512
"""Claims with more than `HEAVY_MACS` multiplications, or that start from more than `HEAVY_ELEMENTS` numbers, are tried
on the first `HEAVY_KINDS` kinds alone. A loop counts as 512 steps, since its number of steps is often computed."""

_BATCH_ELEMENTS = 1 << 22
"""Most numbers that claims which are executed together start from."""
_BATCH_NODES = 1024
"""Most nodes of claims that are executed together, before and after the change: the time that ONNX Runtime takes to
open a graph grows with the square of their number."""

_GROWTH_NODES = 48
"""Most nodes that a failing claim may gain when it is extended to the nodes before it."""

_DRAWN = {
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(double)": np.float64,
    "tensor(bool)": np.bool_,
}
"""Types, by ONNX Runtime's names, for which numbers are drawn: any numbers will do."""

_PATH_NODES = 24
"""How many values before a leaf are searched for other leaves that it is computed from."""


class UnprovenError(Exception):
    """The nodes that changed cannot be executed without the rest of the model."""


class Capture(Protocol):
    """Executes a model, once for each call, and returns what is asked about its values, by name."""

    def numbers(self, names: Collection[str]) -> Arrays:
        """The values themselves."""

    def shapes(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        """The shapes of the values, for when the values may be too large to hold."""

    def types(self, names: Collection[str]) -> Mapping[str, str]:
        """ONNX Runtime's names of the types of values that nodes compute, such as ``tensor(float)``."""


def local_difference(before: Model, after: Model, capture: Capture, *, steps: bool = False) -> str | None:
    """In a few words, what nodes that changed compute differently; None if they compute the same.

    Values that the structure alone shows to be the same are not executed. A claim may fail on independent numbers
    because in the model these numbers depend on each other, or are within a range: the claim is then tried again from
    values further back.

    Args:
        before: The model as it was.
        after: The changed model, of the same inputs and outputs.
        capture: Executes ``before`` for shapes that are not known, and for integers, since these have a meaning and
            cannot be drawn.
        steps: Whether some integers of 8 or 16 bits may be off by one, as another order of arithmetic leaves the
            results of quantization.

    Raises:
        UnprovenError: Changed nodes cannot be executed without the rest of the model.
    """
    forgotten: set[str] = set()
    holding: set[str] = set()
    shapes: dict[str, tuple[int, ...]] = {}
    types: dict[str, str] = {}
    known: dict[str, np.ndarray] = {}
    while True:
        comparison = Comparison(before, after, forgotten)
        claims = [claim for claim in comparison.claims() if claim.name not in holding]
        trial = _Trial(before, after, comparison, capture, steps, shapes, types, known)
        loose = set()
        for claim, difference in trial.judged(claims):
            if difference is None:
                holding.add(claim.name)
            elif claim.firm:
                return difference
            else:
                loose.add(claim.name)
        if not loose:
            return None
        forgotten |= loose
        holding.clear()


@dataclass(frozen=True)
class _Trial:
    """Executes claims of one comparison."""

    before: Model
    after: Model
    comparison: Comparison
    capture: Capture
    steps: bool
    shapes: dict[str, tuple[int, ...]]
    """Shapes that were measured because the model does not state them, by the value's name."""
    types: dict[str, str]
    """ONNX Runtime's names of types that the model does not state, by the value's name."""
    known: dict[str, np.ndarray]
    """Values that were captured for all claims at once, by name."""

    def judged(self, claims: Sequence[EqualValues]) -> Iterator[tuple[EqualValues, str | None]]:
        """Every claim with what differs, or with None if nothing does; light claims come before heavy ones."""
        leaves = self.comparison.leaves(claims).values()
        self._measure(leaves)
        wanted = [leaf for leaf in leaves if self._drawn_as(leaf) is None and leaf.name not in self.known]
        if wanted and sum(map(self._size, wanted)) <= _BATCH_ELEMENTS:
            self.known.update(self._numbers([leaf.name or "" for leaf in wanted]))
        for batch in self._batches(claims):
            supervision.tell_step()
            free_unused()
            outcomes = self._differences(batch)
            for claim in batch:
                difference = outcomes[claim.name]
                yield claim, None if difference is None else self._from_further_back(claim, difference)

    def _from_further_back(self, claim: EqualValues, difference: str) -> str | None:
        """What still differs when the claim starts from values further back, or None if nothing does."""
        inside: frozenset[int] = frozenset()
        most = len(claim.before.nodes) + _GROWTH_NODES
        while True:
            leaves = self.comparison.leaves([claim])
            further = _dependent(leaves) or _ranged(leaves)
            inside |= further
            claim = self.comparison.grown(claim, inside)
            if not further or len(claim.before.nodes) > most:
                return difference
            found = self._differences([claim])[claim.name]
            if found is None:
                return None

    def _differences(self, claims: Sequence[EqualValues]) -> dict[str, str | None]:
        """What differs, by the claim's name; None for a claim that holds."""
        leaves = self.comparison.leaves(claims)
        captured = self._captured(leaves)
        before = _extract(self.before, [claim.before for claim in claims], captured)
        after = _extract(self.after, [claim.after for claim in claims], captured)
        found: dict[str, str | None] = dict.fromkeys((claim.name for claim in claims), None)
        try:
            pair = [Reference(with_blocks_in_floats(each)) for each in (before, after)]
        except NotRunnableError as error:
            return self._one_by_one(claims, error)
        for kind in self._kinds(claims, captured):
            feeds = {
                f"leaf{number}": numbers_like(kind, value.name or "", captured[number])
                for number, value in leaves.items()
            }
            try:
                expected, computed = (reference.run(fed_to(reference, feeds)) for reference in pair)
            except NotRunnableError as error:
                if kind == KINDS[0]:
                    return self._one_by_one(claims, error)
                continue
            moved, moved_whole = (MovedOutputs(before, feeds, whole_too=too) for too in (False, True))
            for place, claim in enumerate(claims):
                if found[claim.name] is not None:
                    continue
                of_expected, of_computed = expected[f"claim{place}"], computed[f"claim{place}"]
                name = f"{'output' if claim.after.value.is_graph_output() else 'value'} {claim.name}"
                each = _feeds_sensitive(claim.before.value)
                difference = compare(name, of_expected, of_computed, each=each, tolerance=TOLERANCE)
                if difference is None or (self.steps and are_steps_apart(of_expected, of_computed)):
                    continue
                if moved.explain(f"claim{place}", of_expected, of_computed):
                    continue
                # Of the inputs -100 and 100 none moves, though their products are rounded, and scores are often equal.
                is_near = compare(name, of_expected, of_computed, each=each) is None
                if is_near and moved_whole.explain(f"claim{place}", of_expected, of_computed):
                    continue
                found[claim.name] = f"{difference}, on {kind} inputs of the nodes that changed"
        return found

    def _batches(self, claims: Sequence[EqualValues]) -> Iterator[list[EqualValues]]:
        """The claims in groups that are executed at once; a group has only light or only heavy claims."""
        for heavy in (False, True):
            batch: list[EqualValues] = []
            elements = nodes = 0
            for claim in claims:
                if self._is_heavy(claim) != heavy:
                    continue
                size, count = self._elements(claim), len(claim.before.nodes) + len(claim.after.nodes)
                if batch and (elements + size > _BATCH_ELEMENTS or nodes + count > _BATCH_NODES):
                    yield batch
                    batch, elements, nodes = [], 0, 0
                batch.append(claim)
                elements += size
                nodes += count
            if batch:
                yield batch

    def _measure(self, leaves: Iterable[ir.Value]) -> None:
        """Measures the shapes and types of values for which neither the model nor an earlier call gives them."""
        named = {leaf.name: leaf for leaf in leaves if leaf.name}
        shapeless = {name for name, leaf in named.items() if name not in self.shapes and not _is_static(leaf)}
        typeless = {
            name
            for name, leaf in named.items()
            if name not in self.types and leaf.dtype is None and leaf.producer() is not None
        }
        try:
            if shapeless:
                self.shapes.update({name: tuple(shape) for name, shape in self.capture.shapes(shapeless).items()})
            if typeless:
                found = self.capture.types(typeless)
                self.types.update({name: found[name] for name in typeless})
        except NotRunnableError as error:
            raise UnprovenError(str(error)) from error

    def _elements(self, claim: EqualValues) -> int:
        leaves = self.comparison.leaves([claim]).values()
        self._measure(leaves)
        return sum(map(self._size, leaves))

    def _size(self, value: ir.Value) -> int:
        """How many elements a value has."""
        return math.prod(self._shape(value))

    def _shape(self, value: ir.Value) -> tuple[int, ...]:
        """A value's measured shape; if it was not measured, the dimensions that the model states."""
        static = tuple(dim for dim in value.shape or () if isinstance(dim, int))
        return self.shapes.get(value.name or "", static)

    def _drawn_as(self, value: ir.Value) -> np.dtype | None:
        """The type of the numbers to draw for a value of floating-point numbers or booleans.

        None if the value has another type, whose values mean something, or if its shape or type is not known.
        """
        if not _is_static(value) and value.name not in self.shapes:
            return None
        if value.dtype is None:
            found = _DRAWN.get(self.types.get(value.name or "", ""))
            return None if found is None else np.dtype(found)
        return value.dtype.numpy() if value.dtype.is_floating_point() or value.dtype == ir.DataType.BOOL else None

    def _is_heavy(self, claim: EqualValues) -> bool:
        macs = sum(_macs(node) for node in claim.before.nodes)
        return macs > HEAVY_MACS or self._elements(claim) > HEAVY_ELEMENTS

    def _kinds(self, claims: Sequence[EqualValues], arrays: Mapping[int, np.ndarray]) -> Sequence[str]:
        if not any(array.dtype.kind in "fcb" or array.dtype.itemsize == 1 for array in arrays.values()):
            return KINDS[:1]  # nothing would be drawn
        if not self._is_heavy(claims[0]):
            return KINDS
        has_branches = any(node.op_type == "If" for claim in claims for node in claim.before.nodes)
        return KINDS[:HEAVY_KINDS] + (_TAKES_EVERY_THEN,) * has_branches

    def _one_by_one(self, claims: Sequence[EqualValues], error: NotRunnableError) -> dict[str, str | None]:
        if len(claims) == 1:
            raise UnprovenError(f"value {claims[0].name}: {error}") from error
        return {name: difference for claim in claims for name, difference in self._differences([claim]).items()}

    def _captured(self, leaves: Mapping[int, ir.Value]) -> dict[int, np.ndarray]:
        """An array for every leaf: zeros of its type and shape if its numbers are drawn later, else its values."""
        self._measure(leaves.values())
        found: dict[int, np.ndarray] = {}
        wanted: dict[str, int] = {}
        for number, value in leaves.items():
            if value.name in self.known:
                found[number] = self.known[value.name]
            elif (dtype := self._drawn_as(value)) is not None:
                found[number] = np.broadcast_to(np.zeros((), dtype), self._shape(value))
            else:
                wanted[value.name or ""] = number
        if wanted:
            captured = self._numbers(list(wanted))
            found.update({number: captured[name] for name, number in wanted.items()})
        return found

    def _numbers(self, names: Sequence[str]) -> Arrays:
        """Values by name, as the model before the change computes them."""
        try:
            captured = self.capture.numbers(names)
        except NotRunnableError as error:
            raise UnprovenError(str(error)) from error
        for name in names:
            if not isinstance(captured[name], np.ndarray):
                raise UnprovenError(f"value {name} is not a tensor")
        return {name: captured[name] for name in names}


def _is_static(value: ir.Value) -> bool:
    return value.shape is not None and value.shape.is_static()


def _macs(node: ir.Node) -> int:
    """Multiplications of a node and its bodies, over all steps of a loop; an unknown inner node counts `HEAVY_MACS`."""
    counts = [node_macs(inner) for body in bodies(node) for inner in body.all_nodes()]
    inside = sum(HEAVY_MACS if count is None else count for count in counts)
    return (node_macs(node) or 0) + inside * (LOOP_STEPS if node.op_type in ("Loop", "Scan") else 1)


def _feeds_sensitive(value: ir.Value) -> bool:
    return any(not use.node.domain and use.idx in SENSITIVE.get(use.node.op_type, ()) for use in value.uses())


def _dependent(leaves: Mapping[int, ir.Value]) -> frozenset[int]:
    """The numbers of leaves that are computed from other leaves by few nodes."""
    by_value = {value: number for number, value in leaves.items()}
    found: set[int] = set()
    for leaf, number in by_value.items():
        seen: set[ir.Value] = set()
        waiting = [leaf]
        while waiting and len(seen) < _PATH_NODES:
            current = waiting.pop(0)
            producer = current.producer()
            if current in seen or producer is None:
                continue
            seen.add(current)
            for read in read_values(producer):
                if read in by_value and read is not leaf:
                    found.add(number)
                waiting.append(read)
    return frozenset(found)


def _ranged(leaves: Mapping[int, ir.Value]) -> frozenset[int]:
    """The numbers of leaves that a node without multiplications computes: the claim may rest on their range."""
    return frozenset(
        number
        for number, value in leaves.items()
        if (producer := value.producer()) is not None and node_macs(producer) == 0
    )


def _extract(model: Model, sides: Sequence[Side], arrays: Mapping[int, np.ndarray]) -> Model:
    """A model whose outputs ``claim0``, ``claim1``, … are those sides' values, computed from ``leaf<number>``."""
    nodes: list[onnx.NodeProto] = []
    lists: dict[tuple[tuple[str | None, ...], str], ir.Attr] = {}
    initializers: dict[str, onnx.TensorProto] = {}
    used: set[int] = set()
    written: dict[tuple[ir.Node, tuple[str | None, ...]], dict[str, str]] = {}
    for place, side in enumerate(sides):
        names = {value.name or "": f"leaf{number}" for value, number in side.leaves.items()}
        used |= set(side.leaves.values())
        for value in side.constants:
            names[value.name or ""] = f"constant {value.name}"
            tensor = ir.convenience.get_const_tensor(value)
            if f"constant {value.name}" not in initializers and tensor is not None:
                proto = onnx.TensorProto()
                proto.CopyFrom(ir.to_proto(_inside(tensor)))
                proto.name = f"constant {value.name}"
                initializers[proto.name] = proto
        for node in side.nodes:
            key = node, tuple(names.get(value.name or "") for value in read_values(node))
            if key not in written:  # a loop that many sides read is executed once
                written[key] = {made.name: f"{place}/{made.name}" for made in node.outputs if made.name}
                message, long_lists = light_message(node)
                nodes.append(_renamed(message, names | written[key]))
                lists |= {(tuple(nodes[-1].output), name): kept for name, kept in long_lists.items()}
            names |= written[key]
        source = names[side.value.name or ""]
        nodes.append(onnx.helper.make_node("Identity", [source], [f"claim{place}"], name=f"claim {place}"))
    graph = onnx.helper.make_graph(
        nodes,
        "changed nodes",
        [
            onnx.helper.make_tensor_value_info(
                f"leaf{number}", onnx.helper.np_dtype_to_tensor_dtype(arrays[number].dtype), arrays[number].shape
            )
            for number in sorted(used)
        ],
        [onnx.ValueInfoProto(name=f"claim{place}") for place in range(len(sides))],
        list(initializers.values()),
    )
    opsets = [onnx.helper.make_opsetid(domain, v) for domain, v in model.graph_model.opset_imports.items()]
    proto = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=model.graph_model.ir_version)
    extracted = ir.from_proto(proto)
    put_back(extracted, lists)
    return Model(extracted)


def _renamed(node: onnx.NodeProto, names: Mapping[str, str]) -> onnx.NodeProto:
    """The node with its values renamed, also where its bodies read them."""
    renamed = onnx.NodeProto()
    renamed.CopyFrom(node)
    renamed.input[:] = [names.get(name, name) for name in node.input]
    renamed.output[:] = [names.get(name, name) for name in node.output]
    renamed.name = f"{node.name} {next(filter(None, renamed.output), '')}"
    for attribute in renamed.attribute:
        for body in [attribute.g] if attribute.HasField("g") else attribute.graphs:
            own = {value.name for value in (*body.input, *body.initializer)}
            own |= {name for inner in body.node for name in inner.output}
            outer = {name: new for name, new in names.items() if name not in own}
            inner_nodes = [_renamed(inner, outer) for inner in body.node]
            del body.node[:]
            body.node.extend(inner_nodes)
            for output in body.output:
                output.name = outer.get(output.name, output.name)
    return renamed


def _inside(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """The tensor without a reference to a file."""
    return ir.Tensor(tensor.numpy(), dtype=tensor.dtype) if isinstance(tensor, ir.ExternalTensor) else tensor
