from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.prepare import prepared

CONVOLUTIONS = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[1, 4, 6, 6] x) => (float[1, 4, 6, 6] y)
{{
  r = com.microsoft.FusedConv<pads = [1, 1, 1, 1], {activation}>(x, w, b)
  y = com.microsoft.FusedConv<pads = [1, 1, 1, 1], {activation}>(r, w, b, x)
}}"""
PRODUCT = """<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
g (float[3, 4] x) => (float[3, 5] y)
{{
  y = com.microsoft.FusedGemm<alpha = 0.5, transB = 1, {activation}>(x, w, b)
}}"""


@pytest.mark.parametrize(
    "activation",
    [
        'activation = "Relu"',
        'activation = "Tanh"',
        'activation = "LeakyRelu", activation_params = [0.2]',
        'activation = "HardSigmoid", activation_params = [0.3, 0.4]',
        'activation = "Clip", activation_params = [-0.5, 1.5]',
    ],
)
def test_convolutions_that_onnxruntime_fused_are_taken_apart(
    activation: str,
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
) -> None:
    weights = {"w": rng.normal(size=(4, 4, 3, 3)).astype(np.float32), "b": rng.normal(size=4).astype(np.float32)}
    model = parse(CONVOLUTIONS.format(activation=activation), **weights)

    split = prepared(model)

    assert {node.domain for node in split.graph} == {""}
    assert [node.op_type for node in split.graph].count("Conv") == 2
    feeds = {"x": rng.normal(size=(1, 4, 6, 6)).astype(np.float32)}
    np.testing.assert_allclose(*execute(split, feeds), *execute(model, feeds), atol=1e-5)


def test_a_product_is_taken_from_its_activation(
    parse: Callable[..., ir.Model], execute: Callable[..., list[np.ndarray]], rng: np.random.Generator
) -> None:
    weights = {"w": rng.normal(size=(5, 4)).astype(np.float32), "b": rng.normal(size=5).astype(np.float32)}
    model = parse(PRODUCT.format(activation='activation = "LeakyRelu", activation_alpha = 0.3'), **weights)

    split = prepared(model)

    assert [node.op_type for node in split.graph] == ["Gemm", "LeakyRelu"]
    feeds = {"x": rng.normal(size=(3, 4)).astype(np.float32)}
    np.testing.assert_allclose(*execute(split, feeds), *execute(model, feeds), atol=1e-5)


def test_what_is_not_known_stays_as_it_is(parse: Callable[..., ir.Model]) -> None:
    weights = {"w": np.ones((4, 4, 3, 3), np.float32), "b": np.ones(4, np.float32)}
    model = parse(CONVOLUTIONS.format(activation='activation = "Mish"'), **weights)

    assert [node.op_type for node in prepared(model).graph] == ["FusedConv", "FusedConv"]
