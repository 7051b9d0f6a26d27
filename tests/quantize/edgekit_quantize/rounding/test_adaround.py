from __future__ import annotations

import itertools

import numpy as np

from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights
from edgekit_quantize.rounding.adaround import adaptive_rounding


def _loss(integers: np.ndarray, weights: np.ndarray, scale: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    error = integers * scale[:, None] - weights
    return np.einsum("ni,ij,nj->n", error, covariance, error)


def test_it_closes_most_of_the_gap_to_the_best_of_all_directions(rng: np.random.Generator) -> None:
    inputs = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 6))
    covariance = np.cov(inputs.T)
    weights = rng.normal(size=(8, 6)).astype(np.float32)
    params = symmetric_weights(weights, TYPES["int4"], 0)

    chosen = adaptive_rounding(weights, params, covariance)

    floor = np.floor(weights / params.scale[:, None])
    every = [floor + np.array(ups) for ups in itertools.product((0, 1), repeat=6)]
    inside = [np.where(np.abs(option) <= 7, option, np.nan) for option in every]
    best = np.nanmin([_loss(option, weights, params.scale, covariance) for option in inside], axis=0)
    nearest = _loss(params.quantize(weights), weights, params.scale, covariance)
    found = _loss(chosen, weights, params.scale, covariance)
    assert np.isin(chosen - floor, (0, 1)).all()
    assert (found <= nearest * 1.001).all()
    assert (found - best).sum() < 0.5 * (nearest - best).sum()


def test_independent_inputs_are_rounded_to_nearest(rng: np.random.Generator) -> None:
    weights = rng.normal(size=(4, 5)).astype(np.float32)
    params = symmetric_weights(weights, TYPES["int8"], 0)

    np.testing.assert_array_equal(adaptive_rounding(weights, params, np.eye(5)), params.quantize(weights))


def test_two_equal_inputs_share_their_error() -> None:
    weights = np.array([[127.0, 10.4, 10.4]], np.float32)  # the scale is 1; both 0.4 would be lost

    chosen = adaptive_rounding(
        weights, symmetric_weights(weights, TYPES["int8"], 0), np.array([[1.0, 0, 0], [0, 1.0, 1.0], [0, 1.0, 1.0]])
    )

    assert sorted(chosen[0].tolist()) == [10, 11, 127]


def test_no_other_direction_of_a_single_weight_is_better(rng: np.random.Generator) -> None:
    """Whichever flips came before: inputs are much like each other, so that each one changes what the others gain."""
    inputs = rng.normal(size=(400, 3)) @ rng.normal(size=(3, 24)) + 0.1 * rng.normal(size=(400, 24))
    moments = inputs.T @ inputs / len(inputs)
    weights = rng.normal(size=(16, 24)).astype(np.float32)
    params = symmetric_weights(weights, TYPES["int8"], 0)

    chosen = adaptive_rounding(weights, params, moments).astype(int)

    exact = weights / params.scale[:, None]
    damped = moments + 1e-3 * np.mean(np.diag(moments)) * np.eye(24)
    found = _loss(chosen, weights, params.scale, damped)
    assert np.mean(chosen != np.rint(exact)) > 0.05
    for place in range(24):
        other = chosen.copy()
        other[:, place] = np.floor(exact[:, place]) + np.ceil(exact[:, place]) - chosen[:, place]
        allowed = np.abs(other[:, place]) <= 127
        assert (_loss(other, weights, params.scale, damped)[allowed] >= found[allowed] * (1 - 1e-5)).all()


def test_weights_that_integers_stand_for_exactly_stay() -> None:
    """Though 11 in place of 10 would take off all of the error, at an input that is 0.6 of the others."""
    weights = np.array([[127.0, 10.0, 10.3, 10.3]], np.float32)  # the scale is 1
    inputs = np.array([1.0, 0.6, 1.0, 1.0])

    chosen = adaptive_rounding(weights, symmetric_weights(weights, TYPES["int8"], 0), np.outer(inputs, inputs))

    assert chosen[0, :2].tolist() == [127, 10]
    assert sorted(chosen[0, 2:].tolist()) == [10, 11]


def test_the_largest_integer_may_be_reached() -> None:
    """127 + 126.4 + 126.4 steps are 380 in the sum of equal inputs: one of the latter two becomes 127."""
    weights = np.array([[12.7, 12.64, 12.64]], np.float32)

    chosen = adaptive_rounding(weights, symmetric_weights(weights, TYPES["int8"], 0), np.ones((3, 3)))

    assert sorted(chosen[0].tolist()) == [126, 127, 127]
