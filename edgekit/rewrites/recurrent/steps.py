"""Recurrent layers step by step: by the equations of ONNX's RNN, GRU and LSTM."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.graph.nodes import constant_input, input_at
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.recurrent.layers import LAYERS

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
DEFAULT_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
"""The activations of the gates, of a GRU's or an LSTM's new state, and of an LSTM's output, for each direction."""
NO_LIMIT = float("inf")

Activation = Callable[[NodeBuilder, ir.Value], ir.Value]


class SteppedLayer(Rewrite):
    """A layer, also with peepholes or other activations, as a Scan over its steps, which may then be written out."""

    name: ClassVar[str] = "recurrent layer as a scan"
    op_types: ClassVar[Sequence[str]] = LAYERS

    def matches(self, node: ir.Node) -> bool:
        """Whether the sequence axis comes first."""
        return node.attributes.get_int("layout", 0) == 0

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """Builds a Scan for each direction, with the product of the inputs before it.

        Behind a sequence's end, states do not change, and outputs are zeros.
        """
        x = node.inputs[0]
        if x is None or x.shape is None:
            raise InapplicableError("the shape of its input is not known")
        steps, batch, _ = x.shape
        lengths = node.inputs[4] if len(node.inputs) > 4 else None
        known = constant_input(node, 4)
        is_whole = lengths is None or (known is not None and bool((known == steps).all()))
        ends = [] if is_whole else [_inside(build, x, lengths)]
        size = node.attributes.get_int("hidden_size")
        direction = node.attributes.get_string("direction", "forward")
        backwards = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}[direction]
        layers = _layers(node, len(backwards))
        initial = [input_at(node, place) for place in (5, 6)]
        outputs: list[list[ir.Value]] = [[], [], []]
        for number, (layer, backward) in enumerate(zip(layers, backwards, strict=True)):
            states = [
                _zeros(build, x, size) if value is None else _first(build, value, number, None if is_whole else lengths)
                for value in initial[: layer.states]
            ]
            scanned = [layer.of_inputs(build, x), *ends]
            *finals, whole = build.several(
                len(states) + 1,
                "Scan",
                *states,
                *scanned,
                body=layer.body(build.inner("Scan"), batch if isinstance(batch, int) else None, is_whole=is_whole),
                num_scan_inputs=len(scanned),
                scan_input_directions=[backward] * len(scanned),
                scan_output_directions=[backward],
            )
            made = [build.unsqueeze(whole, [1]), *(build.unsqueeze(final, [0]) for final in finals)]
            for parts, value in zip(outputs, made, strict=False):
                parts.append(value)
        axes = zip(outputs[: len(node.outputs)], (1, 0, 0), strict=False)
        return [build("Concat", *parts, axis=axis) for parts, axis in axes]


