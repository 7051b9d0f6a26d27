from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.processes import matrix_products
from edgekit_quantize.calibration.collect import observe


def test_products_take_one_thread_while_the_model_runs_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = [4]
    monkeypatch.setattr(matrix_products, "_functions", lambda: (lambda: threads[-1], threads.append))
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) { y = Relu (x) }'
    model = ir.from_proto(onnx.parser.parse_model(text))
    seen: list[tuple[list[float], int]] = []
    feeds = [{"x": np.array([-1, number], np.float32)} for number in (1, 2)]
    observe(model, {"y"}, feeds, lambda _, array: seen.append((array.tolist(), threads[-1])))
    assert seen == [([0, 1], 1), ([0, 2], 1)]
    assert threads[-1] == 4
