"""Linear attention and its gates, against ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto

RNG = np.random.default_rng(5)
FLOAT = TensorProto.FLOAT


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def attention(rule: str, steps: int, queries: int, shared: int, *, past: bool, decays: str = "heads") -> dict:
    """Inputs of three keys and five values a head."""
    decay = floats(2, steps, shared * (3 if decays == "elements" else 1))
    return {
        "query": floats(2, steps, queries * 3),
        "key": floats(2, steps, shared * 3) / 2,
        "value": floats(2, steps, shared * 5),
        "past": floats(2, shared, 3, 5) if past else None,
        "decay": -np.abs(decay) if "gated" in rule else None,
        "rate": RNG.random((2, steps, shared)).astype(np.float32) if "delta" in rule else None,
    }


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("steps", [1, 6])
@pytest.mark.parametrize("past", [False, True], ids=["from zeros", "with a past"])
def test_every_rule(assert_rewritten, contributed, rule, steps, past):
    fed = attention(rule, steps, 2, 2, past=past)
    proto, feeds = contributed(
        "LinearAttention", fed, outputs=[FLOAT, FLOAT], update_rule=rule, q_num_heads=2, kv_num_heads=2
    )
    result = assert_rewritten(proto, feeds, rtol=1e-4, atol=1e-5)
    assert [each.rewrite for each in result.applied] == ["linear attention step by step"]


@pytest.mark.parametrize(("queries", "shared"), [(4, 2), (2, 4)], ids=["shared keys", "shared queries"])
@pytest.mark.parametrize("steps", [1, 4])
def test_heads_that_share(assert_rewritten, contributed, queries, shared, steps):
    fed = attention("gated_delta", steps, queries, shared, past=True)
    sizes = {"q_num_heads": queries, "kv_num_heads": shared}
    proto, feeds = contributed("LinearAttention", fed, outputs=[FLOAT, FLOAT], scale=0.7, **sizes)
    assert_rewritten(proto, feeds, rtol=1e-4, atol=1e-5)


def test_a_decay_of_each_element_and_one_rate_of_all_heads(assert_rewritten, contributed):
    fed = attention("gated_delta", 4, 2, 2, past=True, decays="elements")
    fed["rate"] = fed["rate"][:, :, :1]
    proto, feeds = contributed("LinearAttention", fed, outputs=[FLOAT, FLOAT], q_num_heads=2, kv_num_heads=2)
    assert_rewritten(proto, feeds, rtol=1e-4, atol=1e-5)


def test_states_of_several_steps_are_left_alone(assert_left_alone, contributed):
    fed = attention("linear", 4, 2, 2, past=False)
    proto, _ = contributed(
        "LinearAttention", fed, outputs=[FLOAT], update_rule="hebbian", q_num_heads=2, kv_num_heads=2
    )
    assert_left_alone(proto, "LinearAttention", {}, "its update rule 'hebbian' is not known")


@pytest.mark.parametrize("rated", [False, True], ids=["decays", "decays and rates"])
def test_gates(assert_rewritten, contributed, rated):
    fed = {"a": floats(2, 3, 4), "bias": floats(4), "scale": -np.abs(floats(4))}
    fed |= {"b": floats(2, 3, 4)} if rated else {}
    proto, feeds = contributed("LinearAttentionGate", fed, ["bias", "scale"], outputs=[FLOAT, FLOAT][: 1 + rated])
    result = assert_rewritten(proto, feeds)
    assert [each.rewrite for each in result.applied] == ["gates of linear attention written out"]
