"""Dilated convolutions that keep the size, against sums by hand: ONNX Runtime refuses ``auto_pad`` there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime
import pytest

from edgekit.graph.reading.dilated_padding import write_out_dilated_padding
from edgekit.stages.load import Load

X = np.arange(1, 7, dtype=np.float32).reshape(1, 1, 6)
NODE = 'y = Conv <auto_pad = "{padding}", dilations = [{dilation}]{more}> (x, w)'


def model_of(padding: str, dilation: int = 2, length: int = 3, more: str = "") -> onnx.ModelProto:
    node = NODE.format(padding=padding, dilation=dilation, more=more)
    return onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : 17]> g (float[1, 1, 6] x) => (float[1, 1, t] y) '
        f"<float[1, 1, {length}] w = {{{', '.join('1' * length)}}}> {{ {node} }}"
    )


def run(model: onnx.ModelProto) -> np.ndarray:
    session = onnxruntime.InferenceSession(model.SerializeToString())
    return np.asarray(session.run(None, {"x": X})[0])


@pytest.mark.parametrize(
    ("padding", "dilation", "length", "expected"),
    [
        ("SAME_UPPER", 2, 3, [4, 6, 9, 12, 8, 10]),  # x[t - 2] + x[t] + x[t + 2]
        ("SAME_LOWER", 2, 3, [4, 6, 9, 12, 8, 10]),
        ("SAME_UPPER", 3, 2, [3, 5, 7, 9, 4, 5]),  # 3 to add: x[t - 1] + x[t + 2]
        ("SAME_LOWER", 3, 2, [2, 3, 5, 7, 9, 4]),  # x[t - 2] + x[t + 1]
    ],
)
def test_the_output_is_as_large_as_the_input(padding: str, dilation: int, length: int, expected: list[float]) -> None:
    proto = model_of(padding, dilation, length)
    with pytest.raises(Exception, match="Dilation not supported for AutoPadType"):
        run(proto)  # or the test shows nothing
    model = ir.from_proto(proto)
    assert write_out_dilated_padding(model.graph) == 1
    np.testing.assert_array_equal(run(ir.to_proto(model)).ravel(), expected)


@pytest.mark.parametrize(
    "model",
    [
        model_of("SAME_UPPER", dilation=1),
        model_of("VALID"),
        model_of("NOTSET", more=", pads = [1, 1]"),
        model_of("SAME_UPPER", more=", strides = [2]"),
    ],
    ids=["not dilated", "valid", "pads", "strides"],
)
def test_others_stay_as_they_are(model: onnx.ModelProto) -> None:
    graph_model = ir.from_proto(model)
    assert write_out_dilated_padding(graph_model.graph) == 0


def test_a_loaded_model_has_pads(tmp_path: Path) -> None:
    onnx.save(model_of("SAME_UPPER"), tmp_path / "m.onnx")
    model = Load()(tmp_path / "m.onnx").model
    assert list(model.graph.node(0).attributes.get_ints("pads")) == [2, 2]
