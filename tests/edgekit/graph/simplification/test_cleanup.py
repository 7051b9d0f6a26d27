from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir

from edgekit.graph.simplification.cleanup import store_once


def test_initializers_of_other_shapes_stay_though_they_hold_the_same() -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[2, 2] x) => (float[2, 2] y) '
        "{ a = Add (x, column) b = Add (a, row) y = Add (b, twin) }"
    )
    numbers = np.array([1, 2], np.float32)
    for name, shape in (("column", (2, 1)), ("row", (1, 2)), ("twin", (1, 2))):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(numbers.reshape(shape), name))
    model = ir.from_proto(proto)
    store_once(model)
    assert list(model.graph.initializers) == ["column", "row"]
    assert [node.inputs[1].name for node in model.graph if node.inputs[1] is not None] == ["column", "row", "row"]
