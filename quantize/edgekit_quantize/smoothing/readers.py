"""Which tensors can be divided by a factor a channel: those whose readers can take the factors up in their weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.placement import Plan


def sole_readers(plan: Plan) -> dict[str, list[Layer]]:
    """The tensors whose integers go into quantized layers of one kind and nowhere else, each with those layers.

    Their weights take up what the tensor is divided by, so nothing else may read these: the steps of an unrolled
    recurrent layer share theirs, and each step would need a copy of its own.
    """
    return {
        name: found
        for name, found in plan.readers().items()
        if len({layer.kind for layer in found}) == 1 and _have_weights_alone(found)
    }


def _have_weights_alone(found: Sequence[Layer]) -> bool:
    nodes = {layer.node for layer in found}
    return all(use.node in nodes for layer in found for use in layer.weight.uses())


def agreed(plans: Sequence[Plan], wanted: Callable[[Plan], dict[str, list[Layer]]]) -> dict[str, list[Layer]]:
    """The tensors that some plan wants divided, and every plan that quantizes them does, each with its readers.

    Args:
        plans: Plans for one graph, whose candidates share what each tensor is divided by.
        wanted: Gives the tensors that a plan wants divided, each with its readers.
    """
    wishes = [wanted(plan) for plan in plans]
    return {
        name: readers
        for wish in wishes
        for name, readers in wish.items()
        if all(name in other for plan, other in zip(plans, wishes, strict=True) if name in plan.tensors)
    }
