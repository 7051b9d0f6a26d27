"""Lookups in tables of quantized blocks, against ONNX Runtime's own kernel."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

RNG = np.random.default_rng(2)
ROWS, COLUMNS, BLOCK = 9, 64, 32


def model(bits: int, *, zero_points: bool, reshaped: bool) -> onnx.ModelProto:
    in_a_byte, blocks = 8 // bits, COLUMNS // BLOCK
    table = RNG.integers(0, 256, (ROWS, COLUMNS // in_a_byte)).astype(np.uint8)
    constants = {
        "stored": table.reshape(ROWS, blocks, -1) if reshaped else table,
        "shape": np.array([0, -1]),
        "scales": RNG.random((ROWS, blocks)).astype(np.float32),
    }
    if zero_points:
        constants["zeros"] = RNG.integers(0, 256, (ROWS, blocks // in_a_byte)).astype(np.uint8)
    names = ["table" if reshaped else "stored", "words", "scales", *(["zeros"] if zero_points else [])]
    lookup = helper.make_node(
        "GatherBlockQuantized", names, ["y"], "lookup", domain="com.microsoft",
        bits=bits, block_size=BLOCK, gather_axis=0, quantize_axis=1,
    )  # fmt: skip
    graph = helper.make_graph(
        [*([helper.make_node("Reshape", ["stored", "shape"], ["table"])] if reshaped else []), lookup],
        "lookup",
        [helper.make_tensor_value_info("words", TensorProto.INT64, ["N", "T"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", "T", COLUMNS])],
        [numpy_helper.from_array(array, name) for name, array in constants.items() if reshaped or name != "shape"],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


@pytest.mark.parametrize("reshaped", [False, True])
@pytest.mark.parametrize("zero_points", [False, True])
@pytest.mark.parametrize("bits", [4, 8])
def test_rows_of_a_table_in_blocks(assert_rewritten, bits, zero_points, reshaped):
    """The builder of onnxruntime-genai shares the weights of the last product, which it reshapes."""
    proto = model(bits, zero_points=zero_points, reshaped=reshaped)
    feeds = {"words": RNG.integers(0, ROWS, (2, 5))}
    result = assert_rewritten(proto, feeds, refused=("GatherBlockQuantized",))
    assert [each.rewrite for each in result.applied] == ["lookup in dequantized blocks"]
