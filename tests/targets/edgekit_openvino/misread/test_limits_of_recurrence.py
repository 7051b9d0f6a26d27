"""A clip that is not above 0, which ONNX Runtime's GRU and LSTM refuse, and with which its RNN gives zeros."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError

GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(("attribute", "value"), [("clip", 0.0), ("clip", -1.0), ("layout", 2)])
def test_refused_by_name(kind: str, attribute: str, value: float, tmp_path: Path) -> None:
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 17]> g (float[1, 1, 4] x) => (float[1, 1, 1, 5] y)'
        f" {{ y = {kind} <hidden_size = 5, {attribute} = {value}> (x, a, b) }}"
    )
    for name, width in (("a", 4), ("b", 5)):
        weights = np.ones((1, GATES[kind] * 5, width), np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    with pytest.raises(UnsupportedOpsError) as refusal:
        edgekit_openvino.convert(model, tmp_path / "model")
    assert refusal.value.ops == [kind]
    assert "layout 1" in str(refusal.value) or "a clip that is not above 0" in str(refusal.value)
