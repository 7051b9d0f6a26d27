"""Support vector machines of ``ai.onnx.ml``, with the results that ONNX Runtime gives."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from edgekit.graph.building import NodeBuilder
from edgekit.rewrite import InapplicableError, Rewrite
from edgekit.rewrites.ml.linear import products
from edgekit.rewrites.ml.scores import DOMAIN, F, labelled, labels_of, matrix, transformed, width, with_base

LEAST_PROBABILITY = 1e-7
"""libsvm keeps probabilities of pairs at least this far from 0 and from 1."""
MOST_STEPS = 100
LARGEST_ERROR = 0.005
"""The error, before it is divided by the number of classes, at which libsvm ends the iteration."""


class SVMRegressor(Rewrite):
    """Kernels of samples with each support vector, times coefficients, plus rho; with ``one_class`` the sum's sign."""

    name: ClassVar[str] = "support vector regression as kernel products"
    op_types: ClassVar[Sequence[str]] = ("SVMRegressor",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32."""
        count = node.attributes.get_int("n_supports", 0)
        rho = node.attributes.get_floats("rho", ())
        if count:
            weights = np.asarray(node.attributes.get_floats("coefficients"), np.float32).reshape(count, 1)
            score = build("Add", build("MatMul", kernels(node, build, count), weights), F(rho[0]))
        else:
            score = with_base(build, products(node, build, 1), rho)
        if node.attributes.get_int("one_class", 0):
            positive = build.cast(build("Greater", score, F(0)), ir.DataType.FLOAT)
            return [build("Sub", build("Mul", positive, F(2)), F(1))]
        return [transformed(build, score, node.attributes.get_string("post_transform", "NONE"))]


class SVMClassifier(Rewrite):
    """The class that most pairs of classes vote for, and the pairs' scores or the classes' probabilities."""

    name: ClassVar[str] = "support vector classifier as kernel products"
    op_types: ClassVar[Sequence[str]] = ("SVMClassifier",)
    domain: ClassVar[str] = DOMAIN

    def replacement(self, node: ir.Node, build: NodeBuilder) -> Sequence[ir.Value]:
        """In float32; probabilities follow from those of pairs of classes."""
        labels = labels_of(node, "classlabels_ints", "classlabels_strings")
        transform = node.attributes.get_string("post_transform", "NONE")
        members = node.attributes.get_ints("vectors_per_class", ())
        if not members:
            scores = products(node, build, len(labels))
            rho = np.asarray(node.attributes.get_floats("rho"), np.float32)
            scores = build("Add", scores, rho[:1])
            label = labelled(build, build.places_of_greatest(scores, 1), labels)
            return [label, transformed(build, scores, transform)]
        if len(members) != len(labels):
            raise InapplicableError(f"{len(members)} classes of support vectors for {len(labels)} labels")
        scores = self._scores_of_pairs(node, build, members)
        pairs = list(itertools.combinations(range(len(members)), 2))
        label = labelled(build, self._most_votes(build, scores, pairs, len(members)), labels)
        if node.attributes.get_floats("prob_a", ()):
            return [label, transformed(build, self._probabilities(node, build, scores, len(labels)), transform)]
        if len(labels) == 2:
            return [label, self._of_two(build, scores, transform)]
        return [label, transformed(build, scores, transform)]

    def _scores_of_pairs(self, node: ir.Node, build: NodeBuilder, members: Sequence[int]) -> ir.Value:
        """Returns the scores [n, pairs] of each pair of classes; positive ones are for the first class."""
        count = sum(members)
        coefficients = np.asarray(node.attributes.get_floats("coefficients"), np.float32).reshape(-1, count)
        rho = np.asarray(node.attributes.get_floats("rho"), np.float32)
        begins = np.cumsum([0, *members])
        pairs = list(itertools.combinations(range(len(members)), 2))
        weights = np.zeros((count, len(pairs)), np.float32)
        for column, (first, second) in enumerate(pairs):
            of_first = slice(begins[first], begins[first + 1])
            of_second = slice(begins[second], begins[second + 1])
            weights[of_first, column] = coefficients[second - 1, of_first]
            weights[of_second, column] = coefficients[first, of_second]
        return build("Add", build("MatMul", kernels(node, build, count), weights), rho.reshape(1, -1))

    def _most_votes(
        self, build: NodeBuilder, scores: ir.Value, pairs: Sequence[tuple[int, int]], classes: int
    ) -> ir.Value:
        """Returns the first of the classes that most pairs decide for: [n]."""
        for_first, for_second = (np.zeros((len(pairs), classes), np.float32) for _ in range(2))
        for row, (first, second) in enumerate(pairs):
            for_first[row, first] = for_second[row, second] = 1
        is_first = build.cast(build("Greater", scores, F(0)), ir.DataType.FLOAT)
        votes = build("Add", build("MatMul", is_first, for_first - for_second), for_second.sum(0, keepdims=True))
        return build.places_of_greatest(votes, 1)

    def _of_two(self, build: NodeBuilder, scores: ir.Value, transform: str) -> ir.Value:
        """Returns the scores [n, 2] of two classes from their only pair's [n, 1]."""
        pair = build("Concat", build("Neg", scores), scores, axis=1)
        return transformed(build, pair, transform)

    def _probabilities(self, node: ir.Node, build: NodeBuilder, scores: ir.Value, classes: int) -> ir.Value:
        """Returns the classes' probabilities [n, classes], by Platt's sigmoids of the pairs' scores."""
        slopes, offsets = (np.asarray(node.attributes.get_floats(name), np.float32) for name in ("prob_a", "prob_b"))
        first = build("Sigmoid", build("Neg", build("Add", build("Mul", scores, slopes), offsets)))
        bounded = build("Min", build("Max", first, F(LEAST_PROBABILITY)), F(1 - LEAST_PROBABILITY))
        return coupled(build, bounded, classes)


def coupled(build: NodeBuilder, pairs: ir.Value, classes: int) -> ir.Value:
    """Returns the probabilities [n, classes] that agree best with those of each pair's first class [n, pairs].

    By the iteration of Wu, Lin and Weng ("Probability Estimates for Multi-class Classification by Pairwise Coupling",
    JMLR 2004, algorithm 2) as libsvm implements it, which stops at a bound of the error: the result is not the exact
    solution.
    """
    everyone = list(itertools.combinations(range(classes), 2))
    # r[i, j] = probability of i out of i and j, as a matrix product of the pairs and a constant
    positive = np.zeros((len(everyone), classes, classes), np.float32)
    constant = np.zeros((1, classes, classes), np.float32)
    for row, (i, j) in enumerate(everyone):
        positive[row, i, j], positive[row, j, i], constant[0, j, i] = 1, -1, 1
    flat = build("MatMul", pairs, positive.reshape(len(everyone), -1))
    r = build("Add", build("Reshape", flat, [-1, classes, classes]), constant)
    # computed from the matrices, so that loops of open sizes see how many there are
    start = build("Add", build("Mul", build.reduce("ReduceSum", r, [2], keepdims=False), F(0)), F(1 / classes))
    body = _coupling_step(build.inner("Loop"), classes)
    return build.several(2, "Loop", np.int64(MOST_STEPS), np.array(True), start, r, body=body)[0]


def _coupling_step(build: NodeBuilder, classes: int) -> ir.Graph:
    """Returns one step of the iteration: a Loop carries the probabilities [n, k] and the matrices r [n, k, k].

    The matrices Q follow from r in each step: devices that compute in float16 have no numbers as small as the squares
    of :data:`LEAST_PROBABILITY`, by which steps divide, and keep this iteration in float32.
    """
    number, proceed = (ir.val(name, kind, ()) for name, kind in (("i", ir.DataType.INT64), ("go", ir.DataType.BOOL)))
    given, r = (
        ir.val(name, ir.DataType.FLOAT, shape)
        for name, shape in (("given", (None, classes)), ("r", (None, classes, classes)))
    )
    turned = build("Transpose", r, perm=[0, 2, 1])
    # each square is at least the bound, unless r was rounded to zero on its way here
    squares = build("Max", build.reduce("ReduceSum", build("Mul", turned, turned), [2]), F(LEAST_PROBABILITY**2))
    q = build("Sub", build("Mul", squares, np.eye(classes, dtype=np.float32)), build("Mul", r, turned))
    qp = build.squeeze(build("MatMul", q, build.unsqueeze(given, [2])), [2])
    pqp = build.reduce("ReduceSum", build("Mul", given, qp), [1])
    error = build.reduce("ReduceMax", build("Abs", build("Sub", qp, pqp)), [1])
    is_settled = build("Less", error, F(LARGEST_ERROR / classes))
    p = given
    for at in range(classes):
        own = build.slice(qp, [at], [at + 1], [1])
        row = build.squeeze(build.slice(q, [at], [at + 1], [1]), [1])
        itself = build.slice(row, [at], [at + 1], [1])
        step = build("Div", build("Sub", pqp, own), itself)
        whole = build("Add", step, F(1))
        direction = np.eye(classes, dtype=np.float32)[at : at + 1]
        p = build("Div", build("Add", p, build("Mul", step, direction)), whole)
        if at + 1 < classes:
            change = build("Mul", step, build("Add", build("Mul", step, itself), build("Mul", own, F(2))))
            pqp = build("Div", build("Div", build("Add", pqp, change), whole), whole)
            qp = build("Div", build("Add", qp, build("Mul", row, step)), whole)
    found = build("Where", is_settled, given, p)
    settled = build.reduce("ReduceMin", build.cast(is_settled, ir.DataType.FLOAT), [0, 1], keepdims=False)
    goes_on = build("Less", settled, F(1))
    return build.graph([number, proceed, given, r], [goes_on, found, build("Identity", r)])


def kernels(node: ir.Node, build: NodeBuilder, count: int) -> ir.Value:
    """Returns the similarities [n, V] of the node's samples [n, F] to its support vectors [V, F].

    Raises:
        InapplicableError: The kernel is unknown.
    """
    kind = node.attributes.get_string("kernel_type", "LINEAR")
    parameters = (*node.attributes.get_floats("kernel_params", ()), 0.0, 0.0, 0.0)[:3]
    gamma, offset, degree = (F(number) for number in parameters)
    vectors = np.asarray(node.attributes.get_floats("support_vectors"), np.float32)
    vectors = vectors.reshape(count, width(node.inputs[0]))
    x = matrix(node.inputs[0], build)
    if kind == "RBF":
        apart = build("Sub", build.unsqueeze(x, [1]), vectors[np.newaxis])
        distance = build.reduce("ReduceSum", build("Mul", apart, apart), [2], keepdims=False)
        return build("Exp", build("Mul", distance, -gamma))
    product = build("MatMul", x, np.ascontiguousarray(vectors.T))
    if kind == "LINEAR":
        return product
    scaled = build("Add", build("Mul", product, gamma), offset)
    if kind == "POLY":
        return build("Pow", scaled, degree)
    if kind == "SIGMOID":
        return build("Tanh", scaled)
    raise InapplicableError(f"kernel_type {kind!r} is unknown")
