"""Recurrences step by step, for cells that Core ML's recurrent layers do not have.

A cell takes the input's contribution to a step and a tuple of states [b, H], and returns the next states; the first of
these is the step's output.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Unsupported, Value
from edgekit_mil.support.bounds import bounded
from edgekit_mil.support.runtime_shapes import size_of, zeros

States = tuple[Var, ...]
Cell = Callable[[Var, States], Sequence[Var]]

LONGEST_UNROLLED = 24
"""Longer sequences become a loop: the program does not grow with their length."""


@dataclass(frozen=True)
class Activation:
    """An activation function of a cell."""

    name: str
    """ONNX's name, in lower case."""
    function: Callable[[Var], Var]
    clip: float | None
    """The argument is clipped to at most this magnitude; None for no limit."""

    def __call__(self, x: Var) -> Var:
        """Apply the function to the clipped argument."""
        return self.function(x if self.clip is None else bounded(x, -self.clip, self.clip))


def activations_of(
    names: Sequence[str], alphas: Sequence[float] | None, betas: Sequence[float] | None, clip: float | None
) -> list[Activation]:
    """Functions by ONNX's names; parameters are consumed in turn by those that have them.

    Args:
        names: The names for all directions.
        alphas: ``activation_alpha``.
        betas: ``activation_beta``.
        clip: The functions' arguments are clipped to at most this magnitude; None for no limit.

    Raises:
        Unsupported: A name is unknown.
    """
    left_alphas, left_betas = list(alphas or ()), list(betas or ())
    functions = []
    for name in names:
        key = name.lower()
        if key not in _MAKERS:
            raise Unsupported(f"unknown activation {name!r}")
        make, defaults = _MAKERS[key]
        given = [
            (left.pop(0) if left else default)
            for left, default in zip((left_alphas, left_betas), defaults, strict=False)
        ]
        functions.append(Activation(key, make(*given), clip))
    return functions


_MAKERS: dict[str, tuple[Callable[..., Callable[[Var], Var]], tuple[float, ...]]] = {
    "relu": (lambda: lambda x: mb.relu(x=x), ()),
    "tanh": (lambda: lambda x: mb.tanh(x=x), ()),
    "sigmoid": (lambda: lambda x: mb.sigmoid(x=x), ()),
    "softsign": (lambda: lambda x: mb.softsign(x=x), ()),
    "softplus": (lambda: lambda x: mb.softplus(x=x), ()),
    "affine": (lambda a, b: lambda x: mb.linear_activation(x=x, alpha=a, beta=b), (1.0, 0.0)),
    "leakyrelu": (lambda a: lambda x: mb.leaky_relu(x=x, alpha=a), (0.01,)),
    "thresholdedrelu": (lambda a: lambda x: mb.thresholded_relu(x=x, alpha=a), (1.0,)),
    "scaledtanh": (lambda a, b: lambda x: mb.scaled_tanh(x=x, alpha=a, beta=b), (1.0, 1.0)),
    "hardsigmoid": (lambda a, b: lambda x: mb.sigmoid_hard(x=x, alpha=a, beta=b), (0.2, 0.5)),
    "elu": (lambda a: lambda x: mb.elu(x=x, alpha=a), (1.0,)),
}
"""How to make each function from its parameters, and the parameters' defaults."""


def run_steps(cell: Cell, inputs: Var, states: States, lengths: Value | None) -> tuple[Var, States]:
    """Run a cell over a sequence, forward.

    Args:
        cell: One step.
        inputs: What the input contributes to each step: [s, b, G].
        states: The initial states, [b, H] each.
        lengths: The length of each sequence in the batch [b]; after it states stay and outputs are zero. None if all
            sequences are full.

    Returns:
        All outputs [s, b, H], and the states after the last step.
    """
    count = size_of(inputs, 0)

    def step(contribution: Var, index: Var | int, before: States) -> tuple[Var, States]:
        after = tuple(cell(contribution, before))
        if lengths is None:
            return after[0], after
        going = mb.reshape(x=mb.cast(x=mb.greater(x=lengths.var, y=index), dtype="fp32"), shape=[-1, 1])
        ended = mb.sub(x=1.0, y=going)
        kept = tuple(
            mb.add(x=mb.mul(x=new, y=going), y=mb.mul(x=old, y=ended)) for new, old in zip(after, before, strict=True)
        )
        return mb.mul(x=after[0], y=going), kept

    if isinstance(count, int) and count <= LONGEST_UNROLLED:
        outputs = []
        for index in range(count):
            output, states = step(mb.gather(x=inputs, indices=np.int32(index), axis=0), index, states)
            outputs.append(output)
        return mb.stack(values=outputs, axis=0), states

    def body(index: Var, collected: Var, *before: Var) -> list[Var]:
        output, after = step(mb.gather(x=inputs, indices=index, axis=0), index, before)
        position = mb.expand_dims(x=index, axes=[0])
        row = mb.expand_dims(x=output, axes=[0])
        grown = mb.scatter(data=collected, indices=position, updates=row, axis=0, mode="update")
        return [mb.add(x=index, y=1), grown, *after]

    empty = zeros([count, *(size_of(states[0], axis) for axis in range(states[0].rank))])
    last = count if isinstance(count, int) else mb.squeeze(x=count, axes=[0])
    _, outputs, *final = mb.while_loop(
        _cond=lambda index, *_: mb.less(x=index, y=last), _body=body, loop_vars=(np.int32(0), empty, *states)
    )
    return outputs, tuple(final)
