"""Constants without elements keep their shape, which OpenVINO's frontend makes that of a scalar."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import openvino
import pytest
from onnx.reference import ReferenceEvaluator

import edgekit_openvino

GRAPHS = {
    "returned": "y = Neg (x) z = Identity (nothing)",
    "joined": "y = Neg (x) z = Concat <axis = 0> (nothing, x)",
    "the region of a Resize": "p = Unsqueeze (x, front) r = Resize (p, nothing, twice) "
    "y = Squeeze (r, front) z = Neg (x)",
}
CONSTANTS = {
    "nothing": np.zeros(0, np.float32),
    "front": np.array([0, 1]),
    "twice": np.array([1, 1, 2], np.float32),
}


@pytest.mark.parametrize("case", GRAPHS)
@pytest.mark.parametrize("as_node", [False, True])
def test_agrees_with_onnx(case: str, as_node: bool, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[4] x) => (float[N] y, float[M] z) {{ {GRAPHS[case]} }}'
    )
    used = {name for node in proto.graph.node for name in node.input}
    for name, array in CONSTANTS.items():
        tensor = onnx.numpy_helper.from_array(array, name)
        if name in used and as_node:
            proto.graph.node.insert(0, onnx.helper.make_node("Constant", [], [name], value=tensor))
        elif name in used:
            proto.graph.initializer.append(tensor)
    x = np.arange(4, dtype=np.float32)
    expected = ReferenceEvaluator(proto).run(None, {"x": x})

    found = edgekit_openvino.load(edgekit_openvino.convert(proto, tmp_path / "built")).run({"x": x})

    for output, want in zip(proto.graph.output, expected, strict=True):
        assert found[output.name].shape == want.shape
        np.testing.assert_array_equal(found[output.name], want)


def test_openvino_still_reads_them_as_scalars(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[4] x) => (float[4] y, float[0] z) { y = Neg (x) }'
    )
    tensor = onnx.numpy_helper.from_array(CONSTANTS["nothing"])
    proto.graph.node.append(onnx.helper.make_node("Constant", [], ["z"], value=tensor))
    onnx.save(proto, tmp_path / "model.onnx")
    network = openvino.Core().read_model(tmp_path / "model.onnx")
    assert [list(output.get_partial_shape()) for output in network.outputs][1] == []
