"""Matrix products whose inner size is 0 give zeros, as in ONNX Runtime."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.targets.edgekit_openvino.exact.three_ways import converted, expected

BODIES = {
    "adapter": "a = MatMul (x, down) b = MatMul (a, up) y = Add (b, z)",
    "transposed": "a = MatMul (x, down) t = Transpose <perm = [1, 0]> (up) b = Gemm <transB = 1> (a, t) y = Add (b, z)",
}


@pytest.mark.parametrize("rows", ["3", "N"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_nothing_is_summed(body: str, rows: str, tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        f'<ir_version: 9, opset_import: ["" : 18]> g (float[{rows}, 4] x, float[{rows}, 5] z) => (float[{rows}, 5] y)'
        f" {{ {body} }}"
    )
    for name, shape in (("down", (4, 0)), ("up", (0, 5))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
    feeds = {"x": np.ones((3, 4), np.float32), "z": np.arange(15, dtype=np.float32).reshape(3, 5)}
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), expected(proto, feeds))


def test_parameters_of_an_adapter_that_are_inputs_with_a_default(tmp_path: Path) -> None:
    """OpenVINO's frontend makes inputs of constants without elements whose stated size is open."""
    proto = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["" : 18]> g (float[3, 4] x, float[4, R] down, float[R, 4] up)'
        " => (float[3, 4] y) { a = MatMul (x, down) b = MatMul (a, up) y = Add (b, x) }"
    )
    for name, shape in (("down", (4, 0)), ("up", (0, 4))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.zeros(shape, np.float32), name))
    feeds = {"x": np.arange(12, dtype=np.float32).reshape(3, 4)}
    np.testing.assert_array_equal(converted(proto, feeds, tmp_path), expected(proto, feeds))
