"""Products with weights of bitsandbytes, against ONNX Runtime's own kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(9)


@pytest.mark.parametrize(("rows", "columns", "block"), [(6, 32, 16), (5, 24, 16)])
@pytest.mark.parametrize("kind", [0, 1], ids=["FP4", "NF4"])
def test_weights_of_sixteen_numbers(assert_rewritten, kind, rows, columns, block):
    """Blocks go on from one row to the next."""
    count = rows * columns
    packed = RNG.integers(0, 256, (count + 1) // 2).astype(np.uint8)
    greatest = RNG.random(-(-count // block)).astype(np.float32)
    node = helper.make_node(
        "MatMulBnb4", ["x", "packed", "greatest"], ["y"], "product", domain="com.microsoft",
        K=columns, N=rows, block_size=block, quant_type=kind,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3, columns])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 3, rows])],
        [numpy_helper.from_array(packed, "packed"), numpy_helper.from_array(greatest, "greatest")],
    )
    imports = [helper.make_opsetid("", 14), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=9)
    feeds = {"x": RNG.standard_normal((2, 3, columns)).astype(np.float32)}
    result = assert_rewritten(onnx.shape_inference.infer_shapes(proto), feeds)
    assert [each.rewrite for each in result.applied] == ["weights of bitsandbytes as floats"]
