"""Sizes of pools that round up: they are those that ONNX Runtime makes."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.sizes.shapes import infer_shapes
from edgekit.model import Model

SETTINGS = [
    ("MaxPool", "kernel_shape = [2], strides = [3], pads = [1, 1]", 11),
    ("MaxPool", "kernel_shape = [1], strides = [2]", 8),
    ("MaxPool", 'kernel_shape = [1], strides = [2], auto_pad = "VALID"', 8),
    ("AveragePool", 'kernel_shape = [2], strides = [4], auto_pad = "VALID"', 8),
    ("AveragePool", "kernel_shape = [2], strides = [3], pads = [0, 1]", 12),
    ("AveragePool", "kernel_shape = [2], strides = [3], pads = [0, 1]", 11),
    ("MaxPool", "kernel_shape = [2], strides = [2], dilations = [3], pads = [0, 1]", 9),
]


def model(body: str, length: int | str, opset: int = 17) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]>\ng (float[1, 2, {length}] x) => (float[a, b, c] y) {{ {body} }}'
    )


def size(proto: onnx.ModelProto, *, strict: bool = True) -> object:
    """The last size of the output."""
    (value,) = infer_shapes(Model(ir.from_proto(proto)), strict=strict).graph.outputs
    assert value.shape is not None
    return value.shape[-1]


def executed(proto: onnx.ModelProto, length: int) -> int:
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return int(session.run(None, {"x": np.ones((1, 2, length), np.float32)})[0].shape[-1])


@pytest.mark.parametrize("opset", [12, 19, 22])
@pytest.mark.parametrize(("operator", "settings", "length"), SETTINGS)
def test_a_window_that_begins_in_the_padding_behind_does_not_count(
    operator: str, settings: str, length: int, opset: int
) -> None:
    proto = model(f"z = {operator} <ceil_mode = 1, {settings}> (x)  y = Neg (z)", length, opset)
    assert size(proto) == executed(proto, length)


def test_what_is_told_of_values_behind_the_pool_is_forgotten() -> None:
    two = "p = MaxPool <ceil_mode = 1, kernel_shape = [1], strides = [2]> (x)"
    proto = model(f"{two}  q = MaxPool <ceil_mode = 1, kernel_shape = [2], strides = [3]> (p)  y = Neg (q)", 12)
    told = onnx.shape_inference.infer_shapes(proto)
    assert [info.type.tensor_type.shape.dim[2].dim_value for info in told.graph.value_info] == [7, 3]  # still wrong
    told.graph.output[0].CopyFrom(proto.graph.output[0])
    assert size(told) == executed(proto, 12) == 2


def test_a_pool_in_a_branch() -> None:
    pool = "MaxPool <ceil_mode = 1, kernel_shape = [1], strides = [2]>"
    proto = model(
        "c = Constant <value = bool {1}> ()  y = If (c) <"
        f" then_branch = t () => (float[a, b, c] p) {{ p = {pool}(x) }},"
        f" else_branch = e () => (float[a, b, c] q) {{ n = Neg (x)  q = {pool}(n) }}>",
        8,
    )
    inferred = infer_shapes(Model(ir.from_proto(proto)))
    (branching,) = (node for node in inferred.graph if node.op_type == "If")
    (result,) = branching.attributes["else_branch"].as_graph().outputs
    assert result.shape is not None
    assert result.shape[-1] == executed(proto, 8) == 4


def test_open_sizes_and_pools_that_leave_no_window_out_are_as_onnx_has_them() -> None:
    pool = "y = MaxPool <ceil_mode = 1, kernel_shape = [3], strides = [2], pads = [1, 1]> (x)"
    assert not isinstance(size(model(pool, "L")), int)
    assert size(model(pool, 8)) == executed(model(pool, 8), 8) == 5
