"""Recurrent layers on OpenVINO's CPU: what is tried, and what its files compute."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit

STEPS, FEATURES, SIZE = 6, 24, 224
STEP_BY_STEP = ", recurrent layers step by step"


@pytest.mark.parametrize("kind", ["GRU", "LSTM"])
def test_large_recurrent_layers_are_tried_step_by_step(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = {"GRU": 3, "LSTM": 4}[kind] * SIZE
    attributes = ", linear_before_reset = 1" if kind == "GRU" else ""
    model = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 17]>
        g (float[{STEPS}, 1, {FEATURES}] x) => (float[{STEPS}, 1, 1, {SIZE}] y) {{
            y = {kind}<hidden_size = {SIZE}{attributes}>(x, w, r) }}""")
    arrays = {"w": (1, rows, FEATURES), "r": (1, rows, SIZE)}
    for name, shape in arrays.items():
        array = rng.uniform(-0.15, 0.15, shape).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    onnx.save(model, tmp_path / "m.onnx")
    samples = [{"x": rng.uniform(-1, 1, (STEPS, 1, FEATURES)).astype(np.float32)} for _ in range(16)]

    made = edgekit.quantize(tmp_path / "m.onnx", tmp_path / "q.onnx", data=samples, target="intel-cpu")

    drops = {trial["candidate"]: trial["drop"] for trial in made.record["curve"]}
    assert {f"weights only{STEP_BY_STEP}", "weights only"} <= drops.keys()
    assert max(drops.values()) < 0.003
