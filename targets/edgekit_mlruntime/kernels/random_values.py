"""Random tensors: a seed of at least 0 yields the same values in every run; else the runner's generator is used."""

from __future__ import annotations

import numpy as np

from edgekit_mlruntime.failures import ExecutionError
from edgekit_mlruntime.program import Array
from edgekit_mlruntime.registry import Call, Ints, kernel


def _generator(call: Call, seed: int) -> np.random.Generator:
    return np.random.default_rng(seed) if seed >= 0 else call.context.random


@kernel("random_bernoulli")
def random_bernoulli(call: Call, shape: Ints, prob: float = 0.5, seed: int = -1) -> Array:
    """1 with probability ``prob``, else 0."""
    return _generator(call, seed).random(shape) < prob


@kernel("random_normal")
def random_normal(call: Call, shape: Ints, mean: float = 0.0, stddev: float = 1.0, seed: int = -1) -> Array:
    """Normal distribution."""
    return _generator(call, seed).normal(mean, stddev, shape)


@kernel("random_uniform")
def random_uniform(call: Call, shape: Ints, low: float = 0.0, high: float = 1.0, seed: int = -1) -> Array:
    """Uniform distribution over ``[low, high)``."""
    return _generator(call, seed).uniform(low, high, shape)


@kernel("random_categorical")
def random_categorical(call: Call, x: Array, mode: str = "logits", size: int = 1, seed: int = -1) -> Array:
    """``size`` indices drawn, with replacement, from each distribution along the last axis of ``x``."""
    if mode not in ("logits", "probs"):
        raise ExecutionError("unknown mode", operation=call.name, expected="logits or probs", found=mode)
    wide = x.astype(np.float64)
    weights = wide if mode == "probs" else np.exp(wide - wide.max(axis=-1, keepdims=True))
    bounds = np.cumsum(weights, axis=-1)
    draws = _generator(call, seed).random((*x.shape[:-1], size)) * bounds[..., -1:]
    # The index is the number of categories whose cumulative weight is at most the draw.
    index: Array = np.sum(bounds[..., None, :] <= draws[..., None], axis=-1)
    return index
