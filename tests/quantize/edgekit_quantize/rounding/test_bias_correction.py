from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.graph.layers import layers
from edgekit_quantize.rounding.bias_correction import correction

CONV = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4, 5, 5] x) => (float[N, M, H, W] y) {{ y = Conv<group = {groups}>(x, w) }}"""
MATMUL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 4] x) => (float[N, 3] y) { y = MatMul(x, w) }"""
GEMM = MATMUL.replace("MatMul(x, w)", "Gemm<transB = 1>(x, w)")


def test_by_hand(parse: Callable[..., ir.Model]) -> None:
    model = parse(MATMUL, w=np.array([[1.0, 2, 3], [0, 0, 0], [0, 0, 0], [4, 5, 6]], np.float32))
    (layer,) = layers(model.graph)
    rounded = layer.weights() + np.float32(0.5)

    shift = correction(layer, rounded, np.array([1.0, 2.0, 3.0, 4.0]))

    assert shift is not None
    assert shift.tolist() == [-5.0, -5.0, -5.0]  # -(0.5 * (1 + 2 + 3 + 4))


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        (CONV.format(groups=1), (6, 4, 3, 3)),
        (CONV.format(groups=2), (6, 2, 3, 3)),
        (CONV.format(groups=4), (8, 1, 3, 3)),
        (MATMUL, (4, 3)),
        (GEMM, (3, 4)),
    ],
)
def test_it_takes_off_the_mean_error(
    parse: Callable[..., ir.Model],
    execute: Callable[..., list[np.ndarray]],
    rng: np.random.Generator,
    text: str,
    shape: tuple[int, ...],
) -> None:
    weights = rng.normal(size=shape).astype(np.float32)
    rounded = np.round(weights, 1)
    mean = np.array([1.0, -2.0, 3.0, 0.5])
    model, coarse = parse(text, w=weights), parse(text, w=rounded)
    spatial = (5, 5) if len(shape) == 4 else ()
    data = np.broadcast_to(mean.reshape(1, 4, *[1] * len(spatial)), (1, 4, *spatial)).astype(np.float32)
    (layer,) = layers(model.graph)

    shift = correction(layer, rounded, mean)

    error = execute(coarse, {"x": data})[0] - execute(model, {"x": data})[0]
    per_channel = error.reshape(error.shape[1], -1).mean(1) if spatial else error[0]
    assert shift is not None
    np.testing.assert_allclose(shift, -per_channel, rtol=1e-3, atol=1e-4)
