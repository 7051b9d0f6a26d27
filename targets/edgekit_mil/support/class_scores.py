"""What classifiers and regressors of ``ai.onnx.ml`` do to their scores in the end."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Unsupported, Value, computed, constant

NEGLIGIBLE = 1e-7
"""Scores of a smaller magnitude count as zero to SOFTMAX_ZERO."""
WINITZKI = 0.147
"""Coefficient of Winitzki's approximation of the inverse error function, which runtimes use for PROBIT."""


def transformed(scores: Var, transform: str) -> Var:
    """Scores [n, C] after ``post_transform``.

    Raises:
        Unsupported: There is no such transform.
    """
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return mb.sigmoid(x=scores)
    if transform == "SOFTMAX":
        return mb.softmax(x=scores, axis=-1)
    if transform == "SOFTMAX_ZERO":
        return _softmax_of_others(scores)
    if transform == "PROBIT":
        return _probit(scores)
    raise Unsupported(f"unknown post_transform {transform!r}")


def best_label(scores: Var, labels: Sequence[int]) -> Value:
    """The label [n] of each row's greatest score, the first of equal ones."""
    best = mb.reduce_argmax(x=scores, axis=1, keep_dims=False)
    return labelled(best, labels)


def labelled(places: Var, labels: Sequence[int]) -> Value:
    """The labels at places [n]."""
    table = constant(np.asarray(labels, np.int64)).operand
    if np.array_equal(table, np.arange(len(table))):
        return computed(places, ir.DataType.INT64)
    return computed(mb.gather(x=table, indices=places, axis=0), ir.DataType.INT64)


def require_numbers(used: bool, labels: Sequence[int], texts: Sequence[str]) -> None:
    """Raise Unsupported where text labels are asked for."""
    if used and (texts or not labels):
        raise Unsupported(
            "its labels are texts, programs have tensors of numbers only",
            "train on integer labels, or cut the model behind the scores with `edgekit extract`",
        )


def _softmax_of_others(scores: Var) -> Var:
    """Softmax in which zeros stay zeros; where all are, 0.5."""
    counts = mb.greater(x=mb.abs(x=scores), y=np.float32(NEGLIGIBLE))
    greatest = mb.reduce_max(x=scores, axes=[1], keep_dims=True)
    powers = mb.mul(x=mb.exp(x=mb.sub(x=scores, y=greatest)), y=mb.cast(x=counts, dtype="fp32"))
    total = mb.reduce_sum(x=powers, axes=[1], keep_dims=True)
    nothing = mb.equal(x=total, y=0.0)
    shares = mb.real_div(x=powers, y=mb.select(cond=nothing, a=1.0, b=total))
    return mb.add(x=shares, y=mb.mul(x=mb.cast(x=nothing, dtype="fp32"), y=0.5))


def _probit(scores: Var) -> Var:
    """The normal distribution's quantile, by Winitzki's approximation of the inverse error function."""
    centred = mb.sub(x=mb.mul(x=scores, y=2.0), y=1.0)
    product = mb.mul(x=mb.sub(x=1.0, y=centred), y=mb.add(x=1.0, y=centred))
    logarithm = mb.log(x=product, epsilon=0.0)
    half = mb.add(x=mb.mul(x=logarithm, y=0.5), y=np.float32(2 / (np.pi * WINITZKI)))
    under = mb.sub(x=mb.square(x=half), y=mb.mul(x=logarithm, y=np.float32(1 / WINITZKI)))
    magnitude = mb.sqrt(x=mb.sub(x=mb.sqrt(x=under), y=half))
    return mb.mul(x=mb.mul(x=mb.sign(x=centred), y=magnitude), y=np.float32(np.sqrt(2)))
