"""Loops of which constants tell that they take no step, on OpenVINO: against ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest

import edgekit_openvino
from edgekit.errors import UnsupportedOpsError
from edgekit.model import Model
from edgekit_openvino.frontend import convert_model

GROWS = "(bool o, float[B, 3] v, float[3] u) { o = Identity (c) v = Concat <axis = 0> (s, x) u = Neg (w) }"
STAYS = "(bool o, float[N, 3] v, float[3] u) { o = Identity (c) v = Add (s, x) u = Neg (w) }"


def model_of(size: str, body: str, given: str) -> onnx.ModelProto:
    body = body.replace("[N", f"[{size}")
    return onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[{size}, 3] x) => (float[A, 3] y, float[C, D] z)'
        " <int64 none = {0}, int64 two = {2}, bool no = {0}, float[3] w = {1, 2, 3}>"
        f" {{ y, z = Loop ({given}, x) <body = b (int64 i, bool c, float[{size}, 3] s) => {body}> }}"
    )


@pytest.mark.parametrize("given", ["none, ", "two, no"])
@pytest.mark.parametrize("size", ["2", "N"])
@pytest.mark.parametrize("body", [GROWS, STAYS], ids=["grows", "stays"])
def test_the_states_stay_as_they_are(size: str, body: str, given: str, tmp_path: Path) -> None:
    model = model_of(size, body, given)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    with pytest.raises(UnsupportedOpsError, match="it gives the sizes of one iteration for a loop that runs none"):
        convert_model(Model(ir.from_proto(model)))
    runner = edgekit_openvino.load(edgekit_openvino.convert(model, tmp_path / "model"))
    for rows in (2,) if size == "2" else (2, 5, 1):
        feeds = {"x": np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)}
        found = runner.run(feeds)
        for name, expected in zip(["y", "z"], session.run(["y", "z"], feeds), strict=True):
            np.testing.assert_array_equal(found[name], expected)


def test_openvino_itself_tells_the_sizes_of_one_step() -> None:
    network = openvino.Core().read_model(model_of("2", GROWS, "none, ").SerializeToString())
    assert network.output("y").get_partial_shape().to_string() == "[4,3]"
