"""Sizes of free dimensions that suit the devices which a model is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from edgekit.data.sampled_shapes import SampledShapes
from edgekit.errors import InputError
from edgekit.execution.tree_tables import tabulate_trees
from edgekit.graph.default_sizes import Holds, SampledSizes
from edgekit.graph.shape_request import ShapeRequest
from edgekit.graph.word_inputs import with_word_inputs
from edgekit.model import Model
from edgekit.registry import installed_rewrites
from edgekit.rewrites.adaptation import adapted
from edgekit.stages.fix_shapes import FixShapes, dynamic_dimensions
from edgekit.stages.words_as_numbers import needs_numbers
from edgekit.target import Profile, Support, Target
from edgekit.walk import Walk


def fixed_for(
    profiles: Sequence[tuple[Target, Profile]],
    loaded: Model,
    shapes: ShapeRequest,
    sampled: SampledShapes,
    walk: Walk,
) -> tuple[Model, Holds]:
    """The model with its shapes fixed, as far as the devices need it, and which sizes these take in a dimension.

    Devices that take any size get the dimensions open that nobody asked about. Where one of them then lacks operators
    that it has at the sizes of the samples, from the least to the greatest, it gets these.
    """
    device = held_sizes(profiles)
    sizes = SampledSizes(sampled.ranges, sampled.count, device)
    fixed = walk.run_stage(FixShapes(shapes, defaults=True, sampled=sizes), loaded).model
    if device is not Holds.ANY or not any(True for _ in dynamic_dimensions(fixed)):
        return fixed, device
    if sampled.count and _lacks_operators(fixed, profiles):
        at_sizes = FixShapes(shapes, defaults=True, sampled=replace(sizes, device=Holds.RANGE))
        if not _lacks_operators(at_sizes.run(loaded).model, profiles):
            walk.records.pop()
            fixed = walk.run_stage(at_sizes, loaded).model
    return fixed, device


def _lacks_operators(model: Model, profiles: Sequence[tuple[Target, Profile]]) -> bool:
    if needs_numbers(model, profiles):
        model = with_word_inputs(model).model
    simpler = model.with_graph(model.graph_model.clone())
    if tabulate_trees(simpler.graph_model):  # as simplification will: each tree takes a device seconds to judge
        model = simpler
    return any(
        verdict.support is Support.UNSUPPORTED
        for target, profile in profiles
        for verdict in adapted(model, target, profile, installed_rewrites()).verdicts
    )


def held_sizes(profiles: Sequence[tuple[Target, Profile]]) -> Holds:
    """Which sizes all of the devices take in a dimension."""
    if all(target.takes_free_dimensions(profile) for target, profile in profiles):
        return Holds.ANY
    return Holds.RANGE if all(target.takes_open_dimensions(profile) for target, profile in profiles) else Holds.ONE


def require_one_size(model: Model, sampled: SampledShapes, device: Holds) -> None:
    """Checks that samples do not have several sizes where the model leaves one free that the device has to know.

    Raises:
        InputError: They have.
    """
    for spec, axis, dim, flag in dynamic_dimensions(model):
        found = sampled.ranges.get(spec.name, ())
        if axis < len(found) and found[axis].least != found[axis].greatest:
            called = "" if dim is None else f" ({dim})"
            least, greatest = found[axis].least, found[axis].greatest
            raise InputError(
                "the samples have several sizes where the model leaves one free, and the device "
                + ("has to know which" if device is Holds.RANGE else "holds fixed shapes"),
                subject=f"dimension {axis}{called} of input {spec.name!r}",
                expected="one size",
                found=f"{least} to {greatest} in {sampled.count} samples",
                hint=f"fix it with {flag}, and give samples of that size"
                + (", or export it with a name for the dimension: then it stays open" if device is Holds.RANGE else ""),
            )
