"""Sizes of free dimensions that suit the devices that a model is built for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgekit.data.sampled_shapes import SampledShapes
from edgekit.data.samples_of_one_size import LeftOut, of_other_sizes
from edgekit.errors import InputError
from edgekit.graph.sizes.default_sizes import AcceptedSizes, SampledSizes
from edgekit.graph.sizes.joined_names import alike_by_samples
from edgekit.graph.sizes.shape_request import ShapeRequest
from edgekit.graph.sizes.shared_names import names_by_samples
from edgekit.graph.words.inputs import with_word_inputs
from edgekit.model import Model
from edgekit.packaging.stage_runner import StageRunner
from edgekit.rewrites.adaptation import Adapter
from edgekit.stages.fix_shapes import FixShapes, dynamic_dimensions
from edgekit.stages.fix_values import FixValues, first_integers, first_values, sampled_values
from edgekit.stages.join_dimensions import JoinDimensions
from edgekit.stages.simplify import Simplify
from edgekit.stages.tell_apart import TellApart
from edgekit.stages.words_as_numbers import needs_numbers
from edgekit.target import Profile, Support, Target


@dataclass(frozen=True)
class FixedShapes:
    """A model with its shapes fixed, as far as devices need it."""

    model: Model
    device: AcceptedSizes
    """Which sizes the devices take in a dimension."""
    left_out: LeftOut
    """The samples of sizes that the model does not take."""


def with_sizes_of_samples(
    loaded: Model,
    shapes: ShapeRequest,
    sampled: SampledShapes,
    device: AcceptedSizes,
    stages: StageRunner,
    *folders: Path | None,
) -> Model:
    """The model with dimension names corrected by the samples, and with sizes and values of a sample for trial runs.

    Args:
        loaded: The model as it was loaded.
        shapes: The sizes that were asked for.
        sampled: The shapes of the samples.
        device: Which sizes the devices take in a dimension.
        stages: Runs the stages.
        folders: The samples.
    """
    in_ranges = device is AcceptedSizes.RANGE
    if in_ranges and (alike := alike_by_samples(loaded.inputs, sampled.each, shapes)):
        loaded = stages.run_stage(JoinDimensions(alike, *folders), loaded).model
    if names := names_by_samples(loaded.inputs, sampled.each, shapes, unnamed=in_ranges):
        loaded = stages.run_stage(TellApart(names, *folders), loaded).model
    return _to_try(loaded, sampled)


def _to_try(loaded: Model, sampled: SampledShapes) -> Model:
    """The model with the sizes and values of a sample for trial runs."""
    return replace(
        loaded,
        sample_shapes=sampled.one,
        sample_values=first_values(loaded, sampled),
        sample_integers=first_integers(loaded, sampled),
    )


def fix_shapes_at(
    holds: AcceptedSizes, loaded: Model, shapes: ShapeRequest, sampled: SampledShapes, *, defaults: bool = True
) -> tuple[FixShapes, LeftOut]:
    """The stage that fixes a model's shapes for a device that takes the sizes ``holds``, and samples of other sizes."""
    left_out = of_other_sizes(
        loaded.inputs, shapes, sampled, one_size=holds is AcceptedSizes.ONE, may_be_empty=holds is AcceptedSizes.ANY
    )
    kept = sampled.without(left_out.files)
    sizes = SampledSizes(kept.ranges, sampled.count, holds, sampled.media)
    return FixShapes(shapes, defaults=defaults, sampled=sizes, left_out=left_out), left_out


