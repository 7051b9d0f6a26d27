from __future__ import annotations

import numpy as np
import pytest

DOMAIN = "com.microsoft"
HEADS, SHARED, WIDTH = 4, 2, 16


def floats(rng, *shape):
    return rng.standard_normal(shape).astype(np.float32)


def caches(turned=WIDTH):
    angles = np.outer(np.arange(16), 1 / 2.0 ** np.arange(turned // 2)).astype(np.float32)
    return [np.cos(angles), np.sin(angles)]


def inputs(rng, *, batch=1, steps=1, past=5, room=0, lengths=None, packed=False):
    """Queries, keys, values, past, lengths and the total; ``room`` is what the past has beyond its keys."""
    q = floats(rng, batch, steps, HEADS * WIDTH)
    k, v = (floats(rng, batch, steps, SHARED * WIDTH) for _ in range(2))
    if packed:
        q, k, v = np.concatenate([q, k, v], axis=2), None, None
    old = [floats(rng, batch, SHARED, past + room, WIDTH) for _ in range(2)]
    ends = np.full(batch, past + steps - 1) if lengths is None else np.array(lengths) - 1
    return [q, k, v, *old, ends.astype(np.int32), np.array(past + steps, np.int32)]


def check(agrees, given, lengths_fed=True, **attributes):
    fed = [
        index
        for index in (0, 1, 2, 3, 4, *([5] if lengths_fed else []), 10, 11)
        if index < len(given) and given[index] is not None
    ]
    agrees(
        "GroupQueryAttention", given, fed=fed, outputs=["float32"] * 3, domain=DOMAIN,
        num_heads=HEADS, kv_num_heads=SHARED, atol=1e-4, **attributes,
    )  # fmt: skip


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("room", [0, 4])
def test_a_step_after_a_past(agrees, rng, packed, room):
    check(agrees, inputs(rng, room=room, packed=packed))


def test_a_prompt(agrees, rng):
    check(agrees, inputs(rng, steps=6, past=0))


@pytest.mark.parametrize("lengths_fed", [False, True])
def test_several_steps_after_a_past(agrees, rng, lengths_fed):
    check(agrees, inputs(rng, steps=3), lengths_fed)


def test_sequences_of_different_lengths(agrees, rng):
    check(agrees, inputs(rng, batch=3, past=5, lengths=[6, 3, 1]))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize(("steps", "past"), [(1, 5), (4, 0)])
def test_rotation(agrees, rng, steps, past, interleaved):
    given = [*inputs(rng, steps=steps, past=past), *caches()]
    check(agrees, given, do_rotary=1, rotary_interleaved=interleaved)


@pytest.mark.parametrize(
    "attributes",
    [{"scale": 0.5}, {"local_window_size": 3}, {"softcap": 2.0}, {"smooth_softmax": 1}, {"smooth_softmax": -1}],
    ids=lambda attributes: next(iter(attributes)),
)
@pytest.mark.parametrize(("steps", "past"), [(1, 5), (6, 0)])
def test_attributes(agrees, rng, steps, past, attributes):
    check(agrees, inputs(rng, steps=steps, past=past), **attributes)


def test_a_bias_and_sinks(agrees, rng):
    bias, sinks = floats(rng, 1, HEADS, 1, 6), floats(rng, HEADS)
    check(agrees, [*inputs(rng), None, None, None, bias, sinks])


def test_queries_whose_keys_a_bias_hides_do_not_see_later_keys(agrees, rng):
    bias = np.zeros((1, 1, 3, 3), np.float32)
    bias[..., :2] = -1e5
    check(agrees, [*inputs(rng, steps=3, past=0), None, None, None, bias])


@pytest.mark.parametrize("hidden", [-np.inf, np.finfo(np.float32).min])
def test_queries_whose_keys_are_all_hidden_give_zeros(agrees, rng, hidden):
    bias = np.zeros((1, 1, 3, 3), np.float32)
    bias[..., 0, 0] = bias[..., 1, :] = hidden
    check(agrees, [*inputs(rng, steps=3, past=0), None, None, None, bias])