@dataclass(frozen=True)
class _Layer:
    """One direction of a layer, and its step."""

    kind: str
    weights: np.ndarray
    """[features, gates * size], the gates in ONNX's order: z, r, h of a GRU and i, o, f, c of an LSTM."""
    recurrent: np.ndarray
    """[size, gates * size]."""
    bias: np.ndarray
    recurrent_bias: np.ndarray
    """Both [gates * size]."""
    peepholes: np.ndarray | None
    """[3 * size]: of the gates i, o and f; None without any."""
    activations: Sequence[Activation]
    clip: float
    """Inputs of activations are clipped to minus this and this; infinite for no limit."""
    joins_gates: bool
    """Whether the forget gate of an LSTM is 1 minus the input gate."""
    resets_product: bool
    """Whether the reset gate of a GRU is applied to the product with the state, and not to the state."""

    @property
    def size(self) -> int:
        return len(self.recurrent)

    @property
    def states(self) -> int:
        return 2 if self.kind == "LSTM" else 1

    def of_inputs(self, build: NodeBuilder, x: ir.Value) -> ir.Value:
        """Returns what the inputs of all steps add to the gates, at once: [steps, batch, gates * size]."""
        return build("Add", build("MatMul", x, self.weights), self.bias)

    def body(self, build: NodeBuilder, batch: int | None, *, is_whole: bool) -> ir.Graph:
        """Returns the body of a Scan, from states and :meth:`of_inputs` of a step to states and the step's output.

        Args:
            build: Makes the nodes of the body.
            batch: How many sequences there are; None if that is not known.
            is_whole: Whether all sequences take all steps; if not, the body also takes which sequences take the step.
        """
        states = [ir.val(name, ir.DataType.FLOAT, (batch, self.size)) for name in ("hidden", "cell")[: self.states]]
        x = ir.val("step", ir.DataType.FLOAT, (batch, len(self.bias)))
        results = self._next(build, x, states)
        if is_whole:
            return build.graph([*states, x], [*results, build("Identity", results[0])])
        inside = ir.val("inside", ir.DataType.BOOL, (batch, 1))
        given = build("Where", inside, results[0], np.float32(0))
        kept = [build("Where", inside, result, state) for result, state in zip(results, states, strict=True)]
        return build.graph([*states, x, inside], [*kept, given])

    def _next(self, build: NodeBuilder, x: ir.Value, states: Sequence[ir.Value]) -> list[ir.Value]:
        if self.kind == "LSTM":
            return self._lstm(build, x, *states)
        return self._gru(build, x, *states) if self.kind == "GRU" else self._rnn(build, x, *states)

    def _rnn(self, build: NodeBuilder, x: ir.Value, hidden: ir.Value) -> list[ir.Value]:
        return [self._activated(build, 0, build("Add", x, self._of_state(build, hidden)))]

    def _gru(self, build: NodeBuilder, x: ir.Value, hidden: ir.Value) -> list[ir.Value]:
        size = self.size
        x_z, x_r, x_h = build.split(x, 1, [size] * 3)
        if self.resets_product:
            h_z, h_r, h_h = build.split(self._of_state(build, hidden), 1, [size] * 3)
        else:
            h_z, h_r = build.split(self._of_state(build, hidden, slice(0, 2 * size)), 1, [size] * 2)
        update = self._activated(build, 0, build("Add", x_z, h_z))
        reset = self._activated(build, 0, build("Add", x_r, h_r))
        if self.resets_product:
            kept = build("Mul", reset, h_h)
        else:
            kept = self._of_state(build, build("Mul", reset, hidden), slice(2 * size, None))
        new = self._activated(build, 1, build("Add", x_h, kept))
        rest = build("Sub", np.float32(1), update)
        return [build("Add", build("Mul", rest, new), build("Mul", update, hidden))]

    def _lstm(self, build: NodeBuilder, x: ir.Value, hidden: ir.Value, cell: ir.Value) -> list[ir.Value]:
        total = build("Add", x, self._of_state(build, hidden))
        i, o, f, new = build.split(total, 1, [self.size] * 4)
        i = self._activated(build, 0, self._peeped(build, 0, i, cell))
        f = build("Sub", np.float32(1), i) if self.joins_gates else self._peeped(build, 2, f, cell)
        f = f if self.joins_gates else self._activated(build, 0, f)
        taken = build("Mul", i, self._activated(build, 1, new))
        next_cell = build("Add", build("Mul", f, cell), taken)
        o = self._activated(build, 0, self._peeped(build, 1, o, next_cell))
        return [build("Mul", o, self.activations[2](build, next_cell)), next_cell]

    def _of_state(self, build: NodeBuilder, hidden: ir.Value, gates: slice = slice(None)) -> ir.Value:
        return build("Add", build("MatMul", hidden, self.recurrent[:, gates]), self.recurrent_bias[gates])

    def _peeped(self, build: NodeBuilder, place: int, gate: ir.Value, cell: ir.Value) -> ir.Value:
        if self.peepholes is None:
            return gate
        return build("Add", gate, build("Mul", np.split(self.peepholes, 3)[place], cell))

    def _activated(self, build: NodeBuilder, place: int, x: ir.Value) -> ir.Value:
        if self.clip < NO_LIMIT:
            x = build("Clip", x, np.float32(-self.clip), np.float32(self.clip))
        return self.activations[place](build, x)


def _inside(build: NodeBuilder, x: ir.Value, lengths: ir.Value | None) -> ir.Value:
    """Returns which sequences have not ended before each step: [steps, batch, 1]."""
    steps = build("Gather", build("Shape", x), np.int64(0), axis=0)
    places = build.unsqueeze(build("Range", np.int64(0), steps, np.int64(1)), [1])
    return build.unsqueeze(build("Less", places, build.cast(lengths, ir.DataType.INT64)), [2])


def _first(build: NodeBuilder, states: ir.Value, number: int, lengths: ir.Value | None) -> ir.Value:
    """Returns a direction's states before the first step; zeros for sequences without steps, as in ONNX Runtime."""
    state = build("Gather", states, np.int64(number), axis=0)
    if lengths is None:
        return state
    has_steps = build("Less", np.int64(0), build.cast(lengths, ir.DataType.INT64))
    return build("Where", build.unsqueeze(has_steps, [1]), state, np.float32(0))


