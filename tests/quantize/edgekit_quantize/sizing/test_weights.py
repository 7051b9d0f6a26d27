from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from edgekit_quantize.sizing.codebooks import DAMPING
from edgekit_quantize.sizing.weights import measure_moments, weights_of

TEXT = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N, 96] x) => (float[N, 32] y) { y = MatMul(x, w) }"""


def test_all_rows_tell_what_enters_and_half_of_the_samples_judge_the_other_half(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    model = parse(TEXT, w=rng.normal(size=(96, 32)).astype(np.float32))
    samples = [rng.normal(size=(count, 96)).astype(np.float32) for count in (2, 30, 5)]
    weights = weights_of(model)

    measure_moments(model, weights, [{"x": sample} for sample in samples])

    inputs, rows = weights["w"].inputs, np.concatenate(samples)
    assert inputs is not None
    np.testing.assert_allclose(inputs.moments, rows.T @ rows / len(rows), atol=1e-5)
    assert inputs.damping > DAMPING  # 37 rows tell little of what 96 inputs have in common


def test_samples_that_tell_of_one_half_alone_are_taken_as_they_are(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    model = parse(TEXT, w=rng.normal(size=(96, 32)).astype(np.float32))
    weights = weights_of(model)

    measure_moments(model, weights, [{"x": rng.normal(size=(9, 96)).astype(np.float32)}])

    inputs = weights["w"].inputs
    assert inputs is not None
    assert inputs.damping == DAMPING
