"""What RNN, GRU and LSTM nodes have in common: directions, layouts, weights and states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Infeasible, Unsupported, Value
from edgekit_mil.support.linear_quantization import LEAST_COMPRESSED
from edgekit_mil.support.runtime_shapes import size_of, zeros
from edgekit_mil.support.stepwise_recurrence import Activation, States
from edgekit_mil.support.stored_weights import Stored

OWN_ACTIVATIONS = frozenset({"sigmoid", "tanh", "relu"})
"""Activations of Core ML's recurrent layers; the layers have others, whose parameters are not documented."""
DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
"""For each pass over the sequence, whether it is backward."""
LAYOUTS = (0, 1)

OneDirection = Callable[[int, Var, States], tuple[Var, States]]


@dataclass(frozen=True)
class Weights:
    """Weights of one direction: constants as NumPy arrays or :class:`Stored`, others as variables."""

    w: Any
    """Input weights [G, I]."""
    r: Any
    """Recurrent weights [G, H]."""
    w_bias: Any
    """[G], or None."""
    r_bias: Any
    """[G], or None."""

    def reordered(self, order: Sequence[int]) -> Weights:
        """Constant weights with their gates in another order; biases left out become zeros."""
        rows = self.w.levels.shape[0] if isinstance(self.w, Stored) else self.w.shape[0]
        none = np.zeros(rows, np.float32)
        parts = (self.w, self.r, *(none if bias is None else bias for bias in (self.w_bias, self.r_bias)))
        places = np.concatenate([np.split(np.arange(rows), len(order))[gate] for gate in order]).tolist()
        return Weights(*(part.rows(places) if isinstance(part, Stored) else part[places] for part in parts)).held()

    def held(self) -> Weights:
        """Returns the weights as operations take them: stored ones as the operation that decompresses them."""
        return replace(self, w=held(self.w), r=held(self.r))


@dataclass(frozen=True)
class Layer:
    """A recurrent node's inputs and attributes, whatever its cell.

    Raises:
        Infeasible: There is no such layout, or the limit of the clipping is not above 0; ONNX Runtime refuses both.
    """

    x: Value
    w: Value
    r: Value
    b: Value | None
    sequence_lens: Value | None
    direction: str
    layout: int
    activations: Sequence[Activation]
    """The activations of the first direction, then those of the second."""
    clip: float | None
    entering: Callable[[Var], Var] | None = None
    """Applied to the input and to the state before they are multiplied; None for nothing."""
    stored: Sequence[tuple[Stored, Stored]] | None = None
    """w and r of each direction in 8 bits, if w and r as a whole are not stored in 8 bits."""

    def __post_init__(self) -> None:
        if self.layout not in LAYOUTS:
            raise Infeasible(f"has layout {self.layout}: it is 0, or 1 for a batch that comes first")
        if self.clip is not None and self.clip <= 0:
            raise Infeasible(f"clips at {self.clip:g}: the limit is above 0, or left out for none")

    @property
    def passes(self) -> Sequence[bool]:
        """For each direction, whether it is backward.

        Raises:
            Unsupported: There is no direction of that name.
        """
        return passes(self.direction)

    @property
    def hidden(self) -> int:
        """Size of a state."""
        return self.r.static_shape[2]

    @property
    def lengths(self) -> Value | None:
        """The sequences' lengths; None if all sequences are full."""
        if self.sequence_lens is None:
            return None
        full = self.x.shape[0 if self.layout == 0 else 1]
        if self.sequence_lens.constant is not None and np.all(self.sequence_lens.constant == full):
            return None
        return self.sequence_lens

    def activations_of(self, direction: int) -> Sequence[Activation]:
        """The activations of a direction."""
        count = len(self.activations) // len(self.passes)
        return self.activations[direction * count : (direction + 1) * count]

    def fits_own(self, direction: int) -> bool:
        """Whether Core ML's layer computes a direction: plain activations, constant weights, full sequences."""
        plain = all(activation.name in OWN_ACTIVATIONS for activation in self.activations_of(direction))
        known = all(value is None or value.is_constant for value in (self.w, self.r, self.b))
        return plain and known and self.clip is None and self.lengths is None and self.entering is None

    def product(self, x: Var, weight: Any, *biases: Any) -> Var:
        """Returns the product of x, after :attr:`entering`, and the weights, plus the biases that are not None."""
        return affine(x if self.entering is None else self.entering(x), weight, *biases)

    def weights(self, direction: int) -> Weights:
        """The weights of a direction."""
        w, r = (
            (_stored_or_not(self.w, direction), _stored_or_not(self.r, direction))
            if self.stored is None
            else self.stored[direction]
        )
        if self.b is None:
            return Weights(w, r, None, None)
        biases = of_direction(self.b, direction)
        halves = np.split(biases, 2) if isinstance(biases, np.ndarray) else mb.split(x=biases, num_splits=2, axis=0)
        return Weights(w, r, *halves)

    def run(self, initial: Sequence[Value | None], one: OneDirection) -> list[Var]:
        """Run all directions.

        Args:
            initial: The initial states in ONNX's layout; None for zeros.
            one: Runs one direction over a sequence [s, b, I] in this direction's order; returns outputs [s, b, H] and
                final states.

        Returns:
            ONNX's outputs: those of all steps, and each final state.
        """
        x = self.x.var if self.layout == 0 else mb.transpose(x=self.x.var, perm=[1, 0, 2])
        sequences, finals = [], []
        for direction, backward in enumerate(self.passes):
            states = tuple(self._initial(state, direction, size_of(x, 1)) for state in initial)
            outputs, final = one(direction, self._reversed(x) if backward else x, states)
            sequences.append(self._reversed(outputs) if backward else outputs)
            finals.append(final)
        steps = mb.stack(values=sequences, axis=1)  # [s, directions, b, H]
        last = [mb.stack(values=list(states), axis=0) for states in zip(*finals, strict=True)]
        if self.layout == 0:
            return [steps, *last]
        return [mb.transpose(x=steps, perm=[2, 0, 1, 3]), *(mb.transpose(x=state, perm=[1, 0, 2]) for state in last)]

    def _initial(self, state: Value | None, direction: int, batch: Any) -> Var:
        if state is None:
            nothing = zeros([batch, self.hidden])
            return mb.const(val=nothing) if isinstance(nothing, np.ndarray) else nothing
        axis = 0 if self.layout == 0 else 1
        if state.is_constant:
            return self._of_sequences(mb.const(val=np.take(state.operand, direction, axis=axis)))
        return self._of_sequences(mb.gather(x=state.var, indices=np.int32(direction), axis=axis))

    def _of_sequences(self, states: Var) -> Var:
        """The states [b, H], 0 for a sequence of length 0, whose last state is 0 in ONNX Runtime."""
        lengths = self.lengths
        if lengths is None or (lengths.constant is not None and np.all(lengths.constant > 0)):
            return states
        is_there = mb.cast(x=mb.greater(x=lengths.var, y=0), dtype="fp32")
        return mb.mul(x=states, y=mb.reshape(x=is_there, shape=[-1, 1]))

    def _reversed(self, sequence: Var) -> Var:
        """A sequence backward; what lies after the end of a shorter one stays where it is."""
        if self.lengths is None:
            return mb.reverse(x=sequence, axes=[0])
        return mb.reverse_sequence(x=sequence, lengths=self.lengths.var, seq_axis=0, batch_axis=1)


