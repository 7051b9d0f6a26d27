from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.prepare import prepared
from edgekit_quantize.settings import Settings
from edgekit_quantize.writing.candidate import write

from ..conftest import Execute


@pytest.mark.parametrize("turned", [0, 1])
def test_a_gemm_multiplies_integers_whichever_way_its_weights_stand(
    parse: Callable[..., ir.Model], execute: Execute, rng: np.random.Generator, turned: int
) -> None:
    weights = rng.normal(size=(6, 6)).astype(np.float32)
    text = f"g (float[3, 6] x) => (float[3, 6] y) {{ y = Gemm<transB = {turned}>(x, w, b) }}"
    bias = np.arange(6, dtype=np.float32)
    model = parse(f'<ir_version: 8, opset_import: ["" : 17]> {text}', w=weights, b=bias)
    data = rng.normal(size=(3, 6)).astype(np.float32)

    written = write(prepared(model), Settings(layers={"Gemm": "dynamic"}), {})

    assert "MatMulInteger" in {node.op_type for node in written.model.graph}
    right = data @ (weights.T if turned else weights) + bias
    (found,) = execute(written.model, {"x": data})
    assert np.abs(found - right).max() < 0.03 * np.abs(right).max()


def test_a_product_of_doubles_stores_its_weights(
    parse: Callable[..., ir.Model], execute: Execute, rng: np.random.Generator
) -> None:
    """DynamicQuantizeLinear takes float32 alone."""
    weights = rng.normal(size=(24, 24))
    model = parse(
        '<ir_version: 8, opset_import: ["" : 17]> g (double[3, 24] x) => (double[3, 24] y) { y = MatMul(x, w) }',
        w=weights,
    )
    data = rng.normal(size=(3, 24))

    written = write(prepared(model), Settings(layers={"MatMul": "dynamic"}), {})

    assert len(written.stored) == 1
    (found,) = execute(written.model, {"x": data})
    assert found.dtype == np.float64
    assert np.abs(found - data @ weights).max() < 0.03 * np.abs(data @ weights).max()
