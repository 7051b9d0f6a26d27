"""Pooling over regions of interest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from edgekit_mil.core.context import Context
from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.registry import lowering
from edgekit_mil.core.values import Unsupported, Value
from edgekit_mil.support.bounds import bounded
from edgekit_mil.support.point_sampling import Neighbours, elements_at, flat_neighbours
from edgekit_mil.support.runtime_shapes import is_number

LOWEST = float(np.finfo(np.float32).min)
FIRST_HALF_PIXEL = 16
"""From this schema version on the default is ``half_pixel``: pixels are squares with centers at 0.5, 1.5 and so on."""


@lowering("RoiAlign", versions=[10, 16, 22], note="mode max with a sampling_ratio alone")
def roi_align(
    ctx: Context,
    x: Value,
    rois: Value,
    batch_indices: Value,
    *,
    coordinate_transformation_mode: str | None = None,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Var:
    """The mean or maximum of samples in each bin of regions of x [n, C, H, W]: [R, C, bins, bins].

    ``rois`` are [R, 4]: left, top, right, bottom. If sampling_ratio is 0, a bin has as many samples as elements along
    each axis, rounded up.
    """
    if sampling_ratio < 1 and mode != "avg":
        raise Unsupported("the number of samples depends on the size of the region", "export with sampling_ratio=2")
    half_pixel = coordinate_transformation_mode == "half_pixel"
    if coordinate_transformation_mode is None:
        half_pixel = ctx.version >= FIRST_HALF_PIXEL
    sizes = x.static_sizes([2, 3])
    edges = mb.mul(x=rois.var, y=np.float32(spatial_scale))
    if half_pixel:
        edges = mb.sub(x=edges, y=np.float32(0.5))
    left, top, right, bottom = mb.split(x=edges, num_splits=4, axis=1)
    axes: list[Neighbours] = []
    tables = []
    for begin, end, bins, size in ((top, bottom, output_height, sizes[0]), (left, right, output_width, sizes[1])):
        extent = mb.sub(x=end, y=begin)
        if not half_pixel:
            extent = mb.maximum(x=extent, y=1.0)
        if sampling_ratio < 1:
            tables.append(_adaptive_mean_table(begin, extent, bins, size))
            continue
        shares = (np.arange(bins * sampling_ratio, dtype=np.float32) + np.float32(0.5)) / (bins * sampling_ratio)
        places = mb.add(x=begin, y=mb.mul(x=extent, y=shares.reshape(1, -1).astype(np.float32)))
        axes.append(_bordering(places, size))
    images = _images_of(x, batch_indices)
    if mode == "avg":
        tables += [_mean_table(axis, size, sampling_ratio) for axis, size in zip(axes, sizes, strict=False)]
        return mb.matmul(x=mb.matmul(x=tables[0], y=images), y=tables[1], transpose_y=True)
    if mode != "max":
        raise Unsupported(f"unknown mode {mode!r}")
    rois.static_sizes([0])  # required: images are repeated once for each region
    return _largest_sample(images, axes, (output_height, output_width), sampling_ratio)


@lowering("MaxRoiPool", versions=[1, 22])
def max_roi_pool(
    ctx: Context, x: Value, rois: Value, *, pooled_shape: Sequence[int], spatial_scale: float = 1.0
) -> Var:
    """The maximum of each bin of whole elements in regions of x [n, C, H, W]: [R, C, *bins].

    ``rois`` are [R, 5]: index of the image, left, top, right, bottom.
    """
    images, *edges = mb.split(x=rois.var, num_splits=5, axis=1)
    left, top, right, bottom = (_rounded(mb.mul(x=edge, y=np.float32(spatial_scale))) for edge in edges)
    data = mb.gather(x=x.var, indices=mb.cast(x=mb.squeeze(x=images, axes=[1]), dtype="int32"), axis=0)
    height, width = x.static_sizes([2, 3])
    rows = _bin_members(top, bottom, pooled_shape[0], height)
    columns = _bin_members(left, right, pooled_shape[1], width)
    by_row = [
        mb.reduce_max(x=_where(mb.expand_dims(x=inside, axes=[1, 3]), data), axes=[2], keep_dims=True)
        for inside in rows
    ]
    strips = by_row[0] if len(by_row) == 1 else mb.concat(values=by_row, axis=2)
    by_column = [
        mb.reduce_max(x=_where(mb.expand_dims(x=inside, axes=[1, 2]), strips), axes=[3], keep_dims=True)
        for inside in columns
    ]
    largest = by_column[0] if len(by_column) == 1 else mb.concat(values=by_column, axis=3)
    return mb.select(cond=mb.greater(x=largest, y=LOWEST), a=largest, b=0.0)


def _where(inside: Var, data: Var) -> Var:
    """The data where ``inside`` holds, float32's least number elsewhere."""
    return mb.select(cond=inside, a=data, b=LOWEST)


