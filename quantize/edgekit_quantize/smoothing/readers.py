"""Finds the tensors that can be divided by a factor per channel: their readers can multiply weights by the factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgekit_quantize.graph.layers import Layer
from edgekit_quantize.placement import Plan


def sole_readers(plan: Plan) -> dict[str, list[Layer]]:
    """The tensors whose integers are read only by quantized layers of one kind, each with these layers.

    The layers' weights are multiplied by the factors that divide the tensor, so nothing else may read the weights. The
    steps of an unrolled recurrent layer, for example, share their weights, and each step would need its own copy.
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
    """The tensors that every plan that quantizes them wants divided, each with its readers.

    Args:
        plans: Plans for one graph, whose candidates share the factors that each tensor is divided by.
        wanted: Returns the tensors that a plan wants divided, each with its readers.
    """
    wishes = [wanted(plan) for plan in plans]
    return {
        name: readers
        for wish in wishes
        for name, readers in wish.items()
        if all(name in other for plan, other in zip(plans, wishes, strict=True) if name in plan.tensors)
    }
