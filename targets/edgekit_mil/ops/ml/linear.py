"""Linear models and support vector regression of ``ai.onnx.ml``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value
from edgekit_mil.ops.ml.features import DOMAIN, as_float
from edgekit_mil.support.class_scores import best_label, labelled, require_numbers, transformed


@lowering("LinearRegressor", versions=[1], domain=DOMAIN)
def linear_regressor(
    ctx: Context,
    x: Value,
    *,
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    post_transform: str = "NONE",
    targets: int = 1,
) -> Var:
    """Products of the features of x [n, F] with coefficients [targets, F], plus intercepts."""
    return transformed(products(x, coefficients, intercepts, targets), post_transform)


@lowering("LinearClassifier", versions=[1], domain=DOMAIN, note="integer labels")
def linear_classifier(
    ctx: Context,
    x: Value,
    *,
    classlabels_ints: Sequence[int] = (),
    classlabels_strings: Sequence[str] = (),
    coefficients: Sequence[float],
    intercepts: Sequence[float] = (),
    multi_class: int = 0,
    post_transform: str = "NONE",
) -> tuple[Value | None, Var]:
    """The label [n] of the greatest score, and the scores [n, classes]; of two classes one score is enough."""
    require_numbers(ctx.output_used[0], classlabels_ints, classlabels_strings)
    classes = len(classlabels_ints) or len(classlabels_strings)
    rows = len(coefficients) // x.static_shape[-1]
    scores = products(x, coefficients, intercepts, rows)
    if rows == classes:
        label = best_label(scores, classlabels_ints) if ctx.output_used[0] else None
        return label, transformed(scores, post_transform)
    if (rows, classes) != (1, 2) or post_transform != "LOGISTIC":  # the score of the first differs among runtimes
        raise Unsupported(f"{rows} rows of coefficients for {classes} classes with post_transform {post_transform}")
    label = None
    if ctx.output_used[0]:
        second = mb.cast(x=mb.greater(x=mb.squeeze(x=scores, axes=[1]), y=0.0), dtype="int32")
        label = labelled(second, classlabels_ints)
    both = mb.concat(values=[mb.mul(x=scores, y=-1.0), scores], axis=1)
    return label, transformed(both, post_transform)


@lowering("SVMRegressor", versions=[1], domain=DOMAIN)
def svm_regressor(
    ctx: Context,
    x: Value,
    *,
    coefficients: Sequence[float],
    kernel_params: Sequence[float] = (),
    kernel_type: str = "LINEAR",
    n_supports: int = 0,
    one_class: int = 0,
    post_transform: str = "NONE",
    rho: Sequence[float],
    support_vectors: Sequence[float] = (),
) -> Var:
    """Kernels of x [n, F] with each support vector, times coefficients, plus rho; of one class the sign of that."""
    features = x.static_shape[-1]
    if not n_supports:
        score = products(x, coefficients, rho, 1)
    else:
        vectors = np.asarray(support_vectors, np.float32).reshape(n_supports, features)
        kernels = kernel(as_float(x), vectors, kernel_type, kernel_params)
        weights = np.asarray(coefficients, np.float32).reshape(n_supports, 1)
        score = mb.add(x=mb.matmul(x=kernels, y=weights), y=np.float32(rho[0]))
    if not one_class:
        return transformed(score, post_transform)
    positive = mb.cast(x=mb.greater(x=score, y=0.0), dtype="fp32")
    return mb.sub(x=mb.mul(x=positive, y=2.0), y=1.0)


def products(x: Value, coefficients: Sequence[float], intercepts: Sequence[float], rows: int) -> Var:
    """Products of the features of x [n, F] with rows of coefficients, plus intercepts: [n, rows]."""
    if x.rank != 2:
        raise Unsupported(f"features in a tensor of rank {x.rank}, there is a lowering of matrices")
    weights = np.asarray(coefficients, np.float32).reshape(rows, x.static_shape[-1])
    bias = np.asarray(intercepts, np.float32) if len(intercepts) else None
    if bias is not None and len(bias) != rows:
        raise Unsupported(f"{len(bias)} intercepts for {rows} rows of coefficients")
    return mb.linear(x=as_float(x), weight=weights, bias=bias)


def kernel(x: Var, vectors: np.ndarray, kind: str, parameters: Sequence[float]) -> Var:
    """Similarities [n, V] of features [n, F] to vectors [V, F]."""
    gamma, offset, degree = (np.float32(number) for number in (*parameters, 0.0, 0.0, 0.0)[:3])
    if kind == "RBF":
        apart = mb.sub(x=mb.expand_dims(x=x, axes=[1]), y=vectors[np.newaxis])
        return mb.exp(x=mb.mul(x=mb.reduce_sum_square(x=apart, axes=[2], keep_dims=False), y=-gamma))
    product = mb.matmul(x=x, y=np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return product
    scaled = mb.add(x=mb.mul(x=product, y=gamma), y=offset)
    if kind == "POLY":
        return mb.pow(x=scaled, y=degree)
    if kind == "SIGMOID":
        return mb.tanh(x=scaled)
    raise Unsupported(f"unknown kernel_type {kind!r}")
