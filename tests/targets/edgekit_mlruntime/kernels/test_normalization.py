from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_batch_norm_agrees_with_torch(run_op, rng, rank):
    x, mean, gamma, beta = normal(rng, 2, 3, *[4] * rank), *(normal(rng, 3) for _ in range(3))
    variance = rng.uniform(0.1, 2, 3).astype(np.float32)
    inputs = {"x": x, "mean": mean, "variance": variance}
    tensors = [torch.tensor(value) for value in (x, mean, variance)]
    close(run_op("batch_norm", **inputs), functional.batch_norm(*tensors))
    expected = functional.batch_norm(*tensors, torch.tensor(gamma), torch.tensor(beta), eps=0.1)
    close(run_op("batch_norm", **inputs, gamma=gamma, beta=beta, epsilon=0.1), expected)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_instance_norm_agrees_with_torch(run_op, rng, rank):
    x, gamma, beta = normal(rng, 2, 3, *[4] * rank), normal(rng, 3), normal(rng, 3)
    close(run_op("instance_norm", x=x), functional.instance_norm(torch.tensor(x)))
    expected = functional.instance_norm(torch.tensor(x), None, None, torch.tensor(gamma), torch.tensor(beta), eps=0.1)
    close(run_op("instance_norm", x=x, gamma=gamma, beta=beta, epsilon=0.1), expected)


def test_layer_norm_agrees_with_torch(run_op, rng):
    x, gamma, beta = normal(rng, 2, 3, 4, 5), normal(rng, 4, 5), normal(rng, 4, 5)
    close(run_op("layer_norm", x=x), functional.layer_norm(torch.tensor(x), x.shape))
    expected = functional.layer_norm(torch.tensor(x), (4, 5), torch.tensor(gamma), torch.tensor(beta), 0.1)
    close(run_op("layer_norm", x=x, axes=[2, 3], gamma=gamma, beta=beta, epsilon=0.1), expected)
    close(run_op("layer_norm", x=x, axes=[-2, -1], gamma=gamma, beta=beta, epsilon=0.1), expected)


def test_layer_norm_over_an_inner_axis(run_op, rng):
    x, gamma = normal(rng, 2, 3, 4), normal(rng, 3)
    moved = functional.layer_norm(torch.tensor(x).movedim(1, -1), (3,), torch.tensor(gamma))
    close(run_op("layer_norm", x=x, axes=[1], gamma=gamma), moved.movedim(-1, 1))


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_l2_norm_divides_by_the_length_of_the_last_three_axes(run_op, rng, lead):
    x = normal(rng, *lead, 2, 3, 4)
    lengths = np.sqrt(np.linalg.norm(x.reshape(*lead, -1), axis=-1) ** 2 + 0.5)
    close(run_op("l2_norm", x=x, epsilon=0.5), x / lengths[..., None, None, None])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 9])
@pytest.mark.parametrize("rank", [1, 2])
def test_local_response_norm_agrees_with_torch(run_op, rng, size, rank):
    x = normal(rng, 2, 6, *[3] * rank) * 5
    expected = functional.local_response_norm(torch.tensor(x), size, alpha=0.3, beta=0.6, k=1.5)
    close(run_op("local_response_norm", x=x, size=size, alpha=0.3, beta=0.6, k=1.5), expected)


def test_local_response_norm_keeps_small_channels_beside_large_ones(run_op):
    x = np.array([1e4, 1e4, 1e-3, 1e-3, 1e-3], np.float32).reshape(1, 5, 1)
    expected = functional.local_response_norm(torch.tensor(x, dtype=torch.float64), 3, alpha=1.0, beta=1.0, k=1e-6)
    actual = run_op("local_response_norm", x=x, size=3, alpha=1.0, beta=1.0, k=1e-6)
    np.testing.assert_allclose(actual, expected, rtol=1e-4)
