from __future__ import annotations

import numpy as np
import pytest

from edgekit.errors import UnsupportedOpsError

DOMAIN = "com.microsoft"
BATCH, STEPS, HEADS, SIZE = 2, 4, 2, 8
WIDTH = HEADS * SIZE


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


def mask(kind):
    zeros_and_ones = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
    return {
        None: None,
        "lengths": np.array([3, 2], np.int32),
        "ends and beginnings": np.array([3, 4, 1, 0], np.int32),
        "keys": zeros_and_ones,
        "keys after padding": zeros_and_ones[:, ::-1].copy(),
        "pairs": np.repeat(zeros_and_ones[:, None], STEPS, axis=1),
    }[kind]


@pytest.mark.parametrize("kind", [None, "lengths", "ends and beginnings", "keys", "keys after padding", "pairs"])
@pytest.mark.parametrize("unidirectional", [0, 1])
def test_attention_agrees(agrees, rng, kind, unidirectional):
    inputs = [normal(rng, BATCH, STEPS, 5), normal(rng, 5, 3 * WIDTH), normal(rng, 3 * WIDTH), mask(kind)]
    attributes = {"num_heads": HEADS, "unidirectional": unidirectional}
    agrees("Attention", inputs, domain=DOMAIN, atol=1e-4, **attributes)


def test_keys_may_be_hidden_by_minus_infinity(agrees, rng):
    inputs = [normal(rng, BATCH, STEPS, 5), normal(rng, 5, 3 * WIDTH), normal(rng, 3 * WIDTH), mask("lengths")]
    agrees("Attention", inputs, domain=DOMAIN, num_heads=HEADS, mask_filter_value=-np.inf, atol=1e-4)


def test_attention_with_a_past_agrees(agrees, rng):
    inputs = [
        *(normal(rng, BATCH, STEPS, 5), normal(rng, 5, 3 * WIDTH), normal(rng, 3 * WIDTH), None),
        normal(rng, 2, BATCH, HEADS, 3, SIZE),
    ]
    outputs = ("float32", "float32")
    agrees(
        "Attention", inputs, fed=(0, 4), outputs=outputs, domain=DOMAIN, num_heads=HEADS, unidirectional=1, atol=1e-4
    )


def test_values_may_be_of_another_size(agrees, rng):
    sizes = [WIDTH, WIDTH, 2 * WIDTH]
    inputs = [normal(rng, BATCH, STEPS, 5), normal(rng, 5, sum(sizes)), normal(rng, sum(sizes))]
    agrees("Attention", inputs, domain=DOMAIN, num_heads=HEADS, qkv_hidden_sizes=sizes, atol=1e-4)


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("kind", [None, "lengths", "keys"])
def test_multi_head_attention_agrees(agrees, rng, kind, biased):
    inputs = [
        *(normal(rng, BATCH, 3, WIDTH), normal(rng, BATCH, STEPS, WIDTH), normal(rng, BATCH, STEPS, WIDTH)),
        normal(rng, 3 * WIDTH) if biased else None,
        mask(kind),
        normal(rng, 1, HEADS, 3, STEPS),
    ]
    agrees("MultiHeadAttention", inputs, fed=(0, 1, 2), domain=DOMAIN, num_heads=HEADS, atol=1e-4)


def test_queries_that_see_masked_keys_alone_do_not_see_later_keys(agrees, rng):
    """ONNX Runtime hides later keys by the least float32, and masked keys by -10,000."""
    inputs = [*(normal(rng, BATCH, STEPS, WIDTH) for _ in range(3)), None, mask("keys after padding")]
    agrees("MultiHeadAttention", inputs, fed=(0, 1, 2), domain=DOMAIN, num_heads=HEADS, unidirectional=1, atol=1e-4)


def test_multi_head_attention_with_a_past_agrees(agrees, rng):
    inputs = [
        *(normal(rng, BATCH, 1, WIDTH) for _ in range(3)),
        *(None, None, None),
        *(normal(rng, BATCH, HEADS, 3, SIZE) for _ in range(2)),
    ]
    outputs = ("float32",) * 3
    agrees(
        "MultiHeadAttention", inputs, fed=(0, 1, 2, 6, 7), outputs=outputs, domain=DOMAIN, num_heads=HEADS, atol=1e-4
    )


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("positions", ["first", "each"])
@pytest.mark.parametrize("rank", [3, 4])
def test_rotary_embedding_agrees(agrees, rng, rank, positions, interleaved):
    x = normal(rng, BATCH, STEPS, WIDTH) if rank == 3 else normal(rng, BATCH, HEADS, STEPS, SIZE)
    ids = np.array([2]) if positions == "first" else rng.integers(0, 9, (BATCH, STEPS))
    angles = rng.random((10, SIZE // 2), np.float32)
    inputs = [x, ids, np.cos(angles), np.sin(angles)]
    agrees("RotaryEmbedding", inputs, fed=(0, 1), domain=DOMAIN, interleaved=interleaved)


@pytest.mark.parametrize("kind", [None, "keys"])
@pytest.mark.parametrize("per_column", [False, True])
def test_attention_of_integers_agrees(agrees, rng, kind, per_column):
    scales = rng.uniform(0.01, 0.02, 3 * WIDTH if per_column else ()).astype(np.float32)
    inputs = [
        rng.integers(0, 256, (BATCH, STEPS, 5), np.uint8),
        rng.integers(-128, 128, (5, 3 * WIDTH), np.int8),
        normal(rng, 3 * WIDTH),
        np.float32(0.021),
        scales,
        mask(kind),
        np.uint8(120),
        np.zeros(scales.shape, np.int8),
    ]
    agrees("QAttention", inputs, domain=DOMAIN, num_heads=HEADS, unidirectional=1, atol=1e-4, rtol=1e-4)


def test_a_past_that_is_written_into_is_refused(lower, rng):
    q, k, v = (normal(rng, BATCH, 1, WIDTH) for _ in range(3))
    past = [normal(rng, BATCH, HEADS, STEPS, SIZE) for _ in range(2)]
    inputs = [q, k, v, None, None, None, *past, np.array([2], np.int32)]
    with pytest.raises(UnsupportedOpsError, match=r"keys and values into those of the past \(past_sequence_length"):
        lower("MultiHeadAttention", inputs, domain=DOMAIN, num_heads=HEADS)
