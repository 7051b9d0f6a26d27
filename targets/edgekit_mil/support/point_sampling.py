"""Reads tensors at positions between their elements, as weighted sums of neighboring elements.

Formulas are those of the ONNX specification of GridSample. This computes what Core ML's ``resample`` cannot do: any
number of dimensions, cubic kernels, and roundings that its documentation leaves open.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from edgekit_mil.core.mil import Var, mb
from edgekit_mil.core.values import Unsupported
from edgekit_mil.support.bounds import bounded
from edgekit_mil.support.runtime_shapes import or_rest

CUBIC_COEFFICIENT = -0.75
"""Keys' coefficient that GridSample prescribes."""
MARGIN = 4
"""Positions farther than this outside an axis are not next to any element, whatever the kernel."""


@dataclass(frozen=True)
class Neighbours:
    """The elements along one axis from which each of P samples is computed: T elements for a sample."""

    places: Var
    """Indices of the elements: [n, T, P] int32, all inside the axis."""
    weights: Var
    """Weights of the elements: [n, T, P] float32."""


@dataclass(frozen=True)
class OutsideValues:
    """How values continue outside an axis."""

    size: int
    padding: str
    """``zeros``, ``border`` or ``reflection``."""
    reflects_at_centres: bool = False
    """Whether reflection is at the centers of the outermost elements, or at their outer edges."""

    def brought_inside(self, places: Var) -> Var:
        """Returns positions inside the axis with the same value; with padding ``zeros`` they may stay outside.

        Raises:
            Unsupported: There is no such padding.
        """
        if self.padding == "zeros":
            return mb.clip(x=places, alpha=float(-MARGIN), beta=float(self.size + MARGIN))
        if self.padding == "border":
            return bounded(places, 0.0, self.size - 1)
        if self.padding != "reflection":
            raise Unsupported(f"unknown padding_mode {self.padding!r}")
        low, high = (0.0, self.size - 1.0) if self.reflects_at_centres else (-0.5, self.size - 0.5)
        if low == high:
            return mb.mul(x=places, y=0.0)
        period = 2 * (high - low)
        phase = mb.mod(x=mb.sub(x=places, y=np.float32(low)), y=np.float32(period))
        return mb.add(x=mb.minimum(x=phase, y=mb.sub(x=np.float32(period), y=phase)), y=np.float32(low))

    def elements(self, places: Var, weights: Var) -> Neighbours:
        """Returns whole positions [n, T, P] as neighbors; one that is outside is brought inside, or its weight is 0."""
        if self.padding == "zeros":
            inside = mb.logical_and(
                x=mb.greater_equal(x=places, y=0.0), y=mb.less_equal(x=places, y=float(self.size - 1))
            )
            weights = mb.mul(x=weights, y=mb.cast(x=inside, dtype="fp32"))
        else:
            places = self.brought_inside(places)
        near = bounded(mb.round(x=places), 0.0, self.size - 1)
        return Neighbours(mb.cast(x=near, dtype="int32"), weights)


def nearest(places: Var, around: OutsideValues) -> Neighbours:
    """The element nearest to each of the positions [n, P]; halfway between two elements, the one with an even index."""
    whole = mb.expand_dims(x=around.brought_inside(mb.round(x=places)), axes=[1])
    return around.elements(whole, mb.fill_like(ref_tensor=whole, value=1.0))


def linear(places: Var, around: OutsideValues) -> Neighbours:
    """The two elements around each of the places [n, P]."""
    base, offset = _split(around.brought_inside(places))
    weights = mb.concat(values=[mb.sub(x=1.0, y=offset), offset], axis=1)
    return around.elements(_beside(base, 0, 2), weights)


def cubic(places: Var, around: OutsideValues) -> Neighbours:
    """The four elements around each of the places [n, P], weighed by Keys' cubic convolution (1981)."""
    base, offset = _split(around.brought_inside(places))
    rest = mb.sub(x=1.0, y=offset)
    distances = [mb.add(x=offset, y=1.0), offset, rest, mb.add(x=rest, y=1.0)]
    a = CUBIC_COEFFICIENT
    far, near = (a, -5 * a, 8 * a, -4 * a), (a + 2, -a - 3, 0.0, 1.0)
    weights = [_polynomial(x, terms) for x, terms in zip(distances, (far, near, near, far), strict=True)]
    return around.elements(_beside(base, -1, 4), mb.concat(values=weights, axis=1))


def sampled(x: Var, axes: Sequence[Neighbours]) -> Var:
    """The samples [n, C, P] of a tensor [n, C, *D], interpolated along each of its spatial axes; n may be open."""
    size, channels, *spatial = x.shape
    flat = flat_neighbours(axes, spatial)
    values = mb.reshape(x=elements_at(x, flat.places), shape=[or_rest(size), channels, *flat.places.shape[1:]])
    weighed = mb.mul(x=values, y=mb.expand_dims(x=flat.weights, axes=[1]))
    return mb.reduce_sum(x=weighed, axes=[2], keep_dims=False)


def elements_at(x: Var, places: Var) -> Var:
    """The elements [n, C, T * P] of a tensor [n, C, *D] at indices [n, T, P] into its flattened D."""
    size, channels, *spatial = x.shape
    count = math.prod(places.shape[1:])
    flat = mb.reshape(x=x, shape=[or_rest(size), channels, math.prod(spatial)])
    if size == 1:
        return mb.gather(x=flat, indices=mb.reshape(x=places, shape=[count]), axis=2)
    everywhere = mb.tile(x=mb.reshape(x=places, shape=[or_rest(size), 1, count]), reps=[1, channels, 1])
    return mb.gather_along_axis(x=flat, indices=everywhere, axis=2)


def flat_neighbours(axes: Sequence[Neighbours], spatial: Sequence[int]) -> Neighbours:
    """Returns all combinations of neighbors along the axes, as indices into the flattened tensor."""
    place, weight = axes[0].places, axes[0].weights
    for neighbours, size in zip(axes[1:], spatial[1:], strict=True):
        count = place.shape[1] * neighbours.places.shape[1]
        shape = [or_rest(place.shape[0]), count, place.shape[2]]
        before = mb.expand_dims(x=mb.mul(x=place, y=np.int32(size)), axes=[2])
        places = mb.add(x=before, y=mb.expand_dims(x=neighbours.places, axes=[1]))
        weights = mb.mul(x=mb.expand_dims(x=weight, axes=[2]), y=mb.expand_dims(x=neighbours.weights, axes=[1]))
        place, weight = mb.reshape(x=places, shape=shape), mb.reshape(x=weights, shape=shape)
    return Neighbours(place, weight)


def _split(places: Var) -> tuple[Var, Var]:
    """Splits positions [n, P] into the element before each and the distance to it, both [n, 1, P]."""
    places = mb.expand_dims(x=places, axes=[1])
    base = mb.floor(x=places)
    return base, mb.sub(x=places, y=base)


def _beside(base: Var, first: int, count: int) -> Var:
    """Returns ``count`` successive positions [n, count, P] that begin ``first`` elements after each of [n, 1, P]."""
    steps = np.arange(first, first + count, dtype=np.float32).reshape(1, count, 1)
    return mb.add(x=base, y=steps)


def _polynomial(x: Var, coefficients: Sequence[float]) -> Var:
    """A polynomial, its highest coefficient first, by Horner's scheme."""
    leading, *others = coefficients
    result = mb.mul(x=x, y=np.float32(leading))
    for coefficient in others[:-1]:
        result = mb.mul(x=mb.add(x=result, y=np.float32(coefficient)), y=x)
    return mb.add(x=result, y=np.float32(others[-1]))
