"""Operators that draw numbers: no two runtimes draw the same, so that nothing can be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx_ir as ir

from edgekit.errors import OpGap
from edgekit.model import Model, node_name, op_name
from edgekit.target import NodeVerdict, Support

RANDOM = frozenset(
    {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Operators that always draw numbers; a Dropout may do so."""
DETAIL = "its numbers are drawn at random, and differ from those of other implementations"
HINT = "make the random numbers an input of the model, or export it in evaluation mode"


def with_random_refused(model: Model, verdicts: Sequence[NodeVerdict]) -> list[NodeVerdict]:
    """Returns the verdicts, in which nodes that draw numbers are unsupported on every target."""
    drawn = {node_name(node) for node in model.graph.all_nodes() if draws(node)}
    return [
        replace(verdict, support=Support.UNSUPPORTED, detail=DETAIL, hint=HINT)
        if verdict.node in drawn and verdict.support is not Support.UNSUPPORTED
        else verdict
        for verdict in verdicts
    ]


def draws(node: ir.Node) -> bool:
    """Whether a node may draw numbers: a random operator, or a dropout that can be in training and drop something."""
    if node.domain or node.op_type != "Dropout":
        return not node.domain and node.op_type in RANDOM
    given = [*node.inputs[1:3], None, None][:2]
    ratio, training = (None if value is None else ir.convenience.get_const_tensor(value) for value in given)
    is_training = given[1] is not None and (training is None or bool(training.numpy()))
    return is_training and (ratio is None or float(ratio.numpy()) != 0)


def random_gaps(model: Model) -> list[OpGap]:
    """The nodes that draw numbers, in graph order."""
    return [
        OpGap(op_type=op_name(node), node=node_name(node), reason=DETAIL, hint=HINT)
        for node in model.graph.all_nodes()
        if draws(node)
    ]
