"""Loops, scans and branches: written out where they are short, and without values captured from outside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.folding import FOLDED_BY_EXECUTION
from edgekit.graph.nodes import constant
from edgekit.model import bodies
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.randomness import RANDOM

MOST_STEPS = 512
MOST_NODES = 6000
"""The most steps of a loop that is written out, and the most nodes in all of them."""
MOST_NODES_OF_BOTH = 64
"""The most nodes of two branches that are both computed."""
SMALL = 64
"""The most elements of a constant that is computed while a loop is written out: counters and conditions."""


class UnrolledScan(Rewrite):
    """The steps of a scan one after the other."""

    name: ClassVar[str] = "scan written out"
    op_types: ClassVar[Sequence[str]] = ("Scan",)
    versions: ClassVar[range] = range(9, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Writes each step with slices of the scanned inputs, and stacks what the steps give."""
        body = node.attributes["body"].as_graph()
        scanned = node.attributes.get_int("num_scan_inputs")
        states = [value for value in node.inputs[:-scanned] if value is not None]
        inputs = [value for value in node.inputs[-scanned:] if value is not None]
        outputs = len(node.outputs) - len(states)
        axes_in, backwards_in = (
            node.attributes.get_ints(name, (0,) * scanned) for name in ("scan_input_axes", "scan_input_directions")
        )
        axes_out, backwards_out = (
            node.attributes.get_ints(name, (0,) * outputs) for name in ("scan_output_axes", "scan_output_directions")
        )
        count = _length(inputs[0], axes_in[0])
        _require_short(count, body)
        writer = _Writer(build, body)
        collected: list[list[ir.Value]] = [[] for _ in range(outputs)]
        for step in range(count):
            slices = [
                build("Gather", value, np.int64(count - 1 - step if back else step), axis=axis)
                for value, axis, back in zip(inputs, axes_in, backwards_in, strict=True)
            ]
            results = writer.step([*states, *slices])
            states = results[: len(states)]
            for column, value in zip(collected, results[len(states) :], strict=True):
                column.append(value)
        stacked = [
            _stacked(build, column[::-1] if back else column, axis)
            for column, axis, back in zip(collected, axes_out, backwards_out, strict=True)
        ]
        return [*states, *stacked]


class UnrolledLoop(Rewrite):
    """The steps of a loop one after the other, if their number follows from constants."""

    name: ClassVar[str] = "loop written out"
    op_types: ClassVar[Sequence[str]] = ("Loop",)
    versions: ClassVar[range] = range(9, 1000)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Computes counters and conditions while it writes steps; if one is not known, the rewrite does not apply."""
        body = node.attributes["body"].as_graph()
        trips, condition = (_number(value) for value in node.inputs[:2])
        if node.inputs[0] is not None and trips is None:
            raise InapplicableError("how many steps it takes is computed")
        if node.inputs[1] is not None and condition is None:
            raise InapplicableError("whether it starts is computed")
        states = [value for value in node.inputs[2:] if value is not None]
        collected: list[list[ir.Value]] = [[] for _ in range(len(node.outputs) - len(states))]
        writer = _Writer(build, body)
        goes_on, step = condition is None or bool(condition), 0
        while goes_on and (trips is None or step < trips):
            _require_short(step + 1, body)
            loop_values = [np.array(step, np.int64), np.array(True)]
            counted = [
                build.constant(_as_declared(array, entry))
                for array, entry in zip(loop_values, body.inputs, strict=False)
            ]
            results = writer.step([*counted, *states])
            known = writer.number(results[0])
            if known is None:
                raise InapplicableError("whether it goes on is computed from what it is fed")
            goes_on, step = bool(known), step + 1
            states = results[1 : 1 + len(states)]
            for column, value in zip(collected, results[1 + len(states) :], strict=True):
                column.append(value)
        if not step:
            return [*states, *(_no_rows_of(build, value) for value in body.outputs[1 + len(states) :])]
        return [*states, *(_stacked(build, column, 0) for column in collected)]


def _number(value: ir.Value | None) -> np.ndarray | None:
    """Returns a constant, or how many tensors a sequence has that no loop adds to; None for other values."""
    node = None if value is None else value.producer()
    if node is None or node.domain or node.op_type != "SequenceLength":
        return constant(value)
    return _tensor_count(node.inputs[0])


def _tensor_count(sequence: ir.Value | None) -> np.ndarray | None:
    """Returns how many tensors nodes put into a sequence, or None if that is not known."""
    count = 0
    node = None if sequence is None else sequence.producer()
    while node is not None and not node.domain and node.op_type == "SequenceInsert":
        count += 1
        node = None if node.inputs[0] is None else node.inputs[0].producer()
    if node is None or node.domain or node.op_type not in ("SequenceConstruct", "SequenceEmpty"):
        return None
    return np.array(count + len(node.inputs), np.int64)


def _no_rows_of(build: NodeBuilder, value: ir.Value) -> ir.Value:
    """Returns what a loop collects without a step: sizes that only a step would show are 0, as in ONNX Runtime."""
    if value.dtype is None or value.shape is None:
        raise InapplicableError("it takes no step, and the type of what it collects is not known")
    sizes = [size if isinstance(size, int) else 0 for size in value.shape]
    return build.constant(np.zeros([0, *sizes], value.dtype.numpy()))


def _as_declared(scalar: np.ndarray, entry: ir.Value) -> np.ndarray:
    """Returns a step's number or condition as the body takes it: some exporters declare a vector of one element."""
    return scalar.reshape(1) if entry.shape is not None and entry.shape.rank() == 1 else scalar


