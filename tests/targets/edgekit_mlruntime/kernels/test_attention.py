from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional


@pytest.mark.parametrize("lead", [(2,), (2, 3)])
@pytest.mark.parametrize("mask", [None, "bool", "float32"])
@pytest.mark.parametrize("width", [8, 400])
def test_attention_agrees_with_torch(run_op, rng, lead, mask, width):
    shapes = ((5, width), (7, width), (7, width - 2))
    query, key, value = (rng.standard_normal((*lead, *shape), dtype=np.float32) for shape in shapes)
    inputs = {"query": query, "key": key, "value": value}
    attn_mask = None
    if mask == "bool":
        attn_mask = rng.uniform(size=(5, 7)) < 0.7
        attn_mask[:, 0] = True
    elif mask == "float32":
        attn_mask = rng.standard_normal((*lead, 5, 7), dtype=np.float32)
    expected = functional.scaled_dot_product_attention(
        *map(torch.tensor, (query, key, value)), None if attn_mask is None else torch.tensor(attn_mask)
    )
    if attn_mask is not None:
        inputs["attn_mask"] = attn_mask
    actual = run_op("scaled_dot_product_attention", **inputs, ios=18, fed=list(inputs))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_large_scores_do_not_overflow(run_op):
    query = key = np.full((1, 2, 4), 100, np.float32)
    actual = run_op(
        "scaled_dot_product_attention",
        query=query,
        key=key,
        value=np.array([[[1], [3]]], np.float32),
        ios=18,
        fed=["query"],
    )
    np.testing.assert_array_equal(actual, [[[2], [2]]])
