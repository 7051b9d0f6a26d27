from __future__ import annotations

import numpy as np
import pytest

DOMAIN = "com.microsoft"


def normal(rng, *shape):
    return rng.standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", None),
        ("Tanh", None),
        ("Sigmoid", None),
        ("LeakyRelu", [0.3]),
        ("HardSigmoid", [0.3, 0.4]),
        ("Clip", [-0.5, 0.75]),
    ],
)
def test_fused_conv_agrees(agrees, rng, activation, parameters):
    inputs = [normal(rng, 1, 3, 6, 6), normal(rng, 4, 3, 3, 3), normal(rng, 4)]
    attributes = {} if parameters is None else {"activation_params": parameters}
    agrees("FusedConv", inputs, domain=DOMAIN, activation=activation, pads=[1, 1, 1, 1], atol=1e-4, **attributes)


def test_fused_conv_adds_before_it_activates(agrees, rng):
    inputs = [normal(rng, 1, 3, 4, 4), normal(rng, 4, 3, 3, 3), normal(rng, 4), normal(rng, 1, 4, 2, 2)]
    agrees("FusedConv", inputs, fed=(0, 3), domain=DOMAIN, activation="Relu", atol=1e-4)


@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize(("a", "b"), [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul_agrees(agrees, rng, a, b, batch):
    left = normal(rng, 2, 4, 3) if a else normal(rng, 2, 3, 4)
    right = normal(rng, 2, 5, 4) if b else normal(rng, 2, 4, 5)
    if batch:
        left, right = np.moveaxis(left, 0, 1).copy(), np.moveaxis(right, 0, 1).copy()
    flags = {"transA": a, "transB": b, "transBatchA": batch, "transBatchB": batch}
    agrees("FusedMatMul", [left, right], fed=(0, 1), domain=DOMAIN, alpha=0.5, **flags)


def test_fused_gemm_agrees(agrees, rng):
    inputs = [normal(rng, 4, 3), normal(rng, 5, 4), normal(rng, 5)]
    attributes = {"transA": 1, "transB": 1, "alpha": 0.5, "activation": "LeakyRelu", "activation_alpha": 0.2}
    agrees("FusedGemm", inputs, domain=DOMAIN, **attributes)


@pytest.mark.parametrize(("op_type", "inputs"), [("Gelu", 1), ("BiasGelu", 2), ("FastGelu", 2), ("FastGelu", 1)])
def test_gelus_agree(agrees, rng, op_type, inputs):
    agrees(op_type, [normal(rng, 3, 8), normal(rng, 8)][:inputs], domain=DOMAIN, rtol=1e-3)


@pytest.mark.parametrize("alpha", [1.702, 1.0])
def test_quick_gelu_agrees(agrees, rng, alpha):
    agrees("QuickGelu", [normal(rng, 3, 8)], domain=DOMAIN, alpha=alpha)


@pytest.mark.parametrize("biased", [False, True])
def test_skip_layer_normalization_agrees(agrees, rng, biased):
    inputs = [normal(rng, 2, 3, 8), normal(rng, 2, 3, 8), normal(rng, 8), normal(rng, 8)]
    inputs += [normal(rng, 8)] if biased else []
    outputs = ("float32", None, None, "float32")
    agrees("SkipLayerNormalization", inputs, fed=(0, 1), outputs=outputs, domain=DOMAIN, epsilon=1e-5)


@pytest.mark.parametrize("biased", [False, True])
def test_skip_simplified_layer_normalization_agrees(agrees, rng, biased):
    inputs = [normal(rng, 2, 3, 8), normal(rng, 2, 3, 8), normal(rng, 8), *([normal(rng, 8)] if biased else [])]
    outputs = ("float32", None, None, "float32")
    agrees("SkipSimplifiedLayerNormalization", inputs, fed=(0, 1), outputs=outputs, domain=DOMAIN, epsilon=1e-5)


def test_simplified_layer_normalization_agrees(agrees, rng):
    agrees("SimplifiedLayerNormalization", [normal(rng, 2, 3, 8), normal(rng, 8)], epsilon=1e-5)


@pytest.mark.parametrize("segments", [False, True])
def test_embed_layer_normalization_agrees(agrees, rng, segments):
    ids = rng.integers(0, 9, (2, 4), np.int32)
    inputs = [
        ids,
        ids % 2 if segments else None,
        *(normal(rng, 9, 8), normal(rng, 6, 8), normal(rng, 2, 8) if segments else None),
        *(normal(rng, 8), normal(rng, 8)),
        np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32),
    ]
    fed = (0, 1, 7) if segments else (0, 7)
    agrees("EmbedLayerNormalization", inputs, fed=fed, outputs=("float32", "int32"), domain=DOMAIN)
