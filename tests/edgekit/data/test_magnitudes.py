from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnx_ir as ir
import pytest

from edgekit.data.inputs import seeded_inputs
from edgekit.data.limits import index_limits
from edgekit.data.samples import SeededSamples
from edgekit.execution.reference import Reference
from edgekit.model import Model

OnnxModel = Callable[..., onnx.ModelProto]
CONSTANTS = {
    "tiny": np.array(1e-3, np.float32),
    "less": np.array(-1, np.float32),
    "scale": np.array([0.5, 2], np.float32),
    "third": np.array(0.33, np.float32),
    "two": np.array(2, np.float32),
}


def model(onnx_model: OnnxModel, body: str) -> Model:
    graph = f"f (float[1, 50, 2] x, float[1, 50, 2] z) => (float[1, 50, 2] y) {{ {body} }}"
    used = {name: array for name, array in CONSTANTS.items() if name in body}
    return Model(ir.from_proto(onnx_model(graph, **used)))


@pytest.mark.parametrize(
    "body",
    [
        "y = Log (x)",
        "a = Add (x, tiny) y = Log (a)",
        "a = Add (tiny, x) m = Mul (a, scale) i = Identity (m) y = Sqrt (i)",
        "d = Div (x, scale) y = Pow (d, third)",
    ],
)
def test_what_a_logarithm_or_a_root_reads_is_never_negative(onnx_model: OnnxModel, body: str) -> None:
    read = model(onnx_model, body)
    drawn = seeded_inputs(read.inputs, 0, index_limits(read))
    assert drawn["x"].min() >= 0
    assert drawn["z"].min() < 0
    for sample in SeededSamples(read, 2):
        assert np.isfinite(Reference(read).run(sample.feeds)["y"]).all()


@pytest.mark.parametrize(
    "body",
    [
        "s = Mul (x, x) y = Log (s)",  # never negative itself
        "a = Add (x, less) y = Log (a)",
        "m = Mul (x, less) y = Sqrt (m)",
        "d = Div (two, x) y = Log (d)",
        "y = Pow (x, two)",
        "c = Relu (x) y = Sqrt (c)",
    ],
)
def test_others_are_drawn_with_their_sign(onnx_model: OnnxModel, body: str) -> None:
    read = model(onnx_model, body)
    assert index_limits(read) == {}
