from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.comparison.acceptance.conditioning import conditioning
from edgekit.comparison.numbers.quantized_outputs import quantized_outputs
from edgekit.comparison.side_by_side import compare
from edgekit.data.samples import SeededSamples
from edgekit.execution.reference import Reference
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]
WEIGHTS = {
    "scale": np.array(1 / 256, np.float32),
    "zero": np.array(-128, np.int8),
    "w": np.array([[1, -1, 0], [0, 2, -1]], np.float32),
    "shape": np.array([-1]),
}
SCORES = "h = MatMul (x, w) p = Softmax (h) q = QuantizeLinear (p, scale, zero)"


def model(onnx_model: OnnxModel, body: str, outputs: str, **weights: np.ndarray) -> Model:
    graph = f"g (float[4, 2] x) => ({outputs}) {{ {body} }}"
    known = {**WEIGHTS, **weights}
    return Model(ir.from_proto(onnx_model(graph, **{name: each for name, each in known.items() if name in body})))


@pytest.mark.parametrize(
    ("body", "outputs", "expected"),
    [
        (f"{SCORES} y = Identity (q)", "int8[4, 3] y", {"y"}),
        (f"{SCORES} y = Reshape (q, shape)", "int8[12] y", {"y"}),
        ("h = MatMul (x, w) y = Cast <to = 3> (h)", "int8[4, 3] y", set()),
        ("h = MatMul (x, w) y = Softmax (h)", "float[4, 3] y", set()),
    ],
)
def test_what_is_quantized(onnx_model: OnnxModel, body: str, outputs: str, expected: set[str]) -> None:
    assert quantized_outputs(model(onnx_model, body, outputs)) == expected


def test_they_are_compared_as_numbers_that_decide(onnx_model: OnnxModel) -> None:
    original = model(onnx_model, f"{SCORES} y = Identity (q)", "int8[4, 3] y")
    other = model(onnx_model, f"{SCORES} y = Identity (q)", "int8[4, 3] y", w=WEIGHTS["w"] * np.float32(1.02))
    samples = SeededSamples(original, 8)
    runs = [[Reference(each).run(sample.feeds)["y"] for sample in samples] for each in (original, other)]
    wanted, found = (np.stack(run).astype(float) for run in runs)

    (output,), _ = compare(samples, Reference(original), Reference(other), ("y",), quantized={"y"})
    (unknown,), _ = compare(samples, Reference(original), Reference(other), ("y",))

    assert (wanted != found).any()
    expected_db = 10 * np.log10((wanted**2).sum() / ((found - wanted) ** 2).sum())
    assert output.picture_db == pytest.approx(expected_db)
    assert output.decisions == 32
    assert output.agreement == (wanted.argmax(-1) == found.argmax(-1)).mean()
    assert (unknown.picture_db, unknown.agreement) == (None, None)


def test_what_the_original_determines_of_them_is_known(onnx_model: OnnxModel) -> None:
    scores = model(onnx_model, f"{SCORES} y = Identity (q)", "int8[4, 3] y", scale=np.array(1e-6, np.float32))
    limits = conditioning(scores, SeededSamples(scores, 4))
    assert "y" in limits.pooled_db
