"""Scans whose iterations do not depend on one another: all of them are computed at once, along one more axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import onnx_ir as ir

MOST_ELEMENTS = 1 << 22
"""The most elements of a value that holds all iterations; open sizes count as 1."""
AXES_AS_INPUT = {"ReduceSum": 13, "Unsqueeze": 13}
"""The first opset in which an operator has its axes as an input, for operators that have them before opset 18."""

ALONE = frozenset(
    ["Abs", "Cast", "Exp", "Identity", "Log", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sign", "Sqrt", "Tanh"]
)
PAIRWISE = frozenset(["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"])
REDUCING = frozenset(
    ["ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"]
)


def compute_iterations_at_once(model: ir.Model) -> bool:
    """Replaces Scans that carry nothing from iteration to iteration, in place; returns whether there were any.

    Converters of scikit-learn write distances between samples this way, with one iteration for each training sample. A
    program without loops would repeat the body for each of them.
    """
    changed = False
    for node in list(model.graph):
        if node.op_type == "Scan" and not node.domain and (turns := _turns(node)) is not None:
            widened = _Widened(model, node, turns)
            if widened.fits:
                widened.replace()
                changed = True
    return changed


def _turns(scan: ir.Node) -> int | None:
    """Returns the iterations of a Scan that goes forward along first axes and keeps its states, or None for others."""
    if any(any(attribute.as_ints()) for name, attribute in scan.attributes.items() if name.startswith("scan_")):
        return None
    body, states = scan.attributes["body"].as_graph(), _state_count(scan)
    if body.initializers or any(value is None for value in scan.inputs):
        return None
    if any(_source(body.outputs[number]) is not body.inputs[number] for number in range(states)):
        return None
    if any(output.is_graph_output() for output in scan.outputs[:states]):
        return None
    sizes = {value.shape[0] if value is not None and value.shape else None for value in scan.inputs[states:]}
    (size, *others) = sizes or {None}
    return size if isinstance(size, int) and not others else None


def _state_count(scan: ir.Node) -> int:
    return len(scan.inputs) - scan.attributes["num_scan_inputs"].as_int()


def _source(value: ir.Value) -> ir.Value:
    while (node := value.producer()) is not None and node.op_type == "Identity" and node.inputs[0] is not None:
        value = node.inputs[0]
    return value


class _Widened:
    """The nodes of a Scan's body with one more axis in front, for the iterations.

    Args:
        model: The model that contains the Scan.
        scan: The node.
        turns: The number of iterations.
    """

    def __init__(self, model: ir.Model, scan: ir.Node, turns: int) -> None:
        self._graph = model.graph
        self._opset = model.opset_imports.get("", 0)
        self._scan = scan
        self._body = scan.attributes["body"].as_graph()
        self._states = _state_count(scan)
        self._nodes: list[ir.Node] = []
        given = dict(zip(self._body.inputs, scan.inputs, strict=True))
        self._of: dict[ir.Value, ir.Value] = {inner: outer for inner, outer in given.items() if outer is not None}
        self._ranks: dict[ir.Value, int] = {}
        self._varying = set(self._body.inputs[self._states :])
        self.fits = all(self._widen(node, turns) for node in self._body)
        collected = self._body.outputs[self._states :]
        self.fits = self.fits and all(value in self._varying and value.producer() is not None for value in collected)

    def replace(self) -> None:
        """Puts the nodes in the Scan's place."""
        states = self._states
        for output, first in zip(self._scan.outputs[:states], self._scan.inputs[:states], strict=True):
            if first is not None:
                output.replace_all_uses_with(first)
        results = [self._of[value] for value in self._body.outputs[states:]]
        ir.convenience.replace_nodes_and_values(
            self._graph, self._scan, [self._scan], self._nodes, self._scan.outputs[states:], results
        )

    def _widen(self, node: ir.Node, turns: int) -> bool:
        """Adds the node computed for all iterations at once; returns whether that is possible."""
        read = [value for value in node.inputs if value is not None]
        output = node.outputs[0]
        if len(read) < len(node.inputs) or node.domain or len(node.outputs) > 1:
            return False
        if not self._varying.intersection(read):
            if node.op_type not in ALONE | PAIRWISE | REDUCING | {"Constant"}:
                return False
            self._add(node, [self._of.get(value, value) for value in read], node.attributes.values(), output)
            return True
        sizes = [size if isinstance(size, int) else 1 for size in output.shape or ()]
        ranks = [self._rank_of(value) for value in read]
        if turns * math.prod(sizes) > MOST_ELEMENTS or None in ranks:
            return False
        self._varying.add(output)
        rank = self._ranks[output] = max(rank for rank in ranks if rank is not None)
        if node.op_type in ALONE or node.op_type in PAIRWISE:
            self._add(node, [self._aligned(value, rank) for value in read], node.attributes.values(), output)
            return True
        axes = self._axes(node) if node.op_type in REDUCING else None
        if axes is None:
            return False
        moved = [axis + 1 if axis >= 0 else axis for axis in axes or range(rank)]
        kept = ir.AttrInt64("keepdims", node.attributes.get_int("keepdims", 1))
        if not kept.as_int():
            self._ranks[output] -= len(moved)
        if self._opset >= AXES_AS_INPUT.get(node.op_type, 18):
            self._add(node, [self._of[read[0]], self._constant(moved)], [kept], output)
        else:
            self._add(node, [self._of[read[0]]], [kept, ir.AttrInt64s("axes", moved)], output)
        return True

    def _axes(self, node: ir.Node) -> Sequence[int] | None:
        """The axes that the node reduces, none for all of them; None where they are not known."""
        if node.attributes.get_int("noop_with_empty_axes", 0):
            return None
        if len(node.inputs) == 1:
            return node.attributes.get_ints("axes", ())
        tensor = ir.convenience.get_const_tensor(node.inputs[1]) if node.inputs[1] is not None else None
        return None if tensor is None else [int(axis) for axis in tensor.numpy().reshape(-1)]

    def _rank_of(self, value: ir.Value) -> int | None:
        """Returns the rank of the value in one iteration, or None if it is unknown."""
        return self._ranks.get(value, None if value.shape is None else len(value.shape))

    def _aligned(self, value: ir.Value, rank: int) -> ir.Value:
        """Returns the value for all iterations, with axes inserted so that it broadcasts as it did in one iteration."""
        widened = self._of.get(value, value)
        missing = list(range(1, 1 + rank - (self._rank_of(value) or 0)))
        if value not in self._varying or not missing:
            return widened
        if self._opset >= AXES_AS_INPUT["Unsqueeze"]:
            return self._made(ir.node("Unsqueeze", [widened, self._constant(missing)]))
        return self._made(ir.node("Unsqueeze", [widened], {"axes": missing}))

    def _constant(self, numbers: Sequence[int]) -> ir.Value:
        return self._made(ir.node("Constant", [], {"value": ir.tensor(list(numbers), dtype=ir.DataType.INT64)}))

    def _add(
        self,
        node: ir.Node,
        inputs: Sequence[ir.Value],
        attributes: Iterable[ir.Attr],
        output: ir.Value,
    ) -> None:
        made = ir.Node("", node.op_type, inputs, attributes, num_outputs=1)
        self._of[output] = self._made(made)

    def _made(self, node: ir.Node) -> ir.Value:
        self._nodes.append(node)
        return node.outputs[0]