def _bin_members(begin: Var, end: Var, bins: int, size: int) -> list[Var]:
    """For every bin, which of ``size`` elements are in it: [R, size]; regions include ``begin`` and ``end`` [R, 1]."""
    extent = mb.maximum(x=mb.add(x=mb.sub(x=end, y=begin), y=1.0), y=1.0)
    length = mb.real_div(x=extent, y=np.float32(bins))
    places = np.arange(size, dtype=np.float32).reshape(1, size)
    members = []
    for number in range(bins):
        first = mb.add(x=mb.floor(x=mb.mul(x=length, y=np.float32(number))), y=begin)
        after = mb.add(x=mb.ceil(x=mb.mul(x=length, y=np.float32(number + 1))), y=begin)
        members.append(mb.logical_and(x=mb.less_equal(x=first, y=places), y=mb.greater(x=after, y=places)))
    return members


def _rounded(x: Var) -> Var:
    """The nearest whole number, halves away from 0."""
    return mb.mul(x=mb.sign(x=x), y=mb.floor(x=mb.add(x=mb.abs(x=x), y=0.5)))


def _images_of(x: Value, batch_indices: Value) -> Var:
    """Each region's image [R, C, H, W], or the only one."""
    if x.shape[0] == 1:
        return x.var
    return mb.gather(x=x.var, indices=batch_indices.var, axis=0)


