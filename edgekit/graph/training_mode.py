"""Refuses models exported in training mode, in which dropout gives different results in every run."""

from __future__ import annotations

import onnx_ir as ir

from edgekit.errors import InputError
from edgekit.model import Model, node_name

DEFAULT_RATIO = 0.5
"""The ratio of a Dropout that states none, as ONNX defines it."""


def require_inference(model: Model) -> None:
    """Checks that no node of the model drops numbers at random.

    Raises:
        InputError: The model was exported in training mode; the error names the nodes that show it.
    """
    dropping = [node_name(node) for node in model.graph.all_nodes() if _drops_at_random(node)]
    if not dropping:
        return
    normalizing = [node for node in model.graph.all_nodes() if _normalizes_by_the_batch(node)]
    more = f" and {len(dropping) - 1} more" if len(dropping) > 1 else ""
    beside = (
        f"; {len(normalizing)} BatchNormalization that normalize by the batch's own statistics" if normalizing else ""
    )
    raise InputError(
        "was exported in training mode: Dropout sets numbers to zero at random",
        subject=model.source,
        expected="a model that gives the same outputs for the same inputs",
        found=f"Dropout {dropping[0]!r}{more}{beside}",
        hint="export it in evaluation mode: in PyTorch model.eval() first, and no training= in torch.onnx.export",
    )


def _drops_at_random(node: ir.Node) -> bool:
    if node.op_type != "Dropout" or node.domain or len(node.inputs) < 3:
        return False
    ratio, training = (_number(node.inputs[place]) for place in (1, 2))
    return bool(training) and (DEFAULT_RATIO if node.inputs[1] is None else ratio) not in (None, 0.0)


def _normalizes_by_the_batch(node: ir.Node) -> bool:
    mode = node.attributes.get("training_mode")
    return node.op_type == "BatchNormalization" and not node.domain and mode is not None and mode.as_int() == 1


def _number(value: ir.Value | None) -> float | None:
    """Returns the single number of a value, or None if it is computed."""
    tensor = None if value is None else ir.convenience.get_const_tensor(value)
    return None if tensor is None or tensor.size != 1 else float(tensor.numpy().reshape(-1)[0])
