"""Batch normalization, with given statistics or those of the batch."""

from __future__ import annotations

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import HIGHEST_RANK, Unsupported, Value, computed
from edgekit_mil.support.high_ranks import around, of_shape
from edgekit_mil.support.movement import along_channels

Outputs = tuple[Var | Value, ...]


@lowering("BatchNormalization", versions=[6, 7], note="inference only")
def batch_normalization_spatial(
    ctx: Context,
    x: Value,
    scale: Value,
    b: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    is_test: int = 0,
    momentum: float = 0.9,
    spatial: int = 1,
) -> Var | Value:
    """With given statistics [C]; if ``spatial`` is 0, with separate ones for every element, [C, *D]."""
    _refuse_training_outputs(ctx)
    if ctx.version == 6 and not is_test:
        raise Unsupported("trains: is_test is 0", "export the model for inference")
    if spatial:
        return normalize_channels(x, scale, b, mean, var, epsilon)
    own = (mb.expand_dims(x=value.var, axes=[0]) for value in (scale, b, mean, var))
    return _affine(x.var, *own, epsilon=epsilon)


@lowering("BatchNormalization", versions=[9], note="inference only")
def batch_normalization_inference(
    ctx: Context,
    x: Value,
    scale: Value,
    b: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
) -> Var | Value:
    """With given statistics [C]."""
    _refuse_training_outputs(ctx)
    return normalize_channels(x, scale, b, mean, var, epsilon)


@lowering("BatchNormalization", versions=[14, 15])
def batch_normalization(
    ctx: Context,
    x: Value,
    scale: Value,
    b: Value,
    mean: Value,
    var: Value,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: int = 0,
) -> Var | Value | Outputs:
    """With given statistics [C]; in training mode with those of the batch, and the running ones as further outputs."""
    if not training_mode:
        return normalize_channels(x, scale, b, mean, var, epsilon)
    axes = [axis for axis in range(x.rank) if axis != 1]
    centre = mb.reduce_mean(x=x.var, axes=axes, keep_dims=True)
    spread = mb.reduce_mean(x=mb.square(x=mb.sub(x=x.var, y=centre)), axes=axes, keep_dims=True)
    result = _affine(x.var, along_channels(scale, x.rank), along_channels(b, x.rank), centre, spread, epsilon=epsilon)

    def running(old: Value, new: Var) -> Value:
        kept = mb.mul(x=old.var, y=momentum)
        return computed(mb.add(x=kept, y=mb.mul(x=mb.squeeze(x=new, axes=axes), y=1 - momentum)), old.dtype)

    return result, running(mean, centre), running(var, spread)


def normalize_channels(x: Value, scale: Value, b: Value, mean: Value, var: Value, epsilon: float) -> Var | Value:
    """``(x - mean) / sqrt(var + epsilon) * scale + b`` with statistics [C] along axis 1."""
    statistics = (scale, b, mean, var)
    if x.rank > HIGHEST_RANK:
        result = normalize_channels(around(x, 1), *statistics, epsilon)
        return of_shape(result if isinstance(result, Value) else computed(result, x.dtype), x.shape, x)
    if 3 <= x.rank <= 5 and all(value.is_constant for value in statistics):
        return mb.batch_norm(
            x=x.var,
            mean=mean.operand,
            variance=var.operand,
            gamma=scale.operand,
            beta=b.operand,
            epsilon=epsilon,
        )
    return _affine(x.var, *(along_channels(value, x.rank) for value in statistics), epsilon=epsilon)


def _affine(x: Var, scale: Var, b: Var, mean: Var, var: Var, *, epsilon: float) -> Var:
    deviation = mb.sqrt(x=mb.add(x=var, y=epsilon))
    return mb.add(x=mb.mul(x=mb.real_div(x=mb.sub(x=x, y=mean), y=deviation), y=scale), y=b)


def _refuse_training_outputs(ctx: Context) -> None:
    if any(ctx.output_used[1:]):
        raise Unsupported("trains: outputs beyond the first are asked for", "export the model for inference")
