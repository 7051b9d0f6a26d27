"""Adaptive rounding of layers that see few rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from edgekit.data.samples import Sample
from edgekit.model import Model
from edgekit.quantizer import QuantizationRequest
from edgekit_quantize.graph.session import SessionRunner
from edgekit_quantize.integers.qparams import TYPES
from edgekit_quantize.integers.weights import symmetric_weights
from edgekit_quantize.plugin import PostTrainingQuantizer
from edgekit_quantize.rounding.adaround import adaptive_rounding
from edgekit_quantize.rounding.held_out import Basis, Halves, Parts

INPUTS, OUTPUTS, INDEPENDENT = 96, 48, 12
NETWORK = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[1, {INPUTS}] x) => (float[1, {OUTPUTS}] y) {{
  a = MatMul(x, w)  b = Tanh(a)  y = MatMul(b, v)
}}"""


def _rows(count: int, seed: int, noise: float) -> np.ndarray:
    """Rows near a space of few dimensions, which is the same for all seeds."""
    few = np.random.default_rng(5).normal(size=(INDEPENDENT, INPUTS))
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, INDEPENDENT)) @ few + noise * rng.normal(size=(count, INPUTS))
    return rows.astype(np.float32)


def _weights() -> np.ndarray:
    return np.random.default_rng(6).normal(size=(OUTPUTS, INPUTS)).astype(np.float32)


def _basis(rows: np.ndarray, samples: int, parts: Parts) -> tuple[np.ndarray | None, Basis]:
    halves = Halves(INPUTS)
    for place, part in enumerate(np.split(rows, samples)):
        halves.update(part, place, parts)
    assert halves.seconds is not None
    return halves.seconds.rounded(_weights(), symmetric_weights(_weights(), TYPES["int8"], 0), parts)


@pytest.mark.parametrize(
    ("count", "noise", "parts", "basis"),
    [
        (4096, 0.1, Parts(32, 1), Basis.ALL),
        (4096, 0.1, Parts(32), Basis.ALL),
        (24, 0.01, Parts(24, 1), Basis.PART),
        (24, 0.01, Parts(24), Basis.NONE),
        (24, 0.01, Parts(24, apart=True), Basis.ALL),
        (32, 100.0, Parts(32, 1), Basis.NONE),
        (1, 0.1, Parts(1), Basis.NONE),
        (4096, 0.1, Parts(1), Basis.ALL),
    ],
)
def test_rows_decide_what_weights_are_fitted_to(count: int, noise: float, parts: Parts, basis: Basis) -> None:
    rows = _rows(count, 1, noise)
    integers, found = _basis(rows, parts.samples, parts)

    assert found is basis
    seen = {Basis.ALL: rows, Basis.PART: rows[::2], Basis.NONE: None}[basis]
    if seen is None:
        assert integers is None
    else:
        params = symmetric_weights(_weights(), TYPES["int8"], 0)
        expected = adaptive_rounding(_weights(), params, seen.astype(np.float64).T @ seen / len(seen))
        assert integers is not None
        assert np.mean(integers != expected) < 0.02  # moments are added up in float32


class OneRow:
    """Samples of one row each."""

    has_labels = False

    def __init__(self, rows: np.ndarray) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(str(number), {"x": row[None]}) for number, row in enumerate(self.rows))


@pytest.mark.parametrize("samples", [2, 4, 8, 16, 48])
def test_what_is_recorded_is_found_on_other_samples(samples: int) -> None:
    """Fitted to and scored on the same 4, 8 or 16 samples, 1.2 to 1.5 times the recorded loss was found."""
    proto = onnx.parser.parse_model(NETWORK)
    last = np.random.default_rng(8).normal(size=(OUTPUTS, OUTPUTS)).astype(np.float32)
    arrays = {"w": _weights().T / 12, "v": last}
    proto.graph.initializer.extend(onnx.numpy_helper.from_array(array, name) for name, array in arrays.items())
    model = Model(ir.from_proto(proto))

    made = PostTrainingQuantizer().quantize(
        QuantizationRequest(model, "int8-weights", OneRow(_rows(samples, 2, 0.03)), max_drop=1.0)
    )

    recorded = {trial["candidate"]: trial["drop"] for trial in made.record["curve"]}[made.record["chosen"]]
    expected, found = (
        np.concatenate([runner.run({"x": row[None]})["y"] for row in _rows(200, 3, 0.03)])
        for runner in (SessionRunner(each.graph_model) for each in (model, made.model))
    )
    assert np.sum((found - expected) ** 2) / np.sum((expected - expected.mean(axis=0)) ** 2) < 1.1 * recorded
