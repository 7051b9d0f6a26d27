"""Finds the nodes that draw random numbers: what they compute cannot be compared, on any target."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.errors import OpGap, UnsupportedOpsError
from edgekit.model import Model, node_name

RANDOM = {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def require_no_randomness(model: Model) -> None:
    """Refuses nodes that draw random numbers, a dropout in training mode among them.

    Raises:
        UnsupportedOpsError: There are some; all are named.
    """
    gaps = [
        OpGap(
            node.op_type,
            node_name(node),
            "drops numbers at random: it is in training mode" if node.op_type == "Dropout" else "draws random numbers",
            "export the model in inference mode: module.eval()"
            if node.op_type == "Dropout"
            else "make the random numbers an input of the model",
        )
        for node in model.graph.all_nodes()
        if not node.domain and (node.op_type in RANDOM or _drops(node))
    ]
    if gaps:
        raise UnsupportedOpsError(
            gaps, subject=model.name, hint="what is drawn at random cannot be verified, on any target"
        )


def _drops(node: ir.Node) -> bool:
    """Whether a Dropout is in training mode with a ratio that is not zero."""
    if node.op_type != "Dropout" or len(node.inputs) < 3 or node.inputs[2] is None:
        return False
    training, ratio = (
        None if value is None else ir.convenience.get_const_tensor(value) for value in (node.inputs[2], node.inputs[1])
    )
    never = training is not None and not training.numpy().item()
    return not never and (ratio is None or ratio.numpy().item() != 0)
