"""Operators that draw numbers: no two runtimes draw the same, so that nothing can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from edgekit.model import Model, node_name
from edgekit.target import NodeVerdict, Support

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
DETAIL = "its numbers are drawn at random, and differ from those of other implementations"
HINT = "make the random numbers an input of the model, or export it in evaluation mode"


def with_random_refused(model: Model, verdicts: Sequence[NodeVerdict]) -> list[NodeVerdict]:
    """The verdicts, nodes that draw numbers being unsupported on every target."""
    drawn = {node_name(node) for node in model.graph.all_nodes() if draws(node)}
    return [
        replace(verdict, support=Support.UNSUPPORTED, detail=DETAIL, hint=HINT)
        if verdict.node in drawn and verdict.support is not Support.UNSUPPORTED
        else verdict
        for verdict in verdicts
    ]


def draws(node: ir.Node) -> bool:
    """Whether a node draws numbers: a random operator, or a dropout that is in training and drops something."""
    if node.domain or node.op_type != "Dropout":
        return not node.domain and node.op_type in RANDOM
    given = [*node.inputs[1:3], None, None][:2]
    ratio, training = (None if value is None else ir.convenience.get_const_tensor(value) for value in given)
    return training is not None and bool(training.numpy()) and (ratio is None or float(ratio.numpy()) != 0)