def fixed_for(
    profiles: Sequence[tuple[Target, Profile]],
    loaded: Model,
    shapes: ShapeRequest,
    sampled: SampledShapes,
    stages: StageRunner,
    simplify: Simplify,
    adapter: Adapter,
) -> FixedShapes:
    """The model with its shapes fixed, as far as the devices need it.

    Dimensions that nobody asked about stay open if all devices take any size. If a device then lacks operators, or the
    model does not run, these dimensions get the sizes of the samples from the least to the greatest. If that fails in
    turn, or a device takes one size, they get the size that most samples have. If operators are still lacking, and some
    device does not take any size, inputs that have the same value in all samples are fixed at that value.

    Args:
        profiles: The devices.
        loaded: The model as it was loaded.
        shapes: The sizes that were asked for.
        sampled: The shapes of the samples.
        stages: Runs the stages.
        simplify: Simplifies the model before devices are asked about its operators; may cache its results.
        adapter: Rewrites for each device the operators that it refuses; may cache its results.

    Raises:
        InputError: Shapes that were asked for do not fit, or the model runs at none of these sizes.
    """
    device = held_sizes(profiles)
    narrower = {
        AcceptedSizes.ANY: (AcceptedSizes.RANGE, AcceptedSizes.ONE),
        AcceptedSizes.RANGE: (AcceptedSizes.ONE,),
        AcceptedSizes.ONE: (),
    }[device]
    values = {} if device is AcceptedSizes.ANY else sampled_values(loaded, sampled)
    others = [(holds, False) for holds in narrower if sampled.count]
    others += [(holds, True) for holds in (device, *narrower) if values]
    fix_values = FixValues(values, sampled.count)

    def suits(fix: FixShapes, with_values: bool) -> bool:
        try:
            model = fix_values.tried(loaded).model if with_values else loaded
            return _lacking(fix.tried(model).model, profiles, simplify, adapter) is None
        except InputError:
            return False

    first, left_out = fix_shapes_at(device, loaded, shapes, sampled)
    to_try = _to_try(loaded, sampled.without(left_out.files))
    fixed = None
    try:
        fixed = stages.run_stage(first, to_try).model
        may_lack = bool(others) and (bool(values) or _is_open(fixed))
        why = _lacking(fixed, profiles, simplify, adapter) if may_lack else None
        if why is None:
            return FixedShapes(fixed, device, left_out)
    except InputError as error:
        if not others:
            raise
        why = f"the model does not run where they are open: {error.message}"
    for holds, with_values in others:
        fix, without = fix_shapes_at(holds, loaded, shapes, sampled)
        if suits(fix, with_values):
            stages.records.pop()
            kept = _to_try(loaded, sampled.without(without.files))
            model = stages.run_stage(fix_values, kept).model if with_values else kept
            fixed = stages.run_stage(fix, model).model
            if holds is not device:
                stages.warn(f"the bundle takes only the sizes that the samples have: {why}")
            return FixedShapes(fixed, device, without)
    return FixedShapes(fixed or stages.run_stage(first, to_try).model, device, left_out)


def _is_open(model: Model) -> bool:
    """Whether an input has a dimension that takes several sizes."""
    return bool(model.open_dims) or any(True for _ in dynamic_dimensions(model))


def _lacking(
    model: Model, profiles: Sequence[tuple[Target, Profile]], simplify: Simplify, adapter: Adapter
) -> str | None:
    """In words, an operator that a device lacks at these sizes; None if it lacks none.

    If the device's runtime runs here, an operator whose support is unknown counts as lacking. Operators are those of
    the simplified model, as it is built: simplification counts the turns of loops, say.
    """
    if needs_numbers(model, profiles):
        model = with_word_inputs(model).model
    simplified = simplify.tried(model).model
    for target, profile in profiles:
        for verdict in adapter.adapted(simplified, target, profile).verdicts:
            if verdict.support is Support.UNSUPPORTED or (verdict.support is Support.UNKNOWN and profile.runs_here):
                detail = f" ({verdict.detail})" if verdict.detail else ""
                return f"{profile.name} does not take {verdict.op_type} {verdict.node!r} where they are open{detail}"
    return None


def held_sizes(profiles: Sequence[tuple[Target, Profile]]) -> AcceptedSizes:
    """Which sizes all of the devices take in a dimension."""
    if all(target.takes_free_dimensions(profile) for target, profile in profiles):
        return AcceptedSizes.ANY
    return (
        AcceptedSizes.RANGE
        if all(target.takes_open_dimensions(profile) for target, profile in profiles)
        else AcceptedSizes.ONE
    )


def require_one_size(model: Model, sampled: SampledShapes, device: AcceptedSizes) -> None:
    """Checks that samples have one size in each dimension that the model leaves free and the device has to know.

    Raises:
        InputError: Samples have several sizes in such a dimension.
    """
    for spec, axis, dim, flag in dynamic_dimensions(model):
        found = sampled.ranges.get(spec.name, ())
        if axis < len(found) and found[axis].least != found[axis].greatest:
            called = "" if dim is None else f" ({dim})"
            least, greatest = found[axis].least, found[axis].greatest
            raise InputError(
                "the samples have several sizes in a dimension that the model leaves open, and the device "
                + ("has to know which" if device is AcceptedSizes.RANGE else "holds fixed shapes"),
                subject=f"dimension {axis}{called} of input {spec.name!r}",
                expected="one size",
                found=f"{least} to {greatest} in {sampled.count} samples",
                hint=f"fix it with {flag}, and give samples of that size"
                + (
                    ", or export it with a name for the dimension: then it stays open"
                    if device is AcceptedSizes.RANGE
                    else ""
                ),
            )