def _zeros(build: NodeBuilder, x: ir.Value, size: int) -> ir.Value:
    """Returns a state before the first step, [batch, size]."""
    batch = None if x.shape is None else x.shape[1]
    if isinstance(batch, int):
        return build.constant(np.zeros((batch, size), np.float32))
    shape = build("Concat", build.slice(build("Shape", x), [1], [2], [0]), np.array([size]), axis=0)
    return build("ConstantOfShape", shape, value=ir.tensor(np.zeros(1, np.float32)))


def _layers(node: ir.Node, directions: int) -> list[_Layer]:
    """Returns the directions of a layer.

    Raises:
        InapplicableError: The layer's weights are no constants, an activation is not known, or its limit is not
            above 0.
    """
    kind, size = node.op_type, node.attributes.get_int("hidden_size")
    gates = GATES[kind]
    weights, recurrent, bias, peepholes = (constant_input(node, place) for place in (1, 2, 3, 7))
    given = [place < len(node.inputs) and node.inputs[place] is not None for place in (3, 7)]
    if weights is None or recurrent is None or given != [bias is not None, peepholes is not None]:
        raise InapplicableError("its weights are not constants")
    clip = node.attributes.get_float("clip", NO_LIMIT)
    if clip <= 0:
        raise InapplicableError(f"it clips at {clip:g}, which is not above 0")
    if bias is None:
        bias = np.zeros((directions, 2 * gates * size), weights.dtype)
    activations = _activations(node, directions)
    return [
        _Layer(
            kind=kind,
            weights=np.ascontiguousarray(weights[number].T),
            recurrent=np.ascontiguousarray(recurrent[number].T),
            bias=bias[number][: gates * size],
            recurrent_bias=bias[number][gates * size :],
            peepholes=None if peepholes is None else peepholes[number],
            activations=activations[number],
            clip=clip,
            joins_gates=node.attributes.get_int("input_forget", 0) == 1,
            resets_product=node.attributes.get_int("linear_before_reset", 0) == 1,
        )
        for number in range(directions)
    ]


def _activations(node: ir.Node, directions: int) -> list[list[Activation]]:
    """Returns the activations of each direction; parameters are given in the order of the activations that take them.

    Raises:
        InapplicableError: An activation is not known, or its parameters are not given and have no default.
    """
    own = DEFAULT_ACTIVATIONS[node.op_type]
    names = node.attributes.get_strings("activations", own * directions)
    alphas = iter(node.attributes.get_floats("activation_alpha", ()))
    betas = iter(node.attributes.get_floats("activation_beta", ()))
    found = [_activation(name.lower(), alphas, betas) for name in names]
    return [found[first : first + len(own)] for first in range(0, len(own) * directions, len(own))]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    """Returns an activation by its name in small letters.

    Raises:
        InapplicableError: The activation is not known, or its parameters are not given and have no default.
    """
    if name in _PLAIN:
        operator = _PLAIN[name]
        return lambda build, x: build(operator, x)
    if name in _WITH_ALPHA:
        operator, default = _WITH_ALPHA[name]
        alpha = _number(name, alphas, default)
        return lambda build, x: build(operator, x, alpha=alpha)
    if name == "hardsigmoid":
        slope, offset = _number(name, alphas, 0.2), _number(name, betas, 0.5)
        return lambda build, x: build("HardSigmoid", x, alpha=slope, beta=offset)
    factor, other = np.float32(_number(name, alphas)), np.float32(_number(name, betas))
    if name == "affine":
        return lambda build, x: build("Add", build("Mul", x, factor), other)
    if name == "scaledtanh":
        return lambda build, x: build("Mul", build("Tanh", build("Mul", x, other)), factor)
    raise InapplicableError(f"its activation {name!r} is not known")


def _number(name: str, given: Iterator[float], default: float | None = None) -> float:
    """Returns the next of the given numbers, or the default.

    Raises:
        InapplicableError: There is neither a number nor a default.
    """
    number = next(given, default)
    if number is None:
        raise InapplicableError(f"the numbers of its activation {name!r} are not given")
    return number


_PLAIN = {name.lower(): name for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")}
_WITH_ALPHA = {"elu": ("Elu", 1.0), "leakyrelu": ("LeakyRelu", 0.01)}
