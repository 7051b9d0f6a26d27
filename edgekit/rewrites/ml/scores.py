"""What classifiers and regressors of ``ai.onnx.ml`` do to their scores in the end, as ONNX Runtime does it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError

DOMAIN = "ai.onnx.ml"

NEGLIGIBLE = 1e-7
"""SOFTMAX_ZERO takes scores of a smaller magnitude as zero."""
WINITZKI = 0.147
"""Coefficient of Winitzki's approximation of the inverse error function, which ONNX Runtime uses for PROBIT."""

F = np.float32


def transformed(build: NodeBuilder, scores: ir.Value, transform: str) -> ir.Value:
    """Returns scores [n, C] after ``post_transform``.

    Raises:
        InapplicableError: There is no such transform.
    """
    if transform == "NONE":
        return scores
    if transform == "LOGISTIC":
        return build("Sigmoid", scores)
    if transform == "SOFTMAX":
        return build("Softmax", scores, axis=1)  # of matrices: the same in all versions of the operator
    if transform == "SOFTMAX_ZERO":
        return _softmax_of_others(build, scores)
    if transform == "PROBIT":
        return _probit(build, scores)
    raise InapplicableError(f"post_transform {transform!r} is unknown")


def labels_of(node: ir.Node, ints: str, strings: str) -> np.ndarray:
    """Returns the classes' labels that a node holds, as integers or texts.

    Raises:
        InapplicableError: The node holds no labels.
    """
    numbers, texts = node.attributes.get_ints(ints, ()), node.attributes.get_strings(strings, ())
    if not (numbers or texts):
        raise InapplicableError("it has no labels")
    return np.array(texts, np.object_) if texts else np.array(numbers, np.int64)


def labelled(build: NodeBuilder, places: ir.Value, labels: np.ndarray) -> ir.Value:
    """Returns the labels at indices [n] (int64)."""
    if labels.dtype == np.int64 and np.array_equal(labels, np.arange(len(labels))):
        return places
    return build("Gather", labels, places, axis=0)


def label_of_sign(build: NodeBuilder, score: ir.Value, over: float, labels: np.ndarray) -> ir.Value:
    """Returns the second label [n] where a score [n, 1] is above ``over``, else the first."""
    is_over = build("Greater", build("Reshape", score, [-1]), F(over))
    return labelled(build, build.cast(is_over, ir.DataType.INT64), labels)


def both(build: NodeBuilder, score: ir.Value, transform: str, *, is_probability: bool) -> ir.Value:
    """Returns the scores [n, 2] of two classes of which only the second's [n, 1] is known.

    LOGISTIC turns the score and its negative into probabilities. Else the first class gets the complement to 1 of a
    probability, or the negative of another score. Other transforms are ignored.
    """
    if is_probability and transform != "LOGISTIC":
        return build("Concat", build("Sub", F(1), score), score, axis=1)
    pair = build("Concat", build("Neg", score), score, axis=1)
    return build("Sigmoid", pair) if transform == "LOGISTIC" else pair


def matrix(x: ir.Value | None, build: NodeBuilder) -> ir.Value:
    """Returns samples [n, F] in float32; a vector is one sample.

    Raises:
        InapplicableError: The input has another rank, or its rank is not known.
    """
    if x is None or x.shape is None or x.shape.rank() not in (1, 2):
        raise InapplicableError("its input is not a matrix")
    data = build.cast(x, ir.DataType.FLOAT)
    return data if x.shape.rank() == 2 else build.unsqueeze(data, [0])


def width(x: ir.Value | None) -> int:
    """Returns how many features samples have.

    Raises:
        InapplicableError: The number of features is not known.
    """
    last = None if x is None or x.shape is None or not x.shape.rank() else x.shape[-1]
    if not isinstance(last, int):
        raise InapplicableError("how many features its input has is not known")
    return last


def floats(node: ir.Node, name: str) -> np.ndarray:
    """Returns an attribute given as a list, or as a tensor under ``<name>_as_tensor``; empty if it is not given."""
    tensor = node.attributes.get_tensor(f"{name}_as_tensor", None)
    if tensor is not None:
        return tensor.numpy()
    return np.asarray(node.attributes.get_floats(name, ()), np.float32)


def with_base(build: NodeBuilder, scores: ir.Value, base: Sequence[float] | np.ndarray) -> ir.Value:
    """Returns scores [n, C] plus base values, if there are any."""
    return build("Add", scores, np.asarray(base, np.float32).reshape(1, -1)) if len(base) else scores


def _softmax_of_others(build: NodeBuilder, scores: ir.Value) -> ir.Value:
    """Returns the softmax in which zeros stay zeros."""
    counts = build.cast(build("Greater", build("Abs", scores), F(NEGLIGIBLE)), ir.DataType.FLOAT)
    apart = build("Sub", scores, build.reduce("ReduceMax", scores, [1]))
    powers = build("Mul", build("Exp", apart), counts)
    total = build.reduce("ReduceSum", powers, [1])
    return build("Div", powers, build("Where", build("Greater", total, F(0)), total, F(1)))


def _probit(build: NodeBuilder, scores: ir.Value) -> ir.Value:
    """Returns the normal distribution's quantile, by Winitzki's approximation of the inverse error function."""
    centred = build("Sub", build("Mul", scores, F(2)), F(1))
    logarithm = build("Log", build("Mul", build("Sub", F(1), centred), build("Add", F(1), centred)))
    half = build("Add", build("Mul", logarithm, F(0.5)), F(2 / (np.pi * WINITZKI)))
    under = build("Sub", build("Mul", half, half), build("Mul", logarithm, F(1 / WINITZKI)))
    magnitude = build("Sqrt", build("Sub", build("Sqrt", under), half))
    return build("Mul", build("Mul", build("Sign", centred), magnitude), F(np.sqrt(2)))