class ExplicitStates(Rewrite):
    """A loop that carries values which its body captures as states, and whose body makes each state by a node.

    OpenVINO's frontend takes no captured values except constants, and counts a state twice that a body passes on as it
    is. A list that is empty at first must not be a constant, since the frontend would assume that the list keeps the
    constant's shape: it is cut out of a constant with elements. The frontend also loses the condition of a body that
    passes it on and reads it besides; the condition is true wherever the body runs.
    """

    name: ClassVar[str] = "loop with explicit states"
    op_types: ClassVar[Sequence[str]] = ("Loop",)

    def matches(self, node: ir.Node) -> bool:
        """Whether it captures values other than constants, passes states on, reads its condition, or starts empty."""
        body = node.attributes["body"].as_graph()
        return (
            any(True for _ in _captured(body))
            or _reads_its_condition(body)
            or not set(body.inputs).isdisjoint(body.outputs)
            or any(_empty(value) is not None for value in node.inputs[2:])
        )

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Captured values become states that do not change; Identity nodes pass states on; the condition is true."""
        body = node.attributes["body"].as_graph().clone(allow_outer_scope_values=True)
        if _reads_its_condition(body):
            entry = body.inputs[1]
            _replace_inside(body, {entry: _true_in(body, _as_declared(np.array(True), entry))})
        captured = list(dict.fromkeys(_captured(body)))
        states = len(node.inputs) - 2
        inner = []
        for number, value in enumerate(captured):
            given = ir.Value(name=f"{value.name}/carried_{number}", type=value.type, shape=value.shape)
            _replace_inside(body, {value: given})
            body.inputs.append(given)
            inner.append(given)
        for position, value in enumerate(inner):
            body.outputs.insert(1 + states + position, value)
        given_inputs = set(body.inputs)
        for position, value in enumerate(body.outputs):
            if value in given_inputs:
                handed_on = ir.node("Identity", [value], name=f"{value.name}/hand_on_{position}")
                handed_on.outputs[0].name = f"{value.name}/handed_on_{position}"
                handed_on.outputs[0].type, handed_on.outputs[0].shape = value.type, value.shape
                body.append(handed_on)
                body.outputs[position] = handed_on.outputs[0]
        count = len(node.outputs) + len(captured)
        first = [_cut_out(build, value) for value in node.inputs[2:]]
        results = build.several(count, "Loop", *node.inputs[:2], *first, *captured, body=body)
        return [*results[:states], *results[states + len(captured) :]]


class ScalarCondition(Rewrite):
    """A branch whose condition holds one element in a tensor of some rank."""

    name: ClassVar[str] = "condition as a scalar"
    op_types: ClassVar[Sequence[str]] = ("If",)

    def matches(self, node: ir.Node) -> bool:
        """Whether the condition is known to have axes."""
        condition = node.inputs[0]
        return condition is not None and condition.shape is not None and condition.shape.rank() > 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds an If with the same branches, and the condition as a scalar."""
        yes, no = (
            node.attributes[name].as_graph().clone(allow_outer_scope_values=True)
            for name in ("then_branch", "else_branch")
        )
        condition = build("Reshape", node.inputs[0], np.zeros(0, np.int64))
        return build.several(len(node.outputs), "If", condition, then_branch=yes, else_branch=no)


class BothBranches(Rewrite):
    """An If of which both branches are computed, and the outputs are chosen element by element.

    Fits branches of a few nodes that do not fail, whatever they are fed, and outputs of the same sizes in both.
    """

    name: ClassVar[str] = "both branches computed"
    op_types: ClassVar[Sequence[str]] = ("If",)

    def matches(self, node: ir.Node) -> bool:
        """Whether both branches may be computed."""
        return may_compute_both(node)

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds Where of both branches' outputs; for truth values, for which ONNX Runtime has no Where, And and Or."""
        yes, no = (_Writer(build, branch).step([]) for branch in _branches(node))
        condition = node.inputs[0]
        return [
            build("Or", build("And", condition, one), build("And", build("Not", condition), other))
            if output.dtype == ir.DataType.BOOL
            else build("Where", condition, one, other)
            for output, one, other in zip(node.outputs, yes, no, strict=True)
        ]


