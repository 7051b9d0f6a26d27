"""Linear models of ``ai.onnx.ml`` as matrix products."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.ml.scores import (
    DOMAIN,
    both,
    label_of_sign,
    labelled,
    labels_of,
    matrix,
    transformed,
    width,
    with_base,
)


class LinearRegressor(Rewrite):
    """Products of the features with coefficients, plus intercepts."""

    name: ClassVar[str] = "linear regressor as matrix product"
    op_types: ClassVar[Sequence[str]] = ("LinearRegressor",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32; ONNX Runtime transforms a single target by PROBIT only."""
        targets = node.attributes.get_int("targets", 1)
        transform = node.attributes.get_string("post_transform", "NONE")
        scores = products(node, build, targets)
        return [transformed(build, scores, transform if targets > 1 or transform == "PROBIT" else "NONE")]


class LinearClassifier(Rewrite):
    """The label of the greatest score, and the scores; for two classes one score is enough."""

    name: ClassVar[str] = "linear classifier as matrix product"
    op_types: ClassVar[Sequence[str]] = ("LinearClassifier",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32."""
        labels = labels_of(node, "classlabels_ints", "classlabels_strings")
        transform = node.attributes.get_string("post_transform", "NONE")
        features = width(node.inputs[0])
        coefficients = node.attributes.get_floats("coefficients", ())
        # ONNX Runtime takes as many rows as there are intercepts: its own iris example has a few more numbers.
        rows = len(node.attributes.get_floats("intercepts", ())) or len(coefficients) // features
        scores = products(node, build, rows)
        if rows == 1 and len(labels) == 2:
            label = label_of_sign(build, scores, 0.0, labels)
            return [label, both(build, scores, transform, is_probability=True)]
        if rows != len(labels):
            raise InapplicableError(f"{rows} rows of coefficients for {len(labels)} labels")
        label = labelled(build, build.places_of_greatest(scores, 1), labels)
        return [label, transformed(build, scores, transform)]


def products(node: ir.Node, build: NodeBuilder, rows: int) -> ir.Value:
    """Returns products of the node's input [n, F] with rows of coefficients, plus intercepts: [n, rows].

    Coefficients beyond the rows are ignored.
    """
    x = node.inputs[0]
    weights = np.asarray(node.attributes.get_floats("coefficients", ()), np.float32)[: rows * width(x)]
    if weights.size != rows * width(x):
        raise InapplicableError(f"{weights.size} coefficients for {rows} rows of {width(x)} features")
    product = build("MatMul", matrix(x, build), np.ascontiguousarray(weights.reshape(rows, -1).T))
    return with_base(build, product, node.attributes.get_floats("intercepts", ()))