def _mean_table(axis: Neighbours, size: int, samples: int) -> Var:
    """Weights [R, 1, bins, size] of an axis's elements in each bin's mean."""
    wanted = np.arange(size, dtype=np.int32)
    chosen = mb.cast(x=mb.equal(x=mb.expand_dims(x=axis.places, axes=[3]), y=wanted), dtype="fp32")
    table = mb.reduce_sum(x=mb.mul(x=chosen, y=mb.expand_dims(x=axis.weights, axes=[3])), axes=[1], keep_dims=False)
    regions, count, _ = table.shape
    grouped = mb.reshape(x=table, shape=[regions if is_number(regions) else -1, count // samples, samples, size])
    return mb.expand_dims(x=mb.reduce_mean(x=grouped, axes=[2], keep_dims=False), axes=[1])


def _adaptive_mean_table(begin: Var, extent: Var, bins: int, size: int) -> Var:
    """Weights [R, 1, bins, size] of an axis's elements in each bin's mean, with a sample for each element, rounded up.

    The samples of a bin are evenly spaced, so the number of samples before an element and the sum of their places are
    computed without a list of samples. Regions without an extent have no samples, and weights of zero.
    """
    length = mb.real_div(x=extent, y=np.float32(bins))
    count = mb.expand_dims(x=mb.maximum(x=mb.ceil(x=length), y=0.0), axes=[2])
    divisor = mb.maximum(x=count, y=1.0)
    step = mb.real_div(x=mb.expand_dims(x=length, axes=[2]), y=divisor)
    starts = mb.add(x=begin, y=mb.mul(x=length, y=np.arange(bins, dtype=np.float32).reshape(1, -1)))
    start = mb.expand_dims(x=starts, axes=[2])
    borders = np.arange(-1, size + 1, dtype=np.float32).reshape(1, 1, -1)
    apart = mb.select(cond=mb.greater(x=step, y=0.0), a=step, b=1.0)
    number = mb.sub(x=mb.real_div(x=mb.sub(x=borders, y=start), y=apart), y=0.5)
    up_to_last = mb.add(x=mb.floor(x=_part(number, size + 1, 1)), y=1.0)  # a place right on the last border counts
    found = mb.concat(values=[mb.ceil(x=_part(number, 0, size + 1)), up_to_last], axis=2)
    before = mb.minimum(x=mb.maximum(x=found, y=0.0), y=count)
    half = mb.mul(x=mb.mul(x=before, y=before), y=0.5)
    sums = mb.add(x=mb.mul(x=start, y=before), y=mb.mul(x=step, y=half))
    counts, places = _differences(before, size + 1), _differences(sums, size + 1)
    inner = np.arange(size - 1, dtype=np.float32).reshape(1, 1, -1)
    counted, placed = _part(counts, 1, size - 1), _part(places, 1, size - 1)
    above = mb.sub(x=placed, y=mb.mul(x=counted, y=inner))
    below = mb.sub(x=mb.mul(x=counted, y=inner + np.float32(1)), y=placed)
    from_above = mb.concat(values=[_part(counts, 0, 1), above], axis=2)
    from_below = mb.concat(values=[below, _part(counts, size, 1)], axis=2)
    return mb.expand_dims(x=mb.real_div(x=mb.add(x=from_above, y=from_below), y=divisor), axes=[1])


def _differences(x: Var, count: int) -> Var:
    """Differences between neighboring numbers along the last axis."""
    return mb.sub(x=_part(x, 1, count), y=_part(x, 0, count))


def _part(x: Var, first: int, count: int) -> Var:
    """``count`` numbers from ``first`` on along the last of three axes."""
    return mb.slice_by_index(
        x=x,
        begin=[0, 0, first],
        end=[0, 0, first + count],
        begin_mask=[True, True, False],
        end_mask=[True, True, False],
    )


def _largest_sample(images: Var, axes: Sequence[Neighbours], bins: Sequence[int], samples: int) -> Var:
    """The greatest product of an element and its weight in each bin, as the specification defines maximum mode."""
    channels, *spatial = images.shape[1:]
    rows, columns = axes
    counts = [axis.places.shape[2] for axis in axes]
    spread = [
        Neighbours(_spread(rows.places, counts[1], last=True), _spread(rows.weights, counts[1], last=True)),
        Neighbours(_spread(columns.places, counts[0], last=False), _spread(columns.weights, counts[0], last=False)),
    ]
    flat = flat_neighbours(spread, spatial)
    regions = flat.places.shape[0]
    taps, points = flat.places.shape[1:]
    if images.shape[0] == 1 and regions > 1:
        images = mb.tile(x=images, reps=[regions, 1, 1, 1])
    values = mb.reshape(x=elements_at(images, flat.places), shape=[regions, channels, taps, points])
    products = mb.mul(x=values, y=mb.expand_dims(x=flat.weights, axes=[1]))
    best = mb.reduce_max(x=products, axes=[2], keep_dims=False)
    apart = mb.reshape(x=best, shape=[regions * channels, bins[0], samples, bins[1] * samples])
    cells = mb.reshape(
        x=mb.reduce_max(x=apart, axes=[2], keep_dims=False), shape=[regions * channels, bins[0], bins[1], samples]
    )
    largest = mb.reduce_max(x=cells, axes=[3], keep_dims=False)
    return mb.reshape(x=largest, shape=[regions, channels, *bins])


def _bordering(places: Var, size: int) -> Neighbours:
    """The two elements around each of the positions [R, P], with weights of 0 if it is over one element outside."""
    inside = mb.logical_and(x=mb.greater_equal(x=places, y=-1.0), y=mb.less_equal(x=places, y=float(size)))
    near = bounded(places, 0.0, size - 1)
    base = mb.floor(x=near)
    offset = mb.sub(x=near, y=base)
    weights = mb.stack(values=[mb.sub(x=1.0, y=offset), offset], axis=1)
    after = mb.minimum(x=mb.add(x=base, y=1.0), y=float(size - 1))
    elements = mb.cast(x=mb.stack(values=[base, after], axis=1), dtype="int32")
    weighed = mb.mul(x=weights, y=mb.expand_dims(x=mb.cast(x=inside, dtype="fp32"), axes=[1]))
    return Neighbours(elements, weighed)


def _spread(x: Var, count: int, *, last: bool) -> Var:
    """Repeats numbers [R, T, P] for every position of the other axis: [R, T, P * count]."""
    regions, taps, places = x.shape
    axis = 3 if last else 2
    reps = [1, 1, 1, count] if last else [1, 1, count, 1]
    tiled = mb.tile(x=mb.expand_dims(x=x, axes=[axis]), reps=reps)
    return mb.reshape(x=tiled, shape=[regions, taps, places * count])
