"""Gates and normalizations of gated attention and hyper-connections, against ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

RNG = np.random.default_rng(6)
FLOAT = TensorProto.FLOAT
HALF = TensorProto.FLOAT16


def floats(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("activation", ["silu", "sigmoid"])
@pytest.mark.parametrize("length", [4, 12], ids=["groups", "whole rows"])
def test_gated_normalization(assert_rewritten, contributed, activation, length):
    fed = {"x": floats(2, 3, 12), "scale": floats(length), "gate": floats(2, 3, 12)}
    proto, feeds = contributed("GatedRMSNorm", fed, ["scale"], activation=activation, epsilon=1e-3)
    result = assert_rewritten(proto, feeds)
    assert [each.rewrite for each in result.applied] == ["gated normalization written out"]


def test_gated_normalization_of_halves(assert_rewritten, contributed):
    fed = {name: floats(*size, dtype=np.float16) for name, size in (("x", (2, 8)), ("scale", (4,)), ("gate", (2, 8)))}
    proto, feeds = contributed("GatedRMSNorm", fed, ["scale"], outputs=[HALF])
    assert_rewritten(proto, feeds, rtol=2e-3, atol=1e-3)


def test_gated_sum(assert_rewritten, contributed):
    proto, feeds = contributed("GatedAdd", {"x": floats(2, 3, 4), "y": floats(2, 3, 4), "gate": floats(2, 3, 1)})
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("alpha", [{}, {"alpha": 1.0}], ids=["CLIP's", "SiLU"])
def test_quick_gelu(assert_rewritten, contributed, alpha):
    proto, feeds = contributed("QuickGelu", {"x": floats(2, 5)}, **alpha)
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("given", [False, True], ids=["attribute", "input"])
def test_scaled_silu(assert_rewritten, contributed, given):
    fed = {"x": floats(2, 5)} | ({"scale": np.array(0.3, np.float32)} if given else {})
    proto, feeds = contributed("ScaledSiLU", fed, alpha=1.7)
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("normed", [False, True])
def test_engram_gate(assert_rewritten, contributed, normed):
    fed = {
        "key": floats(1, 3, 2, 8), "query": floats(1, 3, 2, 8), "value": floats(1, 3, 8),
        "key_scale": floats(2, 8), "query_scale": floats(2, 8),
    }  # fmt: skip
    fed |= {"last_scale": floats(2, 8)} if normed else {}
    scales = [name for name in fed if name.endswith("scale")]
    proto, feeds = contributed("EngramGate", fed, scales, outputs=[FLOAT] * (1 + normed))
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("scale", [None, (8,), (2, 8), (16,)], ids=str)
@pytest.mark.parametrize("flat", [False, True], ids=["grouped", "flat"])
def test_normalization_of_branches(assert_rewritten, contributed, scale, flat):
    x = floats(1, 3, 16) if flat else floats(1, 3, 2, 8)
    fed = {"x": x} | ({} if scale is None else {"scale": floats(*scale)})
    branches = {"num_branches": 2} if flat else {}
    proto, feeds = contributed("BranchwiseRMSNorm", fed, [] if scale is None else ["scale"], **branches)
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("gate", [(1, 3, 2), (1, 3, 2, 1), (1, 3, 2, 8)], ids=str)
@pytest.mark.parametrize("flat", [False, True], ids=["grouped", "flat"])
def test_a_sum_of_streams(assert_rewritten, contributed, gate, flat):
    x = floats(1, 3, 16) if flat else floats(1, 3, 2, 8)
    branches = {"num_branches": 2} if flat else {}
    proto, feeds = contributed(
        "HyperConnectionPreMix", {"x": x, "gate": floats(*gate)}, reduction_scale=0.5, **branches
    )
    assert_rewritten(proto, feeds)


def test_gates_of_flat_streams(assert_rewritten, contributed):
    fed = {"x": floats(1, 3, 16), "gate": floats(1, 3, 16)}
    proto, feeds = contributed("HyperConnectionPreMix", fed, num_branches=2)
    assert_rewritten(proto, feeds)


@pytest.mark.parametrize("mixed", [False, True], ids=["as they are", "mixed"])
@pytest.mark.parametrize("flat", [False, True], ids=["grouped", "flat"])
def test_streams_that_a_block_feeds(assert_rewritten, contributed, mixed, flat):
    x = floats(1, 3, 16) if flat else floats(1, 3, 2, 8)
    fed = {"x": x, "block": floats(1, 3, 8), "gate": floats(1, 3, 2)} | ({"mix": floats(1, 3, 2, 2)} if mixed else {})
    proto, feeds = contributed("HyperConnectionPostMix", fed, **({"num_branches": 2} if flat else {}))
    assert_rewritten(proto, feeds)