_ARITHMETIC = {"Abs", "Add", "Ceil", "Clip", "Div", "Floor", "Max", "Min", "Mul", "Neg", "Pow", "Round", "Sub", "Sum"}
_FUNCTIONS = {"Cos", "Erf", "Exp", "HardSigmoid", "Log", "Reciprocal", "Sigmoid", "Sin", "Softmax", "Sqrt", "Tanh"}
_ACTIVATIONS = {"Elu", "Gelu", "HardSwish", "LeakyRelu", "LogSoftmax", "Mish", "PRelu", "Relu", "Selu", "Softplus"}
_CHOICES = {"And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Not", "Or", "Where", "Xor"}
_MOVEMENT = {"Cast", "Concat", "Constant", "Identity", "Squeeze", "Transpose", "Unsqueeze"}
_LAYERS = {"BatchNormalization", "Conv", "Gemm", "GlobalAveragePool", "LayerNormalization", "MatMul", "ReduceMean"}
_ALWAYS_GIVE = frozenset(_ARITHMETIC | _FUNCTIONS | _ACTIVATIONS | _CHOICES | _MOVEMENT | _LAYERS)
"""Operators that do not fail for any values, except for integers that are divided by zero."""


def may_compute_both(node: ir.Node) -> bool:
    """Whether both branches of an If have a few nodes, which do not fail, and give outputs of the same sizes."""
    branches = _branches(node)
    nodes = [inner for branch in branches for inner in branch]
    if len(nodes) > MOST_NODES_OF_BOTH or any(_may_fail(inner) for inner in nodes):
        return False
    pairs = zip(*(branch.outputs for branch in branches), strict=True)
    return all(_sizes(yes) is not None and _sizes(yes) == _sizes(no) for yes, no in pairs)


def _branches(node: ir.Node) -> Sequence[ir.Graph]:
    return [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]


def _may_fail(node: ir.Node) -> bool:
    dtype = node.inputs[0].dtype if node.inputs and node.inputs[0] is not None else None
    by_zero = node.op_type == "Div" and (dtype is None or not dtype.is_floating_point())
    return by_zero or bool(node.domain) or node.op_type not in _ALWAYS_GIVE


def _sizes(value: ir.Value) -> Sequence[int | str] | None:
    """Returns the sizes of a value, numbers or names, or None if one is neither."""
    if value.shape is None:
        return None
    sizes = [dim if isinstance(dim, int) else dim.value for dim in value.shape]
    return [size for size in sizes if size is not None] if None not in sizes else None


class _Writer:
    """Writes a body out, once for every step."""

    def __init__(self, build: NodeBuilder, body: ir.Graph) -> None:
        self._build = build
        self._body = body
        self._constants = {
            value: build.constant(value.const_value.numpy())
            for value in body.initializers.values()
            if value.const_value is not None
        }

    def step(self, inputs: Sequence[ir.Value]) -> list[ir.Value]:
        """Writes the nodes of a step, and returns the body's outputs for its inputs."""
        values: dict[ir.Value, ir.Value] = dict(zip(self._body.inputs, inputs, strict=True))
        values |= self._constants
        for node in self._body:
            given = [value if value is None else values.get(value, value) for value in node.inputs]
            folded: Sequence[ir.Value] | None = self._folded(node, given)
            if folded is None:
                copy = ir.Node(
                    node.domain,
                    node.op_type,
                    given,
                    [_attribute(attribute, values) for attribute in node.attributes.values()],
                    num_outputs=len(node.outputs),
                )
                folded = self._build.adopt(copy)
                for made, original in zip(folded, node.outputs, strict=True):
                    made.type, made.shape = original.type, original.shape
            values.update(zip(node.outputs, folded, strict=True))
        return [values.get(value, value) for value in self._body.outputs]

    def number(self, value: ir.Value) -> np.ndarray | None:
        """Returns the constant that a value is known to be, or None."""
        return constant(value)

    def _folded(self, node: ir.Node, given: Sequence[ir.Value | None]) -> list[ir.Value] | None:
        """Returns the node's outputs as constants if its inputs are small constants, else None."""
        if node.op_type in RANDOM | FOLDED_BY_EXECUTION:
            return None
        if node.op_type == "SequenceLength" and not node.domain:
            length = _tensor_count(given[0])
            return None if length is None else [self._build.constant(length)]
        arrays = [None if value is None else constant(value) for value in given]
        unknown = any(array is None and value is not None for array, value in zip(arrays, given, strict=True))
        if unknown or any(bodies(node)) or any(array is not None and array.size > SMALL for array in arrays):
            return None
        names = [f"i{place}" if array is not None else "" for place, array in enumerate(arrays)]
        message = ir.to_proto(node)
        del message.input[:], message.output[:]
        message.input.extend(names)
        message.output.extend(f"o{place}" for place in range(len(node.outputs)))
        graph = onnx.helper.make_graph(
            [message],
            "step",
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in names if name],
            [onnx.helper.make_value_info(name, onnx.TypeProto()) for name in message.output],
        )
        proto = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", self._build.opset)])
        try:
            feeds = {name: array for name, array in zip(names, arrays, strict=True) if name}
            results = onnx.reference.ReferenceEvaluator(proto).run(None, feeds)
        except Exception:  # any failure of ONNX's reference: the node is written out as it is
            return None
        if any(not isinstance(result, np.ndarray | np.generic) or np.size(result) > SMALL for result in results):
            return None
        return [self._build.constant(np.asarray(result)) for result in results]