def passes(direction: str) -> Sequence[bool]:
    """For each direction, whether it is backward.

    Raises:
        Unsupported: There is no direction of that name.
    """
    if direction not in DIRECTIONS:
        raise Unsupported(f"unknown direction {direction!r}")
    return DIRECTIONS[direction]


def of_direction(value: Value, direction: int) -> Any:
    """Returns one direction's part of weights, as an array if they are constant."""
    if value.is_constant:
        return value.operand[direction]
    return mb.gather(x=value.var, indices=np.int32(direction), axis=0)


def _stored_or_not(value: Value, direction: int) -> Any:
    stored = Stored.of(value)
    return of_direction(value, direction) if stored is None else stored.at(direction)


def held(weight: Any) -> Any:
    """Returns weights as an operation takes them: stored ones decompressed at load time or here, others unchanged."""
    if not isinstance(weight, Stored):
        return weight
    return weight.decompression() if weight.levels.size >= LEAST_COMPRESSED else weight.values()


def affine(x: Var, weight: Any, *biases: Any) -> Var:
    """``x weight^T`` plus the biases that are not None."""
    given = [bias for bias in biases if bias is not None]
    known = weight if isinstance(weight, np.ndarray) else _decompressed(weight)
    if known is not None and all(isinstance(bias, np.ndarray) for bias in given):
        total = np.sum(given, axis=0, dtype=np.float32) if given else np.zeros(len(known), np.float32)
        if x.val is not None:  # the first step from a constant state, which passes must not meet
            return mb.const(val=(x.val @ known.T + total).astype(np.float32))
        return mb.linear(x=x, weight=weight, bias=total)
    result = mb.matmul(x=x, y=weight, transpose_y=True)
    for bias in given:
        result = mb.add(x=result, y=bias)
    return result


def _decompressed(weight: Var) -> np.ndarray | None:
    """The value of a weight that is a constant, compressed or not; None if the weight is computed."""
    if weight.op is not None and weight.op.op_type == "constexpr_affine_dequantize":
        return np.asarray(weight.op.materialized_val_inference())
    return None if weight.val is None else np.asarray(weight.val)
