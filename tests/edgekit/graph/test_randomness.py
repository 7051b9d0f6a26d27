from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.errors import UnsupportedOpsError
from edgekit.graph.randomness import require_no_randomness
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]


def model(onnx_model: OnnxModel, node: str, **weights: np.ndarray) -> Model:
    return Model(ir.from_proto(onnx_model(f"g (float[4] x) => (float[4] y) {{ [n] y = {node} }}", **weights)))


@pytest.mark.parametrize(("node", "what"), [("Dropout (x, half, yes)", "training mode"), ("Bernoulli (x)", "random")])
def test_what_is_drawn_at_random_is_refused(onnx_model: OnnxModel, node: str, what: str) -> None:
    with pytest.raises(UnsupportedOpsError, match=what) as caught:
        require_no_randomness(model(onnx_model, node, half=np.array(0.5, np.float32), yes=np.array(True)))
    assert "n" in str(caught.value)


@pytest.mark.parametrize(
    "node", ["Dropout (x)", "Dropout (x, half)", "Dropout (x, half, no)", "Dropout (x, zero, yes)"]
)
def test_a_dropout_that_drops_nothing_passes(onnx_model: OnnxModel, node: str) -> None:
    weights = {"half": np.array(0.5, np.float32), "zero": np.array(0, np.float32)}
    require_no_randomness(model(onnx_model, node, yes=np.array(True), no=np.array(False), **weights))