def _attribute(attribute: ir.Attr, values: Mapping[ir.Value, ir.Value]) -> ir.Attr:
    """Returns an attribute for a copy of its node, in which graphs read the copies of values."""
    if attribute.type != ir.AttributeType.GRAPH or attribute.is_ref():
        return attribute
    graph = attribute.as_graph().clone(allow_outer_scope_values=True)
    _replace_inside(graph, values)
    return ir.AttrGraph(attribute.name, graph)


def _replace_inside(graph: ir.Graph, values: Mapping[ir.Value, ir.Value]) -> None:
    """Makes a graph, and the graphs in it, read other values."""
    for node in graph.all_nodes():
        for place, value in enumerate(node.inputs):
            if value is not None and value in values:
                node.replace_input_with(place, values[value])
    for inner in (graph, *(body for node in graph.all_nodes() for body in bodies(node))):
        for place, value in enumerate(inner.outputs):
            if value in values:
                inner.outputs[place] = values[value]


def _captured(graph: ir.Graph) -> Iterator[ir.Value]:
    """Yields the values from outside that a graph reads, except constants."""
    graphs = [graph, *(body for node in graph.all_nodes() for body in bodies(node))]
    own = {value for inner in graphs for value in (*inner.inputs, *inner.initializers.values())}
    own |= {value for node in graph.all_nodes() for value in node.outputs}
    read = [value for node in graph.all_nodes() for value in node.inputs]
    for value in (*read, *(value for inner in graphs for value in inner.outputs)):
        if value is not None and value not in own and ir.convenience.get_const_tensor(value) is None:
            yield value


def _reads_its_condition(body: ir.Graph) -> bool:
    """Whether a node of a loop's body other than one that passes it on reads the condition."""
    return any(node.op_type != "Identity" or node.domain for node, _ in body.inputs[1].uses())


def _true_in(body: ir.Graph, array: np.ndarray) -> ir.Value:
    """Puts a constant in front of a body's nodes."""
    made = ir.node("Constant", [], {"value": ir.tensor(array)}, name=f"{body.inputs[1].name}/true")
    (value,) = made.outputs
    value.name, value.dtype, value.shape = f"{body.inputs[1].name}/is_true", ir.DataType.BOOL, ir.Shape(array.shape)
    body.insert_before(next(iter(body)), made)
    return value


def _empty(value: ir.Value | None) -> np.ndarray | None:
    """Returns a constant without elements, or None for anything else."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return tensor.numpy() if tensor is not None and tensor.size == 0 else None


def _cut_out(build: NodeBuilder, value: ir.Value | None) -> ir.Value | None:
    """Returns the value; in place of a constant without elements, an empty slice of a constant that has some."""
    array = _empty(value)
    if array is None:
        return value
    whole = np.zeros([max(size, 1) for size in array.shape], array.dtype)
    axes = np.array([axis for axis, size in enumerate(array.shape) if size == 0])
    none = np.zeros(len(axes), np.int64)
    return build("Slice", whole, none, none, axes)


def _length(value: ir.Value, axis: int) -> int:
    size = None if value.shape is None else value.shape[axis]
    if not isinstance(size, int):
        raise InapplicableError("how many steps it takes is not known")
    return size


def _require_short(steps: int, body: ir.Graph) -> None:
    nodes = sum(1 for _ in body.all_nodes())
    if steps < 1 or steps > MOST_STEPS or steps * nodes > MOST_NODES:
        raise InapplicableError(f"{steps} steps of {nodes} nodes are too many to be written out")


def _stacked(build: NodeBuilder, values: Sequence[ir.Value], axis: int) -> ir.Value:
    parts = [build.unsqueeze(value, [axis]) for value in values]
    return build("Concat", *parts, axis=axis) if len(parts) > 1 else parts[0]
