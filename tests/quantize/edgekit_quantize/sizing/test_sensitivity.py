"""What errors of weights are measured on."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import pytest

from edgekit_quantize.calibration.references import Reference, References
from edgekit_quantize.sizing import sensitivity
from edgekit_quantize.sizing.forms import Storage
from edgekit_quantize.sizing.sensitivity import FedModel, measured_choices
from edgekit_quantize.sizing.weights import measure_moments, weights_of

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[1, 4] x, bool b) => (float[1, 3] y, float[1, 3] z, float[1, 3] r) {
  m = MatMul(x, w)
  y = Softmax(m)
  z = Sigmoid(m)
  r = If(b) <then_branch = t () => (float[1, 3] p) { p = MatMul(x, v) },
             else_branch = e () => (float[1, 3] q) { q = Relu(m) }>
}"""


def test_errors_are_measured_before_they_are_swallowed(
    parse: Callable[..., ir.Model], rng: np.random.Generator
) -> None:
    w, v, x = (rng.normal(size=shape).astype(np.float32) for shape in ((4, 3), (4, 3), (1, 4)))

    fed = FedModel(parse(MODEL, w=w, v=v), ["w", "v"])
    found = fed.run({"x": x, "b": np.array(True)}, {"v": 2 * v})

    assert [*found] == ["m", "r"]
    np.testing.assert_allclose(found["m"], x @ w, rtol=1e-5)
    np.testing.assert_allclose(found["r"], 2 * x @ v, rtol=1e-5)


@pytest.mark.parametrize(("runs", "used"), [(1000, 8), (2 * 5 + 1, 5), (1, 2)])
def test_how_many_samples_are_executed_hangs_on_what_they_count_and_not_on_how_long_they_take(
    parse: Callable[..., ir.Model],
    rng: np.random.Generator,
    monkeypatch: pytest.MonkeyPatch,
    runs: int,
    used: int,
) -> None:
    """One weight in two forms; on a machine where each execution takes an hour."""
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[1, 32] x) => (float[1, 32] y) { y = MatMul(x, w) }'
    model = parse(text, w=rng.normal(size=(32, 32)).astype(np.float32))
    samples = [{"x": rng.normal(size=(1, 32)).astype(np.float32)} for _ in range(16)]
    weights = weights_of(model)
    measure_moments(model, weights, samples)
    forms = [{"name": "int8", "bits": 8}, {"name": "int4", "bits": 4}]
    now, seen = [0.0], set()
    run = FedModel.run

    def slow(fed: FedModel, feeds: dict[str, np.ndarray], changed: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        now[0] += 3600.0
        seen.add(float(feeds["x"].sum()))
        return run(fed, feeds, changed)

    monkeypatch.setattr(FedModel, "run", slow)
    monkeypatch.setattr("time.perf_counter", lambda: now[0])
    of_one = FedModel(model, [*weights]).work(samples[0])
    monkeypatch.setattr(sensitivity, "MOST_WORK", runs * of_one)

    references = References.of([Reference(feeds, {}) for feeds in samples])
    measured_choices(
        model, weights, Storage.read({"stored_forms": {"float_bytes": 4, "forms": forms}}), references, lambda *_: None
    )

    assert len(seen) == used
