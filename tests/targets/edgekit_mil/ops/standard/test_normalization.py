from __future__ import annotations

import numpy as np
import pytest


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 3, 5, 4), (1, 2, 3, 4, 5)])
def test_instance_normalization_agrees(agrees, rng, shape, fed):
    inputs = [normal(rng, *shape), normal(rng, shape[1]), normal(rng, shape[1])]
    agrees("InstanceNormalization", inputs, fed=fed, opset=21, epsilon=1e-2)


@pytest.mark.parametrize(("opset", "parameters"), [(18, 2), (21, 6)])
@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
def test_group_normalization_agrees(agrees, rng, opset, parameters, fed):
    inputs = [normal(rng, 2, 6, 3, 4), normal(rng, parameters), normal(rng, parameters)]
    agrees("GroupNormalization", inputs, fed=fed, opset=opset, num_groups=2, against="reference")


@pytest.mark.parametrize("fed", [(0,), (0, 1, 2)])
@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_layer_normalization_agrees(agrees, rng, axis, fed):
    shape = (3, 4, 5)
    inputs = [normal(rng, *shape), normal(rng, *shape[axis:]), normal(rng, *shape[axis:])]
    agrees("LayerNormalization", inputs, fed=fed, axis=axis, outputs=("float32",) * 3, atol=1e-4)


@pytest.mark.parametrize("scale", [(5,), (1, 5), (4, 1), (1, 4, 5), (3, 1, 1)])
def test_scales_of_a_layer_broadcast(agrees, rng, scale):
    agrees("LayerNormalization", [normal(rng, 3, 4, 5), normal(rng, *scale)], axis=1, against="reference")


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization_agrees(agrees, rng, axis):
    shape = (3, 4, 5)
    inputs = [normal(rng, *shape), normal(rng, *shape[axis:])]
    agrees("RMSNormalization", inputs, opset=23, axis=axis, epsilon=1e-2, against="reference")


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, -1])
def test_lp_normalization_agrees(agrees, rng, axis, p):
    x = normal(rng, 3, 4)
    x[1], x[:, 1] = 0, 0
    agrees("LpNormalization", [x], opset=21, axis=axis, p=p)


@pytest.mark.parametrize("size", [1, 3, 9])
@pytest.mark.parametrize("shape", [(2, 6, 3, 4), (1, 4, 5, 1)])
def test_lrn_agrees(agrees, rng, shape, size):
    agrees("LRN", [normal(rng, *shape)], size=size, alpha=0.3, beta=0.6, bias=1.5)


def test_more_channels_lie_behind_in_an_even_lrn(lower, rng):
    x = np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1)
    (actual,) = lower("LRN", [x], size=2, alpha=2.0, beta=1.0, bias=0.0)
    np.testing.assert_allclose(actual.ravel(), [1 / 5, 2 / 13, 3 / 25, 4 / 16], rtol=1e-6)


@pytest.mark.parametrize("axes", [[0, 2, 3], [1], [-1, -2]])
def test_mean_variance_normalization_agrees(agrees, rng, axes):
    agrees("MeanVarianceNormalization", [normal(rng, 2, 3, 4, 5)], axes=axes, against="reference", atol=1e-4)
