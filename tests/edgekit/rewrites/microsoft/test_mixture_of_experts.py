"""Mixtures of experts, against ONNX Runtime's own kernels."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(7)
EXPERTS, WIDTH, HIDDEN = 4, 32, 64


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("tokens", [1, 5], ids=["chosen experts", "all experts"])
@pytest.mark.parametrize("normalized", [0, 1])
@pytest.mark.parametrize("activation", ["relu", "gelu", "silu", "identity"])
def test_float_weights(assert_rewritten, contributed, activation, normalized, tokens):
    fed = {
        "x": floats(tokens, WIDTH), "scores": floats(tokens, EXPERTS),
        "first": floats(EXPERTS, HIDDEN, WIDTH) / 8, "first_bias": floats(EXPERTS, HIDDEN),
        "second": floats(EXPERTS, WIDTH, HIDDEN) / 8, "second_bias": floats(EXPERTS, WIDTH),
    }  # fmt: skip
    proto, feeds = contributed(
        "MoE", fed, list(fed)[2:], k=2, activation_type=activation, normalize_routing_weights=normalized
    )
    result = assert_rewritten(proto, feeds, rtol=1e-4, atol=1e-4)
    assert [each.rewrite for each in result.applied] == ["mixture of experts written out"]


@pytest.mark.parametrize("limited", [{}, {"swiglu_limit": 0.8}], ids=["free", "limited"])
def test_gated_units_of_a_batch(assert_rewritten, contributed, limited):
    """As gpt-oss has them: the products take turns, and biases are left out."""
    fed = {
        "x": floats(2, 3, WIDTH), "scores": floats(6, EXPERTS),
        "first": floats(EXPERTS, 2 * HIDDEN, WIDTH) / 8, "first_bias": None,
        "second": floats(EXPERTS, WIDTH, HIDDEN) / 8,
    }  # fmt: skip
    units = {"activation_type": "swiglu", "swiglu_fusion": 1, "activation_alpha": 1.702, "activation_beta": 1.0}
    proto, feeds = contributed("MoE", fed, ["first", "second"], k=2, **units, **limited)
    assert_rewritten(proto, feeds, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tokens", [1, 5], ids=["chosen experts", "all experts"])
@pytest.mark.parametrize("block", [0, 16], ids=["rows", "blocks"])
@pytest.mark.parametrize("stepped", [False, True], ids=["middle", "zero points"])
def test_weights_of_four_bits(assert_rewritten, contributed, stepped, block, tokens):
    def scales(rows: int, columns: int) -> np.ndarray:
        return RNG.uniform(0.02, 0.04, [EXPERTS, rows, *([columns // block] if block else [])]).astype(np.float32)

    def packed(*sizes: int) -> np.ndarray:
        return RNG.integers(0, 256, sizes).astype(np.uint8)

    def zero_points(rows: int, columns: int) -> np.ndarray:
        return packed(EXPERTS, rows, columns // block // 2) if block else packed(EXPERTS, rows // 2)

    fed = {
        "x": floats(tokens, WIDTH), "scores": floats(tokens, EXPERTS),
        "first": packed(EXPERTS, HIDDEN, WIDTH // 2), "first_scales": scales(HIDDEN, WIDTH), "first_bias": None,
        "second": packed(EXPERTS, WIDTH, HIDDEN // 2), "second_scales": scales(WIDTH, HIDDEN), "second_bias": None,
        "third": None, "third_scales": None, "third_bias": None,
    }  # fmt: skip
    if stepped:
        fed |= {"first_zeros": zero_points(HIDDEN, WIDTH), "second_zeros": zero_points(WIDTH, HIDDEN)}
    constants = [name for name, array in fed.items() if array is not None and name not in ("x", "scores")]
    attributes = {"k": 2, "activation_type": "silu", "normalize_routing_weights": 1, "expert_weight_bits": 4}
    proto, feeds = contributed(
        "QMoE", fed, constants, opset=21, **attributes, **({"block_size": block} if block else {})
    )
    assert_rewritten(proto, feeds, rtol=1e-3, atol=1e-3)


def test_weights_of_the_former_order_are_left_alone(assert_left_alone, contributed):
    """ONNX Runtime's CPU kernel takes them, and reads the same memory in the order of today."""
    fed = {
        "x": floats(2, 8),
        "scores": floats(2, 4),
        "first": floats(4, 8, 16),
        "bias": None,
        "second": floats(4, 16, 8),
    }
    proto, _ = contributed("MoE", fed, ["first", "second"])
    assert_left_alone(proto, "MoE", {}, "its weights are transposed")


def test_an_unknown_activation_is_left_alone(assert_left_alone, contributed):
    fed = {
        "x": floats(2, 8),
        "scores": floats(2, 4),
        "first": floats(4, 16, 8),
        "bias": None,
        "second": floats(4, 8, 16),
    }
    proto, _ = contributed("MoE", fed, ["first", "second"], activation_type="tanh")
    assert_left_alone(proto, "MoE", {}, "its activation 'tanh' is not known")
